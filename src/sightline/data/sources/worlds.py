"""The procedural worlds as a source: every seed is a shot, rendered when its frames are read.

    worlds:walkthrough    worlds:orbit    worlds:panorama    worlds:openworld

The styles stand in for RealEstate10K, DL3DV, PanShot and OmniWorld: each moves like its dataset and reports poses in the
units of its dataset, so openworld has eta 20. Frames are rendered from the true cameras; trajectories are the reported
ones. With unit=metre, trajectories are the true ones and eta is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image

from sightline import __version__
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.data.clip_spec import ClipSpec
from sightline.data.frames import FittedFrames, FrameReader, fit_frames
from sightline.data.sources._source import ShotBatch, Source
from sightline.errors import SightlineError
from sightline.worlds import STYLES, WorldBatch, render_depth, sample_batch

_ETA = {"openworld": 20.0}
_UNITS = ("reported", "metre")
_DEFAULT_SPEC = ClipSpec()  # length and size of a shot by default


class Worlds(Source):
    kind = "worlds"

    def __init__(
        self,
        style: str,
        *,
        clips: int = 100,
        seed: int = 0,
        num_frames: int | None = None,
        width: int | None = None,
        height: int | None = None,
        device: str = "cpu",
        unit: str = "reported",
        returning: float = 0.0,
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """clips: number of shots. seed: of the first shot. num_frames, width, height: of a shot; by default those of the
        clips. device: where shots are rendered. unit: of positions, `reported` as in the style's dataset or `metre`.
        returning: the fraction of shots whose camera returns to where it started; by default no shot does."""
        if style not in STYLES:
            raise SightlineError(f"the style of worlds is {style!r}: expected one of {', '.join(STYLES)}.")
        if unit not in _UNITS:
            raise SightlineError(f"unit of worlds is {unit!r}: expected one of {', '.join(_UNITS)}.")
        default_eta = 1.0 if unit == "metre" else _ETA.get(style, 1.0)
        super().__init__(name or style, default_eta if eta is None else eta)
        for option, value in (("num_frames", num_frames), ("width", width), ("height", height)):
            if value is not None:
                whole_number(option, value)
        whole_number("seed + 1", seed + 1)
        _require_device(device)
        self.style, self.clips, self.seed = style, whole_number("clips", clips), seed
        self.num_frames, self.width, self.height, self.device, self.unit = num_frames, width, height, device, unit
        self.returning = number("returning", returning, at_least=0.0)
        if self.returning > 1:
            raise SightlineError(f"returning is {returning!r}: expected a fraction between 0 and 1.")
        self._last: tuple[str, ShotBatch] | None = None

    def shots(self) -> list[str]:
        return [f"{seed:08d}" for seed in range(self.seed, self.seed + self.clips)]

    def trajectory(self, shot: str) -> Trajectory:
        return self._sample(shot).trajectories[0]

    def length(self, shot: str) -> int:
        return self.num_frames or _DEFAULT_SPEC.num_frames  # without building the scene

    def frames(self, shot: str) -> FrameReader:
        return _RenderedPictures(self._sample(shot).scenes, self.device)

    def caption(self, shot: str, indices: Sequence[int]) -> str | None:
        return self._sample(shot).scenes.captions[0]

    def has_caption(self, shot: str, indices: Sequence[int]) -> bool:
        return True  # without building the scene

    def for_spec(self, spec: ClipSpec) -> Source:
        return Worlds(
            self.style,
            clips=self.clips,
            seed=self.seed,
            num_frames=self.num_frames or spec.span,
            width=self.width or spec.width,
            height=self.height or spec.height,
            device=self.device,
            unit=self.unit,
            returning=self.returning,
            name=self.name,
            eta=self.eta,
        )

    def settings(self) -> dict[str, Any]:
        options: dict[str, Any] = {
            "style": self.style,
            "shot": [self.num_frames, self.width, self.height],
            "device": self.device,
            "unit": self.unit,
            "returning": self.returning,
        }
        return {**super().settings(), **options, "version": __version__}  # another version may render other pixels

    def renders(self, spec: ClipSpec) -> bool:
        return (self.num_frames, self.width, self.height) == (spec.span, spec.width, spec.height)

    def sample_shots(self, shots: Sequence[str]) -> ShotBatch:
        default = _DEFAULT_SPEC
        frames, width, height = (
            self.num_frames or default.num_frames,
            self.width or default.width,
            self.height or default.height,
        )
        scenes = sample_batch(self.style, [int(shot) for shot in shots], frames, width, height, self.returning)
        reported = tuple(scenes.reported_trajectory(index) for index in range(len(scenes)))
        if self.unit == "reported":
            return ShotBatch(scenes, reported, tuple(scenes.scale.tolist()))
        true = tuple(
            scenes.true_trajectory(index).replace(
                near_depth=trajectory.near_depth
            )  # known in metres, where it is known
            for index, trajectory in enumerate(reported)
        )
        return ShotBatch(scenes, true, (1.0,) * len(true))

    def knows_depth(self, spec: ClipSpec) -> bool:
        return self.renders(spec)

    def depth(self, shot: str, frame: int, spec: ClipSpec) -> np.ndarray | None:  # -> [H, W]
        if not self.renders(spec):
            return None
        shots = self._sample(shot)
        scenes, frames = shots.scenes, slice(frame, frame + 1)
        depth = render_depth(
            scenes.scenes,
            scenes.camera_to_world[:, frames],
            scenes.intrinsics[:, frames],
            scenes.xi,
            scenes.width,
            scenes.height,
            seconds=scenes.seconds[:, frames],
        )[0, 0]
        return (depth * shots.scale(0, spec, self.eta)).numpy()

    def _sample(self, shot: str) -> ShotBatch:
        """One shot. The last one is kept, since its camera, pixels and caption are read one after another."""
        if self._last is None or self._last[0] != shot:
            self._last = shot, self.sample_shots([shot])
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}  # processes that sample shots need none of this one's


def _require_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # an unknown kind of device, or none on this machine
        raise SightlineError(f"device is {device!r}: expected cpu, or cuda where there is one.") from None


@dataclass(frozen=True)
class _RenderedPictures:
    """The frames of one shot. All of them are rendered, since things in a world move with the time of a frame."""

    scenes: WorldBatch
    device: str

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        frames = self.scenes.render_frames(self.device)[0].cpu()  # [T, H, W, 3] uint8
        return fit_frames((Image.fromarray(frames[index].numpy()) for index in indices), width, height, "a world")
