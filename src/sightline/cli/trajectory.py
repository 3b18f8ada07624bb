"""sightline trajectory: make, show, convert and compare camera trajectories."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.cameras.options import MoveOptions, ReadOptions
from sightline.cameras.token_grid import TEMPORAL_STRIDE
from sightline.cli._console import print_line, print_table
from sightline.cli._trajectory_tables import format_range, print_formats, print_moves, print_statistics, print_summary
from sightline.errors import SightlineError
from sightline.option_types import OptionalFile, OptionalFloat, OptionalName, OptionalSize, check_options
from sightline.parsing import parse_size

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
    check_options(command)
    command.run()


# The figure is all that these commands write.
_Plot = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="", aliases=["-o", "--output"])]
# As `sightline generate` has it, too.
_Frames = Annotated[int | None, arg(metavar="N", help_behavior_hint="", aliases=["--num-frames"])]


@dataclass(frozen=True)
class Make(MoveOptions):
    """Make a trajectory from camera moves, and print its statistics. The same moves give the same shot in `sightline generate
    --move`, and its file the same in `--trajectory`."""

    moves: Annotated[Positional[str], arg(metavar="MOVES")]
    """One move "orbit:30" or "pan left 30", simultaneous moves "orbit:30+zoom:28>50", consecutive moves "truck:1, pan:-30" (see
    sightline trajectory moves). Use quotes."""
    output: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE", help_behavior_hint="")] = None
    """File to write; without it nothing is written."""
    format: OptionalName = None
    """Format of the file; by default the one its ending names."""
    frames: _Frames = None
    """Frames of the whole trajectory. Default: what the moves' seconds ask for, if all of them name theirs, else the model's own
    number."""
    size: OptionalSize = None
    """Image size in pixels. Default: the model's own."""
    model: OptionalName = None
    """Model whose number of frames and size are the defaults, as in `sightline generate`: a hub id or folder. Default: the lab
    model that ships."""
    dry_run: bool = False
    """Describe the shot in one line, and stop."""
    plot: OptionalFile = None
    """Figure to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras.formats import format_to_write
        from sightline.cameras.moves import MoveLine
        from sightline.cameras.statistics import describe
        from sightline.generation.model import model_info

        if self.plot is not None:
            _check_figure_path(self.plot)  # refused before anything is written
        if self.output is not None:
            format_to_write(self.output, self.format)
        line, info = MoveLine.read(self.moves), model_info(self.model)
        line.log_notes()
        frames = self.num_frames_of(line, info.defaults.num_frames, info.stride) if self.frames is None else self.frames
        width, height = parse_size(self.size) if self.size else (info.defaults.width, info.defaults.height)
        trajectory = self.make(line, frames, width, height)
        subject = self.describe_subject(line)
        print_line("; ".join(filter(None, (str(line), describe(trajectory), subject))))
        if self.dry_run:
            return
        print_statistics(self.moves, trajectory)
        if self.output is not None:
            trajectory.save(self.output, format=self.format)
            print_line(f"wrote {self.output}")
        if self.plot is not None:
            trajectory.plot(self.plot, title=self.moves)
            print_line(f"drew {self.plot}")


@dataclass(frozen=True)
class Show(ReadOptions):
    """Print the statistics of trajectory files and draw them; several files share one table and one figure."""

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE ...", help_behavior_hint="")] = ()
    """Trajectory files, or COLMAP folders."""
    plot: _Plot = None
    """Figure to draw: .png, .svg or .pdf; by default NAME.trajectory.png in the current folder."""
    latent: bool = False
    """Show the poses of the latent frames: every fourth, of 4 k + 1 frames."""

    def run(self) -> None:
        if self.plot is not None:
            _check_figure_path(self.plot)
        if not self.files:
            raise SightlineError("files is empty: expected at least one trajectory file.")
        trajectories = [self.load(file) for file in self.files]
        names = _distinct_names(self.files)
        if self.latent:
            trajectories = [_latent_frames(name, one) for name, one in zip(names, trajectories, strict=True)]
        if len(trajectories) == 1:
            print_statistics(names[0], trajectories[0])
            default, title, labels = Path(f"{Path(names[0]).stem}.trajectory.png"), names[0], None
        else:
            print_summary(names, trajectories)
            if len({one.unit for one in trajectories}) > 1:
                print_line(f"lengths are in different units: {_units(names, trajectories)}")
            default, title, labels = Path("trajectories.png"), f"{len(trajectories)} camera trajectories", names
        from sightline.figures.trajectories import draw_trajectories  # after the table: matplotlib takes a while

        plot = self.plot or default
        draw_trajectories(trajectories, plot, title=title, labels=labels)
        print_line(f"drew {plot}")


@dataclass(frozen=True)
class Convert(ReadOptions):
    """Write a trajectory file in another format, and print what that format cannot carry."""

    source: Annotated[Positional[Path], arg(metavar="IN")] = tyro.MISSING
    """Trajectory file to read."""
    target: Annotated[Positional[Path], arg(metavar="OUT")] = tyro.MISSING
    """Trajectory file to write."""
    to: OptionalName = None
    """Format to write; by default the one that the ending of OUT names."""
    anchor: bool = False
    """Make the first camera the identity."""
    scale: OptionalFloat = None
    """Multiply every distance by this."""
    frames: _Frames = None
    """Resample to this number of frames, over the same duration."""
    size: OptionalSize = None
    """Fit to this image size: scaled evenly to cover it, then cropped in the middle."""

    def run(self) -> None:
        from sightline.cameras.formats import format_to_write

        written = format_to_write(self.target, self.to)
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
        print_line(f"wrote {self.target} ({written.title})")
        print_line(f"it loses {written.loses}")


@dataclass(frozen=True)
class Compare(ReadOptions):
    """Compare two trajectories frame by frame, each relative to its own first camera; nothing else is aligned."""

    first: Annotated[Positional[Path], arg(metavar="A")] = tyro.MISSING
    """Trajectory file to compare with."""
    second: Annotated[Positional[Path], arg(metavar="B")] = tyro.MISSING
    """Trajectory file with the same number of frames."""
    plot: _Plot = None
    """Figure of both to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras.statistics import compare
        from sightline.evaluation.units import drawn_with, same_unit

        if self.plot is not None:
            _check_figure_path(self.plot)
        trajectories = [self.load(self.first), self.load(self.second)]
        names = _distinct_names((self.first, self.second))
        result, unit = compare(*trajectories), trajectories[0].unit
        comparable = same_unit(unit, trajectories[1].unit)
        rows = [("rotation (degrees)", f"{degrees(result.mean_rotation):.6g}", f"{degrees(result.max_rotation):.6g}")]
        if comparable:
            rows += [(f"translation ({unit})", f"{result.mean_translation:.6g}", f"{result.max_translation:.6g}")]
        print_table(f"{names[1]} against {names[0]}", ("difference", "mean", "largest"), rows)
        if comparable:
            print_line(_path_lengths(names, result.path_lengths, unit))
        else:
            print_line(f"lengths are not compared: {_units(names, trajectories)}")
        seconds = [(len(one) - 1) / one.fps for one in trajectories]
        if seconds[0] != seconds[1]:
            print_line(f"duration: {names[0]} {seconds[0]:.4g} s, {names[1]} {seconds[1]:.4g} s")
        focal = format_range(float(result.focal.min()), float(result.focal.max()))
        print_line(f"focal length of {names[1]} / {names[0]}: {focal}")
        if self.plot is not None:
            from sightline.figures.trajectories import draw_trajectories

            ((label, second),) = drawn_with(trajectories[0], {names[1]: trajectories[1]}).items()
            labels = [names[0], label]
            draw_trajectories([trajectories[0], second], self.plot, title="two camera trajectories", labels=labels)
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


