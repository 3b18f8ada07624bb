"""ClipSpec: how shots become clips. Windows of frames, frame size, units of the trajectory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from sightline.cameras.token_grid import TEMPORAL_STRIDE
from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.errors import SightlineError

DEFAULT_CAPTION = "a video"


@dataclass(frozen=True)
class ClipSpec:
    """How shots become clips; the same for every source of a run."""

    num_frames: int = 81
    """Frames of a clip: 4 k + 1, since a latent frame covers four frames."""
    stride: int = 1
    """Take every stride-th frame of the shot; fps is divided by it."""
    hop: int | None = None
    """Frames of the shot between the starts of two windows; by default num_frames x stride, so that windows do not overlap."""
    width: int = 832
    height: int = 480
    near_depth: bool = False
    """Divide positions by the clip's near depth where the source knows it (the paper's 1/z_n)."""
    anchor: bool = True
    """Make the first camera of each window the identity, instead of keeping the source's world."""
    caption: str = DEFAULT_CAPTION
    """Caption of clips whose source has none."""

    def __post_init__(self) -> None:
        for name in ("num_frames", "stride", "width", "height", *(() if self.hop is None else ("hop",))):
            object.__setattr__(self, name, whole_number(name, getattr(self, name)))
        if self.num_frames % TEMPORAL_STRIDE != 1:
            raise SightlineError(
                f"num_frames is {self.num_frames}: expected {TEMPORAL_STRIDE} k + 1, such as 33 or 81."
            )
        if not self.caption.strip():
            raise SightlineError("caption is empty: expected some text for clips without one.")

    @classmethod
    def from_settings(cls, settings: Mapping[str, Any], place: str) -> ClipSpec:
        """The spec that the settings of a cache record. place: the cache, for an error."""
        names = [field.name for field in fields(cls)]
        if missing := [name for name in names if name not in settings]:
            raise SightlineError(f"{place}: its settings have no {missing[0]}, expected those of a cache.")
        return cls(**{name: settings[name] for name in names})

    def require(self, wanted: Mapping[str, Any], place: str) -> None:
        """Refuse wanted values that are not those of this spec. place: the cache that the spec is of."""
        for name, value in wanted.items():
            if value != getattr(self, name):
                raise SightlineError(f"{name} is {value}: expected {getattr(self, name)}, with which {place} was made.")

    @property
    def span(self) -> int:
        """Frames of the shot from the first to the last of a window, both included."""
        return (self.num_frames - 1) * self.stride + 1

    def starts(self, length: int) -> range:
        """First frames of the windows that fit into a shot of this length; a shot that is too short is an error."""
        if length < self.span:
            raise SightlineError(
                f"found {length} frames, expected at least {self.span} for {self.num_frames} frames at stride {self.stride}."
            )
        return range(0, length - self.span + 1, self.hop or self.num_frames * self.stride)

    def indices(self, start: int) -> range:
        """Indices of the window's frames in the shot."""
        return range(start, start + self.span, self.stride)

    def trajectory(
        self, shot: Trajectory, start: int, eta: float, stored_size: tuple[int, int] | None = None
    ) -> Trajectory:
        """The window's trajectory in training units, for frames of this spec's size.

        eta: the source's factor on positions. stored_size: (width, height) of the frames as stored, which may be smaller
        than those the cameras were measured on (DL3DV's images_4); None means the shot's own size.
        """
        indices = list(self.indices(start))
        window = shot.replace(
            camera_to_world=shot.camera_to_world[indices],
            intrinsics=shot.intrinsics[indices],
            fps=shot.fps / self.stride,
        )
        if self.anchor:
            window = window.anchored()
        window = window.scaled(self.scale(shot, eta)).replace(unit=self.unit(shot, eta))
        if stored_size is not None and stored_size != (window.width, window.height):
            window = window.resized(*stored_size)
        return window.fit_to(self.width, self.height)

    def scale(self, shot: Trajectory, eta: float) -> float:
        """The factor on positions: eta, or eta / z_n where near_depth is set and the shot's near depth is known."""
        return eta / shot.near_depth if self.near_depth and shot.near_depth else eta

    def unit(self, shot: Trajectory, eta: float) -> str:
        """The unit of the window's trajectory: that of the shot, but a scaled metre is none."""
        return "scene" if shot.unit == "metre" and self.scale(shot, eta) != 1.0 else shot.unit
