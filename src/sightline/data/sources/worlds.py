"""The procedural worlds as a source: every seed is a scene, and shots of it are rendered when their frames are read.

    worlds:walkthrough    worlds:orbit    worlds:panorama    worlds:openworld

A shot is named by the seed of its scene, the number of its camera path where there are several, and by what is done with the
rendering: 00000007, 00000007-2, 00000007-2m (mirrored), 00000007-2r (reversed), 00000007-2mr (both).

The styles stand in for RealEstate10K, DL3DV, PanShot and OmniWorld: each moves like its dataset and reports poses in the
units of its dataset, so openworld has eta 20. Frames are rendered from the true cameras; trajectories are the reported
ones. With unit=metre, trajectories are the true ones and eta is 1.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sightline import __version__
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.data.clip_spec import ClipSpec
from sightline.data.frames import FittedFrames, FrameReader, fit_frames
from sightline.data.shot_batch import ShotBatch
from sightline.data.sources._source import Source
from sightline.errors import SightlineError
from sightline.worlds import STYLES, render_depth, sample_batch

_SHOT = re.compile(r"(\d+)(?:-(\d+))?(m?)(r?)")
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
        paths: int = 1,
        moves: float = 0.0,
        mirrored: bool = False,
        reversed: bool = False,
        name: str | None = None,
        eta: float | None = None,
    ) -> None:
        """clips: number of camera paths, `paths` in each scene. seed: of the first scene. num_frames, width, height: of a shot;
        by default those of the clips. device: where shots are rendered. unit: of positions, `reported` as in the style's
        dataset or `metre`. returning: the fraction of paths that return to where they started; by default none does.
        moves: the fraction of paths that follow a random line of the move language. mirrored, reversed: add to each shot
        its mirror image, and its frames in reverse order."""
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
        self.returning, self.moves = _fraction("returning", returning), _fraction("moves", moves)
        self.paths, self.mirrored, self.reversed = whole_number("paths", paths), mirrored, reversed
        if reversed and style == "openworld":
            raise SightlineError("reversed is true for openworld, where things move: expected another style.")
        self._last: tuple[str, ShotBatch] | None = None

    def shots(self) -> list[str]:
        suffixes = [m + r for r in ("", "r")[: 1 + self.reversed] for m in ("", "m")[: 1 + self.mirrored]]
        takes = [(self.seed + take // self.paths, take % self.paths) for take in range(self.clips)]
        names = [f"{seed:08d}-{path}" if self.paths > 1 else f"{seed:08d}" for seed, path in takes]
        return [name + suffix for name in names for suffix in suffixes]

    def scene(self, shot: str) -> str:
        return f"{_parse(shot)[0]:08d}"

    def move(self, shot: str) -> str:
        """The line of the move language that the camera follows, before mirroring and reversing; empty for the style's own."""
        return self._sample(shot).takes.moves[0]

    def trajectory(self, shot: str) -> Trajectory:
        return self._sample(shot).trajectory(0)

    def length(self, shot: str) -> int:
        return self.num_frames or _DEFAULT_SPEC.num_frames  # without building the scene

    def frames(self, shot: str) -> FrameReader:
        return _RenderedPictures(self._sample(shot), self.device)

    def caption(self, shot: str, indices: Sequence[int]) -> str | None:
        return self._sample(shot).captions[0]

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
            paths=self.paths,
            moves=self.moves,
            mirrored=self.mirrored,
            reversed=self.reversed,
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
            "moves": self.moves,
        }
        return {**super().settings(), **options, "version": __version__}  # another version may render other pixels

    def in_metres(self) -> Source:
        twin = copy.copy(self)
        twin.unit, twin.eta, twin._last = "metre", 1.0, None
        return twin

    def units_per_metre(self, reported: Tensor) -> Tensor:  # [B] -> [B]
        return self.eta * (reported if self.unit == "reported" else torch.ones_like(reported))

    def renders(self, spec: ClipSpec) -> bool:
        return (self.num_frames, self.width, self.height) == (spec.span, spec.width, spec.height)

    def sample_shots(self, shots: Sequence[str]) -> ShotBatch:
        default = _DEFAULT_SPEC
        frames, width, height = (
            self.num_frames or default.num_frames,
            self.width or default.width,
            self.height or default.height,
        )
        parsed = [_parse(shot) for shot in shots]
        takes = {take: number for number, take in enumerate(dict.fromkeys((seed, path) for seed, path, _, _ in parsed))}
        seeds, paths = zip(*takes, strict=True)
        world = sample_batch(self.style, seeds, frames, width, height, self.returning, paths=paths, moves=self.moves)
        take = torch.tensor([takes[seed, path] for seed, path, _, _ in parsed])
        scale = world.scale if self.unit == "reported" else torch.ones_like(world.scale)
        return ShotBatch(
            world,
            take,
            mirrored=torch.tensor([mirrored for _, _, mirrored, _ in parsed]),
            backwards=torch.tensor([backwards for _, _, _, backwards in parsed]),
            units_per_metre=scale[take],
            unit="metre" if self.unit == "metre" or self.style == "panorama" else "scene",
        )

    def knows_depth(self, spec: ClipSpec) -> bool:
        return self.renders(spec)

    def depth(self, shot: str, frame: int, spec: ClipSpec) -> np.ndarray | None:  # -> [H, W]
        if not self.renders(spec):
            return None
        shots = self._sample(shot)
        takes = shots.takes
        at = len(takes.seconds[0]) - 1 - frame if bool(shots.backwards[0]) else frame
        chosen = slice(at, at + 1)
        depth = render_depth(
            takes.scenes,
            takes.camera_to_world[:, chosen],
            takes.intrinsics[:, chosen],
            takes.xi,
            takes.width,
            takes.height,
            seconds=takes.seconds[:, chosen],
        )
        units = shots.units_per_metre[0] * shots.scales(spec, self.eta)[0]
        return (shots.show(depth)[0, 0] * float(units)).numpy()

    def _sample(self, shot: str) -> ShotBatch:
        """One shot. The last one is kept, since its camera, pixels and caption are read one after another."""
        if self._last is None or self._last[0] != shot:
            self._last = shot, self.sample_shots([shot])
        return self._last[1]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_last": None}  # processes that sample shots need none of this one's


def _parse(shot: str) -> tuple[int, int, bool, bool]:
    """Seed and path of a shot, and whether it is mirrored and reversed."""
    match = _SHOT.fullmatch(shot)
    if match is None:
        raise SightlineError(f"shot is {shot!r}: expected a name such as 00000007 or 00000007-2mr.")
    seed, path, mirrored, backwards = match.groups()
    return int(seed), int(path or 0), bool(mirrored), bool(backwards)


def _fraction(name: str, value: float) -> float:
    if number(name, value, at_least=0.0) > 1:
        raise SightlineError(f"{name} is {value!r}: expected a fraction between 0 and 1.")
    return float(value)


def _require_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # an unknown kind of device, or none on this machine
        raise SightlineError(f"device is {device!r}: expected cpu, or cuda where there is one.") from None


@dataclass(frozen=True)
class _RenderedPictures:
    """The frames of one shot. All of them are rendered, since things in a world move with the time of a frame."""

    shots: ShotBatch
    device: str

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        frames = self.shots.show(self.shots.takes.render_frames(self.device))[0].cpu()  # [T, H, W, 3] uint8
        return fit_frames((Image.fromarray(frames[index].numpy()) for index in indices), width, height, "a world")
