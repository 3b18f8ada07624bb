"""Everything that draws: trajectories, |m| statistics, loss curves, bar charts, scores, contact sheets and previews.

Drawing functions take plain data or objects of earlier packages, return a matplotlib Figure and write it where they are
given a path. Pixels (contact sheets, panels beside a video) are drawn with Pillow.
"""

from sightline.figures.bars import BarPanel, draw_bars
from sightline.figures.contact_sheet import contact_sheet, side_by_side
from sightline.figures.curves import LossCurve, draw_loss_curves
from sightline.figures.moments import draw_moments
from sightline.figures.scores import BoxPanel, CurvePanel, draw_boxes, draw_error_curves
from sightline.figures.style import COLOURS, check_figure_path, save_figure
from sightline.figures.trajectories import draw_trajectories

__all__ = [
    "COLOURS",
    "BarPanel",
    "BoxPanel",
    "CurvePanel",
    "LossCurve",
    "check_figure_path",
    "contact_sheet",
    "draw_bars",
    "draw_boxes",
    "draw_error_curves",
    "draw_loss_curves",
    "draw_moments",
    "draw_trajectories",
    "save_figure",
    "side_by_side",
]
