"""Tables of `sightline data stats`: camera motion, moments and moves of each source."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from sightline.cli._console import print_line, print_table

if TYPE_CHECKING:
    from sightline.data.stats import Quantiles, SourceStatistics


def print_statistics(sources: Sequence[SourceStatistics], etas: Sequence[float]) -> None:
    motion = [
        (
            source.name,
            f"{source.clips} of {source.shots}",
            str(source.frames),
            f"{source.path_length:.4g}",
            f"{source.turn:.4g}",
        )
        for source in sources
    ]
    header = ["source", "shots measured", "frames", "path length", "turn (degrees)"]
    print_table("camera motion, medians over clips", header, motion)
    moments = [
        (
            source.name, _quantiles(source.raw), f"{source.eta:g}", _quantiles(source.scaled),
            _quantiles(source.normalised) if source.normalised else "unknown", f"{eta:.3g}",
        )
        for source, eta in zip(sources, etas, strict=True)
    ]  # fmt: skip
    header = ["source", "|m|", "eta", "eta |m|", "eta |m| / z_n", "suggested eta"]
    print_table("|m| over rays: median, and 5 to 95 %", header, moments)
    print_line(f"suggested eta: gives each source the median of {sources[0].name}, whose eta is {sources[0].eta:g}")
    for source in sources:
        if any(source.moves):
            _print_moves(source)


def _print_moves(source: SourceStatistics) -> None:
    from sightline.data.move_stats import move_uses

    rows = [
        (
            use.name,
            f"{100 * use.fraction:.1f} %",
            "" if use.amounts is None else f"{use.amounts[1]:.3g}\n{use.amounts[0]:.2g} to {use.amounts[2]:.2g}",
        )
        for use in move_uses(source.moves)
    ]
    header = ["move", "clips", "amount: median, and 5 to 95 %"]
    print_table(f"camera moves of {source.name}, without their direction", header, rows)


def _quantiles(values: Quantiles) -> str:
    return f"{values.median:.3g}\n{values.percentile_5:.2g} to {values.percentile_95:.2g}"
