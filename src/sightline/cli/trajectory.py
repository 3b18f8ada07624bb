"""sightline trajectory: make, show, convert and compare camera paths."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from math import degrees
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, UseAppendAction, arg

from sightline.cameras.token_grid import TEMPORAL_STRIDE
from sightline.cli._console import print_line, print_table
from sightline.cli._trajectory_tables import print_numbers, print_rows, span
from sightline.errors import SightlineError
from sightline.parsing import parse_assignment, parse_scalar, parse_size

if TYPE_CHECKING:
    from sightline.cameras.trajectory import Trajectory

# Options that may be left out; their help says what happens then, so it need not add "default: None".
_Text = Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")]
_File = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
_Size = Annotated[str | None, arg(metavar="WIDTHxHEIGHT", help_behavior_hint="")]
_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]


def main(arguments: Sequence[str]) -> None:
    """Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {
        "make": Make, "show": Show, "convert": Convert, "compare": Compare, "moves": Moves, "formats": Formats,
    }  # fmt: skip
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline trajectory", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    command.run()


@dataclass
class Make:
    """Make a camera path from film moves, and print its numbers."""

    moves: Annotated[Positional[str], arg(metavar="MOVES")]
    """One "orbit:30"; both at once "orbit:30+zoom:28>50"; in turn "truck:1, pan:-30". Quote them, for the shell's sake."""
    out: Annotated[Path | None, arg(aliases=["-o"], metavar="FILE", help_behavior_hint="")] = None
    """File to write; without it nothing is written."""
    format: _Text = None
    """Format of the file; without it, by the file's ending, else our own json."""
    frames: int = 81
    """Frames of the whole path; moves in a row share them."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = "832x480"
    """Picture size in pixels."""
    fps: float = 16.0
    """Frames per second."""
    focal_mm: _Number = None
    """Focal length of the first frame on a sensor 36 mm wide; 28, or what the first zoom says."""
    easing: _Text = None
    """linear, ease, ease_in or ease_out; each move has its own default (linear, and ease for the loops)."""
    plot: _File = None
    """Picture to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras import moves
        from sightline.figures import check_figure_path

        if self.plot is not None:
            check_figure_path(self.plot)  # refused before anything is written
        width, height = parse_size(self.size)
        shot: Any = {"frames": self.frames, "width": width, "height": height, "fps": self.fps}
        shot |= _given(focal_mm=self.focal_mm, easing=self.easing)
        path = moves.parse(self.moves, **shot)
        print_numbers(self.moves, path)
        if self.out is not None:
            path.save(self.out, format=self.format)
            print_line(f"wrote {self.out}")
        if self.plot is not None:
            path.plot(self.plot, title=self.moves)
            print_line(f"drew {self.plot}")


@dataclass
class _Reading:
    """How to read camera files: what a format does not say can be said here."""

    format: _Text = None
    """Format of the input; without it, found from the content."""
    width: _Whole = None
    """Picture width in pixels, for formats that do not carry it."""
    height: _Whole = None
    """Picture height in pixels, for formats that do not carry it."""
    focal_mm: _Number = None
    """Focal length on a sensor 36 mm wide, for formats without a lens."""
    fps: _Number = None
    """Frames per second, for formats without time."""
    option: Annotated[UseAppendAction[tuple[str, ...]], arg(metavar="NAME=VALUE")] = ()
    """Another option of the format's reader."""

    def load(self, file: Path) -> Trajectory:
        from sightline.cameras.trajectory import Trajectory

        options = _given(width=self.width, height=self.height, focal_mm=self.focal_mm, fps=self.fps)
        for one in self.option:
            name, value = parse_assignment("option", one)
            options[name] = parse_scalar(value)
        return Trajectory.load(file, format=self.format, **options)


@dataclass
class Show(_Reading):
    """Print the numbers of camera files and draw their frusta; several files make one table and one picture."""

    files: Annotated[Positional[tuple[Path, ...]], arg(metavar="FILE ...", help_behavior_hint="")] = ()
    """Camera files, or COLMAP folders."""
    plot: _File = None
    """Picture to draw: .png, .svg or .pdf; without it, NAME.path.png in the current folder."""
    latent: bool = False
    """Show the poses that latent frames take: every fourth, of 4 k + 1 frames."""

    def run(self) -> None:
        from sightline.figures import check_figure_path, draw_trajectories

        if self.plot is not None:
            check_figure_path(self.plot)
        if not self.files:
            raise SightlineError("files is empty: expected at least one camera file.")
        paths = [self.load(file) for file in self.files]
        names = [file.resolve().name for file in self.files]
        if self.latent:
            paths = [_latent(name, path) for name, path in zip(names, paths, strict=True)]
        if len(paths) == 1:
            print_numbers(names[0], paths[0])
            draw, title, labels = Path(f"{Path(names[0]).stem}.path.png"), names[0], None
        else:
            print_rows(names, paths)
            draw, title, labels = Path("paths.png"), f"{len(paths)} camera paths", names
        draw = self.plot or draw
        draw_trajectories(paths, draw, title=title, labels=labels)
        print_line(f"drew {draw}")


