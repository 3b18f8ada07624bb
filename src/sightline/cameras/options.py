"""The options of commands that make a trajectory from moves or read one from a file: one definition for all of them."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import UseAppendAction, arg

from sightline.cameras import defaults
from sightline.option_types import OptionalFloat, OptionalInt, OptionalName
from sightline.parsing import parse_assignment, parse_scalar

if TYPE_CHECKING:
    from sightline.cameras.moves import MoveLine
    from sightline.cameras.token_grid import TokenStride
    from sightline.cameras.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True)
class LensOptions:
    """The lens and the frame rate, of moves and of files that carry none."""

    focal_mm: OptionalFloat = None
    """Focal length on a sensor as wide as the picture, 36 mm: of the first frame of a move (default: 28, or what the first zoom
    starts from), or of a trajectory file without a lens (default: 28)."""
    fps: OptionalFloat = None
    """Frames per second, of moves and of trajectory files without time. Default: 16."""


@dataclass(frozen=True, kw_only=True)
class MoveOptions(LensOptions):
    """How moves become a trajectory."""

    easing: OptionalName = None
    """Of moves: linear, ease, ease_in or ease_out. Default: linear, and ease for the loops."""
    target_depth: OptionalFloat = None
    """Distance of the subject of orbit, arc, spiral, crane and dolly zoom, in scene units: the radius of an orbit. Default: the
    depth in the middle of the picture where it is known (a world), else 2."""

    def num_frames_of(self, line: MoveLine, default: int, stride: TokenStride) -> int:
        """As many frames as the moves take, where all of them name their seconds, rounded to whole tokens; else the default."""
        fps = defaults.FPS if self.fps is None else self.fps
        return line.num_frames(fps, stride.nearest_num_frames) or default

    def describe_subject(self, line: MoveLine, known: float | None = None) -> str:
        """The distance of the subject, the radius of an orbit, and where it came from; empty where no move has a subject.

        known: the depth of the picture, where it is known.
        """
        from sightline.cameras.moves import DEFAULT_TARGET_DEPTH

        parts = [f"{depth:g} (the move)" for depth in dict.fromkeys(line.target_depths)]
        if line.needs_subject and self.target_depth is not None:
            parts.append(f"{self.target_depth:g} (--target-depth)")
        elif line.needs_subject and known is not None:
            parts.append(f"{known:.4g} (the depth in the middle of the picture)")
        elif line.needs_subject:
            parts.append(f"{DEFAULT_TARGET_DEPTH:g} (default)")
        return f"radius {', '.join(parts)}" if parts else ""

    def make(
        self, line: MoveLine, frames: int, width: int, height: int, target_depth: float | None = None
    ) -> Trajectory:
        """The trajectory of a line of moves. target_depth: where the option is not given. Warns of implausible amounts."""
        from sightline.cameras.plausibility import implausible_moves

        options: Any = _given(focal_mm=self.focal_mm, fps=self.fps, easing=self.easing)
        subject = target_depth if self.target_depth is None else self.target_depth
        trajectory = line.trajectory(target_depth=subject, frames=frames, width=width, height=height, **options)
        for sentence in implausible_moves(trajectory):
            warnings.warn(f"move {str(line)!r}: {sentence}", stacklevel=2)
        return trajectory


@dataclass(frozen=True, kw_only=True)
class ReadOptions(LensOptions):
    """How trajectory files are read: the options supply what a format does not carry."""

    format: OptionalName = None
    """Format of the trajectory file. Default: detected from the content."""
    width: OptionalInt = None
    """Image width in pixels, for trajectory files that do not carry it."""
    height: OptionalInt = None
    """Image height in pixels, for trajectory files that do not carry it."""
    axes: OptionalName = None
    """Camera axes of a file of plain matrices: opencv (x right, y down, z forward) or opengl (x right, y up, z backward).
    Default: opencv."""
    direction: OptionalName = None
    """What the matrices of such a file do: camera-to-world or world-to-camera. Default: camera-to-world."""
    option: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Another option of the format's reader (docs/formats.md)."""

    def load(self, file: Path) -> Trajectory:
        """Read a trajectory file with these options."""
        from sightline.cameras.trajectory import Trajectory

        options = _given(
            width=self.width,
            height=self.height,
            focal_mm=self.focal_mm,
            fps=self.fps,
            axes=self.axes,
            direction=self.direction,
        )
        for assignment in self.option:
            name, value = parse_assignment("option", assignment)
            options[name] = parse_scalar(value)
        return Trajectory.load(file, format=self.format, **options)


# The options that only moves, or only files, have.
MOVE_ONLY = tuple(field.name for field in fields(MoveOptions) if field.name not in LensOptions.__dataclass_fields__)
FILE_ONLY = tuple(field.name for field in fields(ReadOptions) if field.name not in LensOptions.__dataclass_fields__)


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}
