"""sightline trajectory: make, show, convert and compare camera trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from sightline.cameras import defaults
from sightline.cameras.token_grid import TEMPORAL_STRIDE
from sightline.cli._console import print_line, print_table
from sightline.cli._trajectory_tables import format_range, print_formats, print_moves, print_statistics, print_summary
from sightline.errors import SightlineError
from sightline.option_types import OptionalFile, OptionalFloat, OptionalInt, OptionalName, OptionalSize
from sightline.parsing import parse_assignment, parse_scalar, parse_size

if TYPE_CHECKING:
    from sightline.cameras.trajectory import Trajectory


def main(arguments: Sequence[str]) -> None:
    """Parse and run one of the commands. Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {
        "make": Make, "show": Show, "convert": Convert, "compare": Compare, "moves": Moves, "formats": Formats,
    }  # fmt: skip
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline trajectory", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    command.run()


@dataclass
class Make:
    """Make a trajectory from camera moves, and print its statistics."""

    moves: Annotated[Positional[str], arg(metavar="MOVES")]
    """One move "orbit:30", simultaneous moves "orbit:30+zoom:28>50", consecutive moves "truck:1, pan:-30". Use quotes."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE", help_behavior_hint="")] = None
    """File to write; without it nothing is written."""
    format: OptionalName = None
    """Format of the file; by default the one its ending names, else sightline json."""
    frames: int = defaults.NUM_FRAMES
    """Frames of the whole trajectory; consecutive moves divide them evenly."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = f"{defaults.WIDTH}x{defaults.HEIGHT}"
    """Image size in pixels."""
    fps: float = defaults.FPS
    """Frames per second."""
    focal_mm: OptionalFloat = None
    """Focal length of the first frame on a sensor 36 mm wide; by default 28, or what the first zoom starts from."""
    easing: OptionalName = None
    """linear, ease, ease_in or ease_out; the default is linear, and ease for the loops."""
    plot: OptionalFile = None
    """Figure to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras import moves
        from sightline.figures import check_figure_path

        if self.plot is not None:
            check_figure_path(self.plot)  # refused before anything is written
        width, height = parse_size(self.size)
        options: Any = {"frames": self.frames, "width": width, "height": height, "fps": self.fps}
        options |= _without_none(focal_mm=self.focal_mm, easing=self.easing)
        trajectory = moves.parse(self.moves, **options)
        print_statistics(self.moves, trajectory)
        if self.output is not None:
            trajectory.save(self.output, format=self.format)
            print_line(f"wrote {self.output}")
        if self.plot is not None:
            trajectory.plot(self.plot, title=self.moves)
            print_line(f"drew {self.plot}")


@dataclass
class _Reading:
    """How to read trajectory files: the options supply what a format does not carry."""

    format: OptionalName = None
    """Format of the input; by default it is detected from the content."""
    width: OptionalInt = None
    """Image width in pixels, for formats that do not carry it."""
    height: OptionalInt = None
    """Image height in pixels, for formats that do not carry it."""
    focal_mm: OptionalFloat = None
    """Focal length on a sensor 36 mm wide, for formats without a lens."""
    fps: OptionalFloat = None
    """Frames per second, for formats without time."""
    option: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Another option of the format's reader."""

    def load(self, file: Path) -> Trajectory:
        from sightline.cameras.trajectory import Trajectory

        options = _without_none(width=self.width, height=self.height, focal_mm=self.focal_mm, fps=self.fps)
        for assignment in self.option:
            name, value = parse_assignment("option", assignment)
            options[name] = parse_scalar(value)
        return Trajectory.load(file, format=self.format, **options)


@dataclass
class Show(_Reading):
    """Print the statistics of trajectory files and draw them; several files share one table and one figure."""

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE ...", help_behavior_hint="")] = ()
    """Trajectory files, or COLMAP folders."""
    plot: OptionalFile = None
    """Figure to draw: .png, .svg or .pdf; by default NAME.trajectory.png in the current folder."""
    latent: bool = False
    """Show the poses of the latent frames: every fourth, of 4 k + 1 frames."""

    def run(self) -> None:
        from sightline.figures import check_figure_path, draw_trajectories

        if self.plot is not None:
            check_figure_path(self.plot)
        if not self.files:
            raise SightlineError("files is empty: expected at least one trajectory file.")
        trajectories = [self.load(file) for file in self.files]
        names = [file.resolve().name for file in self.files]
        if self.latent:
            trajectories = [_latent_frames(name, one) for name, one in zip(names, trajectories, strict=True)]
        if len(trajectories) == 1:
            print_statistics(names[0], trajectories[0])
            default, title, labels = Path(f"{Path(names[0]).stem}.trajectory.png"), names[0], None
        else:
            print_summary(names, trajectories)
            default, title, labels = Path("trajectories.png"), f"{len(trajectories)} camera trajectories", names
        plot = self.plot or default
        draw_trajectories(trajectories, plot, title=title, labels=labels)
        print_line(f"drew {plot}")


