"""Everything that draws: trajectories, |m| statistics, curves, bars, scores, intervals, the inside of a model, sheets, galleries.

Drawing functions take plain data or objects of earlier packages, return a matplotlib Figure and write it where they are
given a path. Pixels (contact sheets, panels beside a video) are drawn with Pillow.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from sightline.figures.contact_sheet import contact_sheet, side_by_side

if TYPE_CHECKING:
    from sightline.figures.bars import BarPanel, draw_bars
    from sightline.figures.curves import LossCurve, draw_loss_curves
    from sightline.figures.gallery import GalleryRow, draw_gallery
    from sightline.figures.histories import HistoryLine, HistoryPanel, draw_histories
    from sightline.figures.inspection import draw_layer_form, draw_layer_strengths, draw_ray_form, draw_score_terms
    from sightline.figures.intervals import IntervalPanel, IntervalRow, VerdictPanel, draw_intervals, draw_verdicts
    from sightline.figures.moments import draw_moments
    from sightline.figures.scores import BoxPanel, CurvePanel, draw_boxes, draw_error_curves
    from sightline.figures.style import COLOURS, check_figure_path, picture_or_warning, save_figure
    from sightline.figures.trajectories import draw_trajectories

# The module of each name that needs matplotlib, imported on first use. contact_sheet is imported above: its function has the
# name of its module, which would take its place.
_NAMES = {
    "BarPanel": "bars",
    "draw_bars": "bars",
    "LossCurve": "curves",
    "draw_loss_curves": "curves",
    "GalleryRow": "gallery",
    "draw_gallery": "gallery",
    "HistoryLine": "histories",
    "HistoryPanel": "histories",
    "draw_histories": "histories",
    "draw_layer_form": "inspection",
    "draw_layer_strengths": "inspection",
    "draw_ray_form": "inspection",
    "draw_score_terms": "inspection",
    "IntervalPanel": "intervals",
    "IntervalRow": "intervals",
    "VerdictPanel": "intervals",
    "draw_intervals": "intervals",
    "draw_verdicts": "intervals",
    "draw_moments": "moments",
    "BoxPanel": "scores",
    "CurvePanel": "scores",
    "draw_boxes": "scores",
    "draw_error_curves": "scores",
    "COLOURS": "style",
    "check_figure_path": "style",
    "picture_or_warning": "style",
    "save_figure": "style",
    "draw_trajectories": "trajectories",
}

__all__ = [
    "COLOURS",
    "BarPanel",
    "BoxPanel",
    "CurvePanel",
    "GalleryRow",
    "HistoryLine",
    "HistoryPanel",
    "IntervalPanel",
    "IntervalRow",
    "LossCurve",
    "VerdictPanel",
    "check_figure_path",
    "contact_sheet",
    "draw_bars",
    "draw_boxes",
    "draw_error_curves",
    "draw_gallery",
    "draw_histories",
    "draw_intervals",
    "draw_layer_form",
    "draw_layer_strengths",
    "draw_loss_curves",
    "draw_moments",
    "draw_ray_form",
    "draw_score_terms",
    "draw_trajectories",
    "draw_verdicts",
    "picture_or_warning",
    "save_figure",
    "side_by_side",
]


def __getattr__(name: str) -> Any:
    if name not in _NAMES:
        raise AttributeError(f"module 'sightline.figures' has no attribute {name!r}")
    value = globals()[name] = getattr(importlib.import_module(f"sightline.figures.{_NAMES[name]}"), name)
    return value
