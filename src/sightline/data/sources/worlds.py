"""The procedural worlds as a source: every seed is a shot, filmed when its pixels are asked for.

    worlds:walkthrough    worlds:orbit    worlds:panorama    worlds:openworld

Stand-ins for RealEstate10K, DL3DV, PanShot and OmniWorld: each style moves as its source does and reports its poses in
the units its source would, so openworld has eta 20. The cameras of a clip are the reported ones, the pixels the true ones'.
With unit=metre the cameras are the true ones too, and eta is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from PIL import Image

from sightline import __version__
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.data.clip_spec import ClipSpec
from sightline.data.pictures import FittedFrames, Pictures, fitted
from sightline.data.sources._source import Source
from sightline.errors import SightlineError
from sightline.worlds import STYLES, WorldClip, film, sample_clip

_ETA = {"openworld": 20.0}
_UNITS = ("reported", "metre")
_DEFAULT_SPEC = ClipSpec()  # what a shot measures when nobody says


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
        """clips: how many shots. seed: of the first. num_frames, width, height: of a shot; without them, as the spec asks.
        device: where it is filmed. unit: of positions, as the style's source would report them or metres.
        returning: the share of shots whose camera comes back to where it started; none of the styles does by itself."""
        if style not in STYLES:
            raise SightlineError(f"the style of worlds is {style!r}: expected one of {', '.join(STYLES)}.")
        if unit not in _UNITS:
            raise SightlineError(f"unit of worlds is {unit!r}: expected one of {', '.join(_UNITS)}.")
        usual = 1.0 if unit == "metre" else _ETA.get(style, 1.0)
        super().__init__(name or style, usual if eta is None else eta)
        for option, value in (("num_frames", num_frames), ("width", width), ("height", height)):
            if value is not None:
                whole_number(option, value)
        whole_number("seed + 1", seed + 1)
        _require_device(device)
        self.style, self.clips, self.seed = style, whole_number("clips", clips), seed
        self.num_frames, self.width, self.height, self.device, self.unit = num_frames, width, height, device, unit
        self.returning = number("returning", returning, at_least=0.0)
        if self.returning > 1:
            raise SightlineError(f"returning is {returning!r}: expected a share between 0 and 1.")
        self._last: tuple[str, WorldClip] | None = None

    def shots(self) -> list[str]:
        return [f"{seed:08d}" for seed in range(self.seed, self.seed + self.clips)]

    def trajectory(self, shot: str) -> Trajectory:
        world = self._sampled(shot)
        # The one style that knows its near depth reports metres.
        return world.true.replace(near_depth=world.reported.near_depth) if self.unit == "metre" else world.reported

    def length(self, shot: str) -> int:
        return self.num_frames or _DEFAULT_SPEC.num_frames  # without building the scene

    def pictures(self, shot: str) -> Pictures:
        return _Filmed(self._sampled(shot), self.device)

    def caption(self, shot: str, indices: Sequence[int]) -> str | None:
        return self._sampled(shot).caption

    def filmed_for(self, spec: ClipSpec) -> Source:
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
        made: dict[str, Any] = {
            "style": self.style,
            "shot": [self.num_frames, self.width, self.height],
            "device": self.device,
        }
        made |= {"unit": self.unit} if self.unit == "metre" else {}  # caches of reported units stay what they were
        made |= {"returning": self.returning} if self.returning else {}
        return {**super().settings(), **made, "version": __version__}  # another version may film another picture

    def _sampled(self, shot: str) -> WorldClip:
        """The last one is kept: its cameras, pixels and caption are asked for one after another."""
        if self._last is None or self._last[0] != shot:
            size = (
                self.num_frames or _DEFAULT_SPEC.num_frames,
                self.width or _DEFAULT_SPEC.width,
                self.height or _DEFAULT_SPEC.height,
            )
            self._last = shot, sample_clip(self.style, int(shot), *size, self.returning)
        return self._last[1]


def _require_device(device: str) -> None:
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError):  # no such kind, or none on this machine
        raise SightlineError(f"device is {device!r}: expected cpu, or cuda where there is one.") from None


@dataclass(frozen=True)
class _Filmed:
    """All frames of a shot are filmed, since things in a world move with the time of a frame."""

    sampled: WorldClip
    device: str

    def read(self, indices: Sequence[int], width: int, height: int) -> FittedFrames:
        frames = film(self.sampled.scene.to(self.device), self.sampled.true).frames  # [T, H, W, 3] uint8
        return fitted((Image.fromarray(frames[index].numpy()) for index in indices), width, height, "a world")
