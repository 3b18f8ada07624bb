"""The files of a finished run: results.json, table.md, the plots and the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sightline.evaluation.gather import gather
from sightline.evaluation.page import write_page
from sightline.evaluation.plots import draw_errors, draw_score_boxes
from sightline.evaluation.results import RunResults
from sightline.evaluation.tables import markdown
from sightline.figures import picture_or_warning
from sightline.files import write_atomic

TABLE, PAGE = "table.md", "report.html"


def write_report(output: Path, names: Sequence[str], label: str) -> RunResults:
    """Write the report from the clips' folders alone, without the model; returns what results.json holds."""
    results = gather(output, names, label)
    text = markdown([results])
    write_atomic(output / TABLE, text)
    plots = draw_plots([results], output)
    write_page(output / PAGE, f"{label}: {results.protocol}", text.split("\n", 1)[1], [results], [output], plots)
    return results


def draw_plots(runs: Sequence[RunResults], output: Path) -> list[Path]:
    """Draw the plots of a report; returns those that have something to show."""
    drawn = []
    for name, draw in (("errors.png", draw_errors), ("clips.png", draw_score_boxes)):
        file = output / "plots" / name
        with picture_or_warning(file):
            if draw(runs, file):
                drawn.append(file)
    return drawn
