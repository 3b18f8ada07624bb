"""The tables that `sightline trajectory` prints."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.cli._console import print_line, print_table

if TYPE_CHECKING:
    from sightline.cameras.statistics import TrajectoryStatistics
    from sightline.cameras.trajectory import Trajectory


def format_range(low: float, high: float) -> str:
    """One number where both print alike, else "low to high"."""
    first, last = f"{low:.4g}", f"{high:.4g}"
    return first if first == last else f"{first} to {last}"


def print_statistics(title: str, trajectory: Trajectory) -> None:
    """All statistics of one trajectory, one per row."""
    from sightline.cameras.statistics import TOKEN_GRID, trajectory_statistics

    statistics, unit = trajectory_statistics(trajectory), trajectory.unit
    moment, (rows, columns) = statistics.moment, TOKEN_GRID
    xi = f", xi {trajectory.xi:g}" if trajectory.xi else ""
    moments = f"median {moment.median:.4g}, 5 to 95 %: {format_range(moment.percentile_5, moment.percentile_95)}"
    lines = [
        ("frames", f"{statistics.frames}, {statistics.seconds:.4g} s at {trajectory.fps:g} fps"),
        ("picture", f"{trajectory.width}x{trajectory.height}{xi}"),
        ("lens", f"{format_range(*statistics.focal_mm)} mm, {format_range(*statistics.horizontal_fov)} degrees across"),
        ("path length", f"{statistics.path_length:.4g} {unit}"),
        ("extent", f"{statistics.extent:.4g} {unit} at most from the first camera"),
        ("first to last", f"{_net_translation(statistics)} {unit}, {statistics.net_turn:.4g} degrees"),
        ("loop gap", f"{statistics.loop_gap:.2%} of the extent"),
        ("total turn", f"{statistics.total_turn:.4g} degrees"),
        ("largest step", f"{statistics.largest_step:.4g} {unit}, {statistics.largest_turn:.4g} degrees"),
        ("moment |m|", moments),
        ("m = 0", f"{moment.zero_fraction:.2%} of the tokens, {columns}x{rows} a frame"),
    ]
    print_table(title, ("", ""), lines)


def _net_translation(statistics: TrajectoryStatistics) -> str:
    """Where the last camera is, in words: a file of another convention shows as a wrong direction."""
    axes = zip(statistics.net_translation, ("right", "down", "forward"), ("left", "up", "backward"), strict=True)
    least = 0.005 * statistics.net_displacement  # what is shorter would be rounded away
    parts = [f"{abs(value):.3g} {word if value > 0 else other}" for value, word, other in axes if abs(value) > least]
    return f"{statistics.net_displacement:.4g}{' (' + ', '.join(parts) + ')' if parts else ''}"


def print_summary(names: Sequence[str], trajectories: Sequence[Trajectory]) -> None:
    """The main statistics of several trajectories, one trajectory per row."""
    from sightline.cameras.statistics import trajectory_statistics

    rows = []
    for name, trajectory in zip(names, trajectories, strict=True):
        one = trajectory_statistics(trajectory)
        rows.append(
            (
                name, str(one.frames), f"{one.seconds:.4g}", f"{one.path_length:.4g}", f"{one.extent:.4g}",
                f"{one.loop_gap:.1%}", f"{one.total_turn:.4g}", format_range(*one.focal_mm), f"{one.moment.median:.4g}",
            )
        )  # fmt: skip
    header = ("file", "frames", "s", "length", "extent", "gap", "turn", "mm", "|m|")
    print_table(f"{len(trajectories)} camera trajectories", header, rows)


def print_moves() -> None:
    """Each move with its amounts and the first line of its docstring."""
    from sightline.cameras import moves

    rows = []
    for name, move in moves.MOVES.items():
        parameters = inspect.signature(move).parameters.values()
        amounts = [str(parameter) for parameter in parameters if parameter.kind is not parameter.VAR_KEYWORD]
        untyped = [re.sub(r": '?[\w |]+'? = ", "=", amount) for amount in amounts]
        rows.append((name, "\n".join(untyped), (inspect.getdoc(move) or "").split("\n")[0]))
    print_table("moves", ("move", "amounts", "what it does"), rows)
    print_table("how to write them", ("write", "for"), moves.GRAMMAR)
    verbs = [
        f"{verb} ({', '.join(filter(None, directions))})" for verb, directions in moves.VERBS.items() if any(directions)
    ]
    print_line(f"verbs and the directions they take: {', '.join(verbs)}".replace("_", " "))
    print_line(
        "forward, closer and back are in and out; a word that is not known is refused with the nearest one that is"
    )


def print_formats() -> None:
    """Each file format with its convention and what a written file loses."""
    from sightline.cameras.formats import FORMATS

    rows = [(known.name, f"{known.title}\n{known.convention}", known.loses) for known in FORMATS.values()]
    print_table("formats", ("name", "what it is", "a written file loses"), rows)
