"""The numbers of camera paths as tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.cli._console import print_table

if TYPE_CHECKING:
    from sightline.cameras.trajectory import Trajectory


def span(low: float, high: float) -> str:
    """One number, or two where they differ in what is printed."""
    first, last = f"{low:.4g}", f"{high:.4g}"
    return first if first == last else f"{first} to {last}"


def print_numbers(title: str, path: Trajectory) -> None:
    from sightline.cameras.statistics import TOKEN_GRID, trajectory_statistics

    found, unit = trajectory_statistics(path), path.unit
    moment, (rows, columns) = found.moment, TOKEN_GRID
    lines = [
        ("frames", f"{found.frames}, {found.seconds:.4g} s at {path.fps:g} fps"),
        ("picture", f"{path.width}x{path.height}" + (f", xi {path.xi:g}" if path.xi else "")),
        ("lens", f"{span(*found.focal_mm)} mm, {span(*found.horizontal_fov)} degrees across"),
        ("path length", f"{found.path_length:.4g} {unit}"),
        ("extent", f"{found.extent:.4g} {unit} at most from the first camera"),
        ("first to last", f"{found.net_displacement:.4g} {unit}, {found.net_turn:.4g} degrees"),
        ("loop gap", f"{found.loop_gap:.2%} of the extent"),
        ("total turn", f"{found.total_turn:.4g} degrees"),
        ("largest step", f"{found.largest_step:.4g} {unit}, {found.largest_turn:.4g} degrees"),
        ("moment |m|", f"median {moment.median:.4g}, 5 to 95 %: {span(moment.percentile_5, moment.percentile_95)}"),
        ("m = 0", f"{moment.zero_fraction:.2%} of the tokens, {columns}x{rows} a frame"),
    ]
    print_table(title, ("", ""), lines)


def print_rows(names: Sequence[str], paths: Sequence[Trajectory]) -> None:
    from sightline.cameras.statistics import trajectory_statistics

    rows = []
    for name, path in zip(names, paths, strict=True):
        found = trajectory_statistics(path)
        rows.append(
            (
                name, str(found.frames), f"{found.seconds:.4g}", f"{found.path_length:.4g}", f"{found.extent:.4g}",
                f"{found.loop_gap:.1%}", f"{found.total_turn:.4g}", span(*found.focal_mm), f"{found.moment.median:.4g}",
            )
        )  # fmt: skip
    header = ("file", "frames", "s", "length", "extent", "gap", "turn", "mm", "|m|")
    print_table(f"{len(paths)} camera paths", header, rows)