@dataclass
class Convert(_Reading):
    """Write a trajectory file in another format, and print what that format cannot carry."""

    source: Annotated[Positional[Path], arg(metavar="IN")] = tyro.MISSING
    """Trajectory file to read."""
    target: Annotated[Positional[Path], arg(metavar="OUT")] = tyro.MISSING
    """Trajectory file to write."""
    to: OptionalName = None
    """Format to write; by default the one that the ending of OUT names, else sightline json."""
    anchor: bool = False
    """Make the first camera the identity."""
    scale: OptionalFloat = None
    """Multiply every distance by this."""
    frames: OptionalInt = None
    """Resample to this number of frames, over the same duration."""
    size: OptionalSize = None
    """Fit to this image size: scaled evenly to cover it, then cropped in the middle."""

    def run(self) -> None:
        from sightline.cameras.formats import FORMATS, detect

        trajectory = self.load(self.source)
        if self.anchor:
            trajectory = trajectory.anchored()
        if self.scale is not None:
            trajectory = trajectory.scaled(self.scale)
        if self.frames is not None:
            trajectory = trajectory.resampled(self.frames)
        if self.size is not None:
            trajectory = trajectory.fit_to(*parse_size(self.size))
        trajectory.save(self.target, format=self.to)
        written = FORMATS[self.to or detect(self.target)]
        print_line(f"wrote {self.target} ({written.title})")
        print_line(f"it loses {written.loses}")


@dataclass
class Compare(_Reading):
    """Compare two trajectories frame by frame, each relative to its own first camera; nothing else is aligned."""

    first: Annotated[Positional[Path], arg(metavar="A")] = tyro.MISSING
    """Trajectory file to compare with."""
    second: Annotated[Positional[Path], arg(metavar="B")] = tyro.MISSING
    """Trajectory file with the same number of frames."""
    plot: OptionalFile = None
    """Figure of both to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras.statistics import compare
        from sightline.figures import draw_trajectories

        trajectories = [self.load(self.first), self.load(self.second)]
        names = [self.first.name, self.second.name]
        result = compare(*trajectories)
        rows = [
            ("rotation (degrees)", f"{degrees(result.mean_rotation):.6g}", f"{degrees(result.max_rotation):.6g}"),
            (
                f"translation ({trajectories[0].unit})",
                f"{result.mean_translation:.6g}",
                f"{result.max_translation:.6g}",
            ),
        ]
        print_table(f"{names[1]} against {names[0]}", ("difference", "mean", "largest"), rows)
        print_line(f"path length of {names[1]} / {names[0]}: {result.path_length_ratio:.4g}")
        focal = format_range(float(result.focal.min()), float(result.focal.max()))
        print_line(f"focal length of {names[1]} / {names[0]}: {focal}")
        if self.plot is not None:
            draw_trajectories(trajectories, self.plot, title="two camera trajectories", labels=names)
            print_line(f"drew {self.plot}")


@dataclass
class Moves:
    """List the moves, their amounts and the direction of a positive amount."""

    def run(self) -> None:
        print_moves()


@dataclass
class Formats:
    """List the file formats, their conventions and what each cannot carry."""

    def run(self) -> None:
        print_formats()


def _without_none(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _latent_frames(name: str, trajectory: Trajectory) -> Trajectory:
    if len(trajectory) % TEMPORAL_STRIDE != 1:
        raise SightlineError(
            f"{name} has {len(trajectory)} frames: expected {TEMPORAL_STRIDE} k + 1 for latent frames."
        )
    return trajectory.replace(
        camera_to_world=trajectory.camera_to_world[::TEMPORAL_STRIDE],
        intrinsics=trajectory.intrinsics[::TEMPORAL_STRIDE],
        fps=trajectory.fps / TEMPORAL_STRIDE,
    )