def _check_figure_path(path: Path) -> None:
    from sightline.figures.style import check_figure_path

    check_figure_path(path)


def _distinct_names(files: Sequence[Path]) -> list[str]:
    """The name of each file, with as many of its folders as tell it from the others."""
    resolved = [file.resolve() for file in files]
    names = []
    for path in resolved:
        others = [other for other in resolved if other != path]
        length = 1
        while length < len(path.parts) and any(other.parts[-length:] == path.parts[-length:] for other in others):
            length += 1
        names.append(str(Path(*path.parts[-length:])))
    return names


def _units(names: Sequence[str], trajectories: Sequence[Trajectory]) -> str:
    """In which unit the lengths of each trajectory are."""
    from sightline.evaluation.units import unit_words

    return ", ".join(f"{name} is in {unit_words(one.unit)}" for name, one in zip(names, trajectories, strict=True))


def _path_lengths(names: Sequence[str], lengths: Sequence[float], unit: str) -> str:
    """How much longer the second path is; a ratio only where both move."""
    (first, second), (a, b) = names, lengths
    if a > 0 and b > 0:
        return f"path length of {second} / {first}: {b / a:.4g}"
    still = [name for name, length in zip(names, lengths, strict=True) if length == 0]
    if len(still) == 2:
        return f"path length: neither {first} nor {second} moves"
    return f"path length: {still[0]} does not move, {second if a == 0 else first} moves {max(a, b):.4g} {unit}"


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
