"""Clip: video frames with the camera that took them; and the report of clips that could not be read."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.files import failure

_LOG = logging.getLogger("sightline.data")
_REPORTED_ONE_BY_ONE = 20  # after this many, skips are only counted


Item = TypeVar("Item", covariant=True)


class Indexed(Protocol[Item]):
    """Anything that gives a clip, encoded or not, for an index."""

    def __getitem__(self, index: int, /) -> Item: ...

    def name_of(self, index: int, /) -> tuple[str, str]:
        """The source and the name of a clip, without reading it."""


@dataclass(frozen=True, eq=False)
class Clip:
    """Frames, the camera that took them, and a caption.

    frames: [T, H, W, 3] uint8.
    trajectory: T frames for pictures of this size, anchored and scaled as the ClipSpec says.
    name: unique within its source and the same in every run: the shot, and the first frame of the window.
    scene: the place that the clip shows. The split into training and held-out clips goes by scene.
    has_caption: whether the source has this caption; False where it is the ClipSpec's for clips without one.
    depth: [H, W] of frame 0 along the optical axis, in the trajectory's unit; None where it is unknown or was not asked for.
    """

    frames: np.ndarray
    trajectory: Trajectory
    caption: str
    source: str
    name: str
    scene: str = ""
    depth: np.ndarray | None = None
    has_caption: bool = True

    def __post_init__(self) -> None:
        frames, trajectory = self.frames, self.trajectory
        if not isinstance(frames, np.ndarray) or frames.dtype != np.uint8 or frames.ndim != 4 or frames.shape[3] != 3:
            kind = f"{getattr(frames, 'dtype', type(frames).__name__)} {list(getattr(frames, 'shape', []))}"
            raise SightlineError(f"frames of {self.name!r} are {kind}: expected uint8 [T, H, W, 3].")
        if frames.shape[:3] != (len(trajectory), trajectory.height, trajectory.width):
            raise SightlineError(
                f"frames of {self.name!r} have shape {list(frames.shape)}: expected [{len(trajectory)}, "
                f"{trajectory.height}, {trajectory.width}, 3] as the trajectory says."
            )
        if self.depth is not None and self.depth.shape != frames.shape[1:3]:
            raise SightlineError(
                f"depth of {self.name!r} has shape {list(self.depth.shape)}: expected {list(frames.shape[1:3])}."
            )
        for field in ("caption", "source", "name"):
            if not isinstance(getattr(self, field), str) or not getattr(self, field).strip():
                raise SightlineError(f"{field} is {getattr(self, field)!r}: expected some text.")


@dataclass(frozen=True)
class Skip:
    """A clip that could not be read, and the reason. unexpected: the reason is no known fault of its data."""

    source: str
    name: str
    reason: str
    unexpected: bool = False


class Skips(list[Skip]):
    """The clips that could not be read so far. In strict mode, the first one raises its error."""

    def __init__(self, strict: bool = False) -> None:
        super().__init__()
        self.strict = strict

    def report(self, source: str, name: str, error: Exception) -> Skip:
        sentence = failure(error)
        if self.strict:
            raise SightlineError(f"{source}/{name}: {sentence}") from None
        skip = Skip(source, name, sentence, unexpected=not isinstance(error, SightlineError))
        self.append(skip)
        if len(self) <= _REPORTED_ONE_BY_ONE:
            _LOG.warning("skipped %s/%s: %s", source, name, sentence)
        if len(self) == _REPORTED_ONE_BY_ONE:
            _LOG.warning("further skipped clips are only counted")
        return skip

    def log_count(self) -> None:
        """Log how many clips were skipped, if any."""
        if self:
            _LOG.warning("skipped %d clip%s", len(self), "" if len(self) == 1 else "s")
