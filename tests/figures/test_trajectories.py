"""Pictures: written whole, at one scale on every axis, whatever the path."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.figures import draw_trajectories
from tests.conftest import random_trajectory

ODD_PATHS = {
    "orbit": moves.orbit(60),
    "static": moves.static(frames=9),
    "one frame": moves.static(frames=1),
    "two frames": moves.truck(frames=2),
    "turning only": moves.pan(170, frames=17),
    "zooming only": moves.zoom(18, 200, frames=9),
    "loop": moves.loop_nonpalindromic(frames=41),
    "tiny": moves.crane(frames=9).scaled(1e-9),
    "huge": moves.crane(frames=9).scaled(1e9),
    "anything": random_trajectory(frames=12),
    "portrait": moves.tilt(frames=9, width=480, height=832),
}


def scales(figure: Figure) -> tuple[np.ndarray, float]:
    """Length on the page per unit along each axis of the panel in space, and the ratio of the two from above."""
    space, above, *_ = figure.axes
    limits = np.array([space.get_xlim(), space.get_ylim(), space.get_zlim()])  # type: ignore[attr-defined]
    page = above.get_window_extent()
    width, height = np.ptp(above.get_xlim()), np.ptp(above.get_ylim())
    return np.asarray(space._box_aspect) / np.ptp(limits, axis=1), page.width / width / (page.height / height)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ODD_PATHS)
def test_any_path_makes_a_picture_at_one_scale(name: str, tmp_path: Path) -> None:
    target = tmp_path / "path.png"
    figure = ODD_PATHS[name].plot(target, title=name)
    assert target.read_bytes().startswith(b"\x89PNG")
    assert [file.name for file in tmp_path.iterdir()] == ["path.png"]  # nothing unfinished is left
    space, above = scales(figure)
    assert np.allclose(space / space[0], 1.0)
    assert above == pytest.approx(1.0, rel=1e-3)


def test_up_is_up_and_forward_is_away_from_the_viewer() -> None:
    space = moves.pedestal(1.0, frames=9).plot().axes[0]
    low, high = space.get_zlim()  # type: ignore[attr-defined]
    assert high >= 1.0
    assert low > -0.5  # a camera that rises is drawn rising
    assert -90 <= space.azim <= -45  # type: ignore[attr-defined]  # the viewer stands behind the first camera


@pytest.mark.parametrize(
    "suffix, start", [(".png", b"\x89PNG"), (".svg", b"<?xml"), (".pdf", b"%PDF"), (".PNG", b"\x89PNG")]
)
def test_suffixes(suffix: str, start: bytes, tmp_path: Path) -> None:
    target = tmp_path / "new folder" / f"path{suffix}"
    moves.orbit(frames=5).plot(target)
    assert target.read_bytes().startswith(start)


def test_several_paths_with_labels() -> None:
    figure = draw_trajectories([moves.orbit(), moves.dolly(frames=5)], title="two", labels=["an orbit", "a dolly"])
    texts = " ".join(text.get_text() for text in figure.texts)
    assert all(word in texts for word in ("two", "an orbit", "a dolly", "5-81 frames"))


def test_two_paths_that_coincide_both_show() -> None:
    figure = draw_trajectories([moves.truck(0.5, frames=9)] * 2)
    for axes in figure.axes[1:]:
        below, above = [one for one in axes.collections if isinstance(one, LineCollection)]
        assert below.get_linewidths()[0] >= 2 * above.get_linewidths()[0]


def test_no_global_state() -> None:
    draw_trajectories([moves.orbit(frames=5)])
    pyplot = sys.modules.get("matplotlib.pyplot")
    assert pyplot is None or pyplot.get_fignums() == []


@pytest.mark.parametrize(
    "trajectories, options, message",
    [
        ([], {}, "trajectories is empty"),
        ([moves.static(frames=1)], {"labels": ["a", "b"]}, "labels has 2 names: expected 1"),
        ([moves.static(frames=1)], {"path": "picture.txt"}, "picture.txt has the suffix '.txt': expected one of .png"),
        ([moves.static(frames=1)], {"path": "/dev/null/picture.png"}, "/dev/null/picture.png: cannot be written"),
    ],
)
def test_errors(trajectories: list[Trajectory], options: dict, message: str) -> None:
    with pytest.raises(SightlineError, match=message):
        draw_trajectories(trajectories, **options)
