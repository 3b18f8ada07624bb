"""Everything a run leaves behind: results.json, table.md, the plots and the page."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.evaluation.page import write_page
from sightline.evaluation.plots import draw_boxes, draw_errors
from sightline.evaluation.results import gather
from sightline.evaluation.tables import markdown
from sightline.files import write_atomic

TABLE, PAGE = "table.md", "report.html"


def write_report(output: Path, names: Sequence[str], label: str) -> dict[str, Any]:
    """From the clips' folders alone: the model is not needed any more. Returns what results.json holds."""
    found = gather(output, names, label)
    text = markdown([found])
    write_atomic(output / TABLE, text)
    plots = [output / "plots" / "errors.png", output / "plots" / "clips.png"]
    draw_errors([found], plots[0])
    draw_boxes([found], plots[1])
    write_page(output / PAGE, f"{label}: {found['protocol']}", text.split("\n", 1)[1], [found], [output], plots)
    return found