@dataclass
class Convert(_Reading):
    """Write a camera file in another format, and say what that format cannot carry."""

    source: Annotated[Positional[Path], arg(metavar="IN")] = tyro.MISSING
    """Camera file to read."""
    target: Annotated[Positional[Path], arg(metavar="OUT")] = tyro.MISSING
    """Camera file to write."""
    to: _Text = None
    """Format to write; without it, by the ending of OUT, else our own json."""
    anchor: bool = False
    """Make the first camera the identity."""
    scale: _Number = None
    """Multiply every distance by this."""
    frames: _Whole = None
    """Resample to this many frames, over the same time."""
    size: _Size = None
    """Fit to this picture size: scaled evenly to cover it, then cropped in the middle."""

    def run(self) -> None:
        from sightline.cameras.formats import FORMATS, detect

        path = self.load(self.source)
        if self.anchor:
            path = path.anchored()
        if self.scale is not None:
            path = path.scaled(self.scale)
        if self.frames is not None:
            path = path.resampled(self.frames)
        if self.size is not None:
            path = path.fit_to(*parse_size(self.size))
        path.save(self.target, format=self.to)
        written = FORMATS[self.to or detect(self.target)]
        print_line(f"wrote {self.target} ({written.title})")
        print_line(f"it loses {written.loses}")


@dataclass
class Compare(_Reading):
    """Compare two paths frame by frame, each from its own first camera; nothing else is aligned."""

    first: Annotated[Positional[Path], arg(metavar="A")] = tyro.MISSING
    """Camera file to compare with."""
    second: Annotated[Positional[Path], arg(metavar="B")] = tyro.MISSING
    """Camera file with as many frames."""
    plot: _File = None
    """Picture to draw of both: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.cameras.statistics import compare
        from sightline.figures import draw_trajectories

        paths = [self.load(self.first), self.load(self.second)]
        names = [self.first.name, self.second.name]
        found = compare(*paths)
        rows = [
            ("rotation (degrees)", f"{degrees(found.mean_rotation):.6g}", f"{degrees(found.max_rotation):.6g}"),
            (f"translation ({paths[0].unit})", f"{found.mean_translation:.6g}", f"{found.max_translation:.6g}"),
        ]
        print_table(f"{names[1]} against {names[0]}", ("difference", "mean", "largest"), rows)
        print_line(f"path length of {names[1]} / {names[0]}: {found.path_length_ratio:.4g}")
        print_line(
            f"focal length of {names[1]} / {names[0]}: {span(float(found.focal.min()), float(found.focal.max()))}"
        )
        if self.plot is not None:
            draw_trajectories(paths, self.plot, title="two camera paths", labels=names)
            print_line(f"drew {self.plot}")


@dataclass
class Moves:
    """List the moves, their amounts and which way a positive amount goes."""

    def run(self) -> None:
        import inspect

        from sightline.cameras import moves

        rows = []
        for name, move in moves.MOVES.items():
            amounts = [
                str(one) for one in inspect.signature(move).parameters.values() if one.kind is not one.VAR_KEYWORD
            ]
            plain = [re.sub(r": '?[\w |]+'? = ", "=", amount) for amount in amounts]
            rows.append((name, "\n".join(plain), (inspect.getdoc(move) or "").split("\n")[0]))
        print_table("moves", ("move", "amounts", "what it does"), rows)
        others = ", ".join(name.replace("_", " ") for name in moves.ALIASES)
        print_line(f"other tools' names are understood too, and said what they mean: {others}")


@dataclass
class Formats:
    """List the file formats, their conventions and what each cannot carry."""

    def run(self) -> None:
        from sightline.cameras.formats import FORMATS

        rows = [(one.name, f"{one.title}\n{one.convention}", one.loses) for one in FORMATS.values()]
        print_table("formats", ("name", "what it is", "a written file loses"), rows)


# -- options ------------------------------------------------------------------------------------------------------------


def _given(**options: Any) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def _latent(name: str, path: Trajectory) -> Trajectory:
    if len(path) % TEMPORAL_STRIDE != 1:
        raise SightlineError(f"{name} has {len(path)} frames: expected {TEMPORAL_STRIDE} k + 1 for latent frames.")
    camera_to_world, intrinsics = path.camera_to_world[::TEMPORAL_STRIDE], path.intrinsics[::TEMPORAL_STRIDE]
    return path.replace(camera_to_world=camera_to_world, intrinsics=intrinsics, fps=path.fps / TEMPORAL_STRIDE)
