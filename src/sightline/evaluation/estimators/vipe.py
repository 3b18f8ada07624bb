"""ViPE (Huang et al. 2025): runs the tool `vipe`, or reads an existing output folder.

The tool needs CUDA and downloads its networks. Its scale is metric by a learned depth, not by the depth of frame 0. Its output
is pose/NAME.npz and intrinsics/NAME.npz (see cameras/formats/vipe.py).
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sightline.cameras.formats._arrays import npz_array
from sightline.cameras.formats._files import InputFile
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.evaluation.estimators.protocol import Estimate, Hints, check_video, failure
from sightline.evaluation.units import METRE
from sightline.video import save_video


@dataclass(frozen=True)
class Vipe:
    """folder: an output folder of ViPE to read; without it the tool is run."""

    folder: str | Path | None = None
    command: str = "vipe"
    registered: float = 0.9
    """Fraction of the frames that must have a pose; the others are interpolated."""
    timeout: float = 3600.0
    """Seconds after which a run of the tool is stopped."""
    name: str = "vipe"

    @property
    def reads_files(self) -> bool:
        return self.folder is not None

    def unit(self, clip_unit: str, has_depth: bool) -> str | None:
        return METRE

    def require_installed(self) -> None:
        if self.folder is None and shutil.which(self.command) is None:
            raise SightlineError(
                f"{self.command} is not installed: expected ViPE's command line tool, or the option folder with its output."
            )

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        video = check_video(video)
        if self.folder is not None:
            if hints.name is None:
                raise SightlineError(
                    f"folder is {self.folder}: expected the video's name in the hints to find its poses."
                )
            return self._read(Path(self.folder), hints.name, video, hints)
        self.require_installed()
        with tempfile.TemporaryDirectory(prefix="sightline-vipe-") as work:
            clip, out = Path(work) / "clip.mp4", Path(work) / "out"
            save_video(video, clip, fps=hints.lens.fps if hints.lens is not None else 16.0)
            try:
                done = subprocess.run(
                    [self.command, "infer", str(clip), "-o", str(out)],
                    capture_output=True,
                    text=True,
                    timeout=self.timeout,
                )
            except subprocess.TimeoutExpired:
                return failure(f"{self.command} took longer than {self.timeout:g} seconds.")
            if done.returncode:
                last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["it printed nothing"]
                return failure(f"{self.command} ended with code {done.returncode}: {last[0]}.")
            return self._read(out, "clip", video, hints)

    def _read(self, folder: Path, name: str, video: np.ndarray, hints: Hints) -> Estimate:
        file = folder / "pose" / f"{name}.npz"
        if not file.is_file():
            return failure(f"{file} does not exist: ViPE placed no camera.")
        height, width = video.shape[1:3]
        placed = npz_array(InputFile(file), "inds").ravel()
        fraction = len(placed) / len(video)
        details = {"registered": len(placed), "frames": len(video)}
        if fraction < self.registered or placed[0] != 0:
            missing = "frame 0" if len(placed) and placed[0] else f"{len(video) - len(placed)} of {len(video)} frames"
            return failure(f"ViPE placed no camera for {missing}.", fraction, **details)
        trajectory = Trajectory.load(file, format="vipe", missing="fill", width=width, height=height)
        if len(trajectory) > len(video):
            return failure(f"{file} has {len(trajectory)} frames but the video has {len(video)}.", **details)
        if len(trajectory) < len(video):  # the last frames have no pose: the camera stays where it was last
            keep = np.minimum(np.arange(len(video)), len(trajectory) - 1)
            poses, intrinsics = trajectory.camera_to_world[keep], trajectory.intrinsics[keep]
            trajectory = trajectory.replace(camera_to_world=poses, intrinsics=intrinsics)
        return Estimate(trajectory.anchored().replace(unit=METRE), None, fraction, details)
