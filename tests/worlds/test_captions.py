"""Captions name what the first frame shows, through its true lens, the largest first; videos start at any moment."""

from __future__ import annotations

import pytest
import torch

from sightline.cameras import lens
from sightline.errors import SightlineError
from sightline.worlds import make_scene, render_clip, sample_clip
from sightline.worlds.builder import Builder
from sightline.worlds.captions import caption
from sightline.worlds.textures import material
from tests.worlds.helpers import bare_scene, looking_ahead

_GREY = material((0.3, 0.3, 0.3))


def _named(things, xi=0.0):
    """The caption of boxes (name, colour, x, z, base, size) seen from 1.5 m above the ground, looking along +z."""
    build = Builder("openworld", 0)
    for name, colour, x, z, base, size in things:
        build.at(x, z)
        build.box(_GREY, (size, size, size), base=base)
        build.name(name, colour)
    trajectory = looking_ahead(1.5, fov=60.0)
    return caption(
        bare_scene(build),
        trajectory.camera_to_world[0],
        trajectory.intrinsics[0],
        xi,
        trajectory.width,
        trajectory.height,
    )


def test_things_above_and_below_the_frame_are_not_named():
    words = _named(
        [("mat", "red", 0.0, 1.2, 0.0, 0.1), ("kite", "blue", 0.0, 3.0, 6.0, 0.4), ("cup", "teal", 0, 4, 1, 1)]
    )
    assert "cup" in words and "mat" not in words and "kite" not in words


def test_a_corner_at_the_edge_is_not_named():
    whole, corner = ("box", "red", 0.0, 4.0, 1.2, 0.5), ("bed", "blue", 2.75, 4.0, 1.2, 0.7)
    words = _named([whole, corner])
    assert "box" in words and "bed" not in words


def test_a_lens_with_xi_sees_further_to_the_side():
    aside = [("box", "red", 3.5, 4.0, 1.2, 0.5)]  # 41 degrees off the axis
    assert "box" not in _named(aside)
    pixel = lens.project(looking_ahead().intrinsics[0], torch.tensor([3.5, 0.0, 4.0]).double(), 0.8)
    assert 0 < pixel[0] < 33  # the same focal length with xi = 0.8
    assert "box" in _named(aside, xi=0.8)


def test_one_name_in_two_colours_is_said_twice_and_the_largest_come_first():
    words = _named([
        ("car", "red", -2.0, 14.0, 0.5, 2.0), ("car", "blue", 1.0, 5.0, 0.5, 2.0), ("car", "blue", 4.0, 14.0, 0.5, 1.0),
    ])  # fmt: skip
    assert words.count("blue car") == 1 and words.count("red car") == 1
    assert words.index("blue car") < words.index("red car")


def test_what_found_no_slot_is_not_named():
    build = Builder("openworld", 0)
    build.at(0.0, 4.0)
    build.name("ghost", "white")
    assert bare_scene(build).notes[0].things == ()


def test_a_moving_world_can_be_frozen_and_filmed_from_a_later_moment():
    scene, trajectory = (
        make_scene(0, "openworld"),
        sample_clip("openworld", 0, frames=5, width=24, height=24).true_trajectory,
    )
    trajectory = trajectory.replace(camera_to_world=trajectory.camera_to_world[:1].expand(5, 4, 4))
    assert scene.moves
    usual = render_clip(scene, trajectory, samples=1).frames
    frozen = render_clip(scene, trajectory, samples=1, seconds=[1.0] * 5).frames
    assert (frozen == frozen[:1]).all() and not (usual == usual[:1]).all()
    later = render_clip(scene, trajectory, samples=1, seconds=2 / trajectory.fps).frames
    assert torch.equal(later[:3], usual[2:])
    given = render_clip(scene, trajectory, samples=1, seconds=torch.arange(5) / trajectory.fps).frames
    assert torch.equal(given, usual)


@pytest.mark.parametrize("seconds", [[0.0, 1.0], float("nan"), "soon"])
def test_bad_moments_are_refused(seconds):
    with pytest.raises(SightlineError, match="seconds"):
        render_clip(make_scene(0, "openworld"), looking_ahead(frames=5), seconds=seconds)
