"""Trajectories of the move language in scenes: each is the move that its line says, keeps clear, and is rendered as such."""

from __future__ import annotations

import math
import random

import pytest
import torch

from sightline.cameras import moves, se3
from sightline.errors import SightlineError
from sightline.worlds import STYLES, distance_to_solids, render_frames, sample_batch, trajectories
from sightline.worlds.move_draws import draw_line
from sightline.worlds.move_trajectories import HEIGHTS, TRAVELS
from sightline.worlds.trajectories import CLEARANCE

FRAMES = 9


def with_lines(monkeypatch, style, line, count=6, frames=FRAMES):
    """Clips whose cameras all follow this line, which may name {depth} and {travel}."""

    def draw(key, depth, travel=1.0):
        return line.format(depth=depth, travel=travel), "linear"

    monkeypatch.setattr("sightline.worlds.move_trajectories.draw_line", draw)
    return sample_batch(style, range(700, 700 + count), frames, 32, 32, moves=1.0)


def anchored(batch):
    return se3.anchor(batch.camera_to_world)


def test_every_move_is_drawn_and_every_line_can_be_read():
    lines = [draw_line(f"orbit {seed}", depth=2.0) for seed in range(1500)]
    names = {part.partition(":")[0].strip() for line, _ in lines for row in line.split(",") for part in row.split("+")}
    assert names == set(moves.MOVES)
    assert {easing for _, easing in lines} == {"linear", "ease", "ease_in", "ease_out"}
    for line, easing in lines[:60]:
        trajectory = moves.parse(line, frames=FRAMES, easing=easing)
        assert len(trajectory) == FRAMES
    several = [line for line, _ in lines if "+" in line or "," in line]
    assert 0.25 < len(several) / len(lines) < 0.5


def test_travel_scales_distances_and_leaves_turns_and_lenses_alone():
    for seed in range(300):
        line, _ = draw_line(f"walkthrough {seed}", depth=2.0)
        shorter, _ = draw_line(f"walkthrough {seed}", depth=2.0, travel=0.5)
        name, other = line.partition(":")[0], shorter.partition(":")[0]
        assert name == other
        if "," in line or "+" in line or ":" not in line:
            continue
        amount, half = (float(text.split(":")[1]) for text in (line, shorter))
        expected = 1.0 if name in ("pan", "tilt", "roll", "zoom", "handheld") else 0.5
        assert half == pytest.approx(expected * amount, rel=0.01)


def test_a_camera_follows_its_line_from_its_first_pose():
    batch = sample_batch("walkthrough", range(700, 712), FRAMES, 32, 32, moves=1.0)
    for clip, line in enumerate(batch.moves):
        made = [
            moves.parse(line, frames=FRAMES, easing=easing, fps=batch.fps)
            for easing in ("linear", "ease", "ease_in", "ease_out")
        ]
        errors = [float((one.camera_to_world - anchored(batch)[clip]).abs().max()) for one in made]
        assert min(errors) < 1e-9, line


def test_static_stands_still(monkeypatch):
    batch = with_lines(monkeypatch, "walkthrough", "static")
    assert torch.equal(batch.camera_to_world, batch.camera_to_world[:, :1].expand_as(batch.camera_to_world))
    assert torch.equal(batch.intrinsics, batch.intrinsics[:, :1].expand_as(batch.intrinsics))


def test_roll_rolls_about_the_viewing_axis(monkeypatch):
    poses = anchored(with_lines(monkeypatch, "panorama", "roll:40"))
    assert poses[..., :3, 3].abs().max() < 1e-9
    torch.testing.assert_close(poses[..., :3, 2], poses[:, :1, :3, 2].expand(-1, FRAMES, -1))
    angle = torch.atan2(poses[:, -1, 1, 0], poses[:, -1, 0, 0])
    torch.testing.assert_close(angle, torch.full_like(angle, math.radians(40)))


def test_a_circle_is_a_circle_and_comes_back_another_way(monkeypatch):
    line = "loop_nonpalindromic:0.6:target_depth={depth}"
    poses = anchored(with_lines(monkeypatch, "openworld", line, frames=33))
    positions = poses[..., :3, 3]
    radius = (positions - torch.tensor([0.3, 0.0, 0.0], dtype=torch.float64)).norm(dim=-1)
    torch.testing.assert_close(radius, torch.full_like(radius, 0.3))
    assert positions[:, -1].abs().max() < 1e-9
    assert positions[..., 2].max() > 0.25 and positions[..., 2].min() < -0.25  # out in front, back behind


def test_an_orbit_keeps_its_distance_and_looks_at_the_subject_of_the_scene(monkeypatch):
    batch = with_lines(monkeypatch, "orbit", "orbit:30:target_depth={depth}")
    focus = torch.tensor([notes.focus for notes in batch.scenes.notes], dtype=torch.float64)
    depth = torch.tensor([float(line.partition("=")[2]) for line in batch.moves], dtype=torch.float64)
    subject = batch.camera_to_world[..., :3, 3] + depth[:, None, None] * batch.camera_to_world[..., :3, 2]
    torch.testing.assert_close(subject, subject[:, :1].expand_as(subject), atol=1e-9, rtol=0)
    torch.testing.assert_close(subject[:, 0, [0, 2]], focus[:, [0, 2]], atol=1e-9, rtol=0)  # above or at the focus


def test_the_lens_changes_from_frame_to_frame_and_the_renderer_follows_it(monkeypatch):
    batch = with_lines(monkeypatch, "walkthrough", "zoom:56", count=2)
    focal = batch.intrinsics[..., 0, 0]
    torch.testing.assert_close(focal[:, -1], 2 * focal[:, 0])  # from the nominal 28 mm
    assert (focal.diff(dim=1) > 0).all()
    frames = batch.render_frames()
    assert not torch.equal(frames[:, 0], frames[:, -1])
    for frame in (0, 4, FRAMES - 1):  # the same as a picture by a camera that always had this lens
        one = slice(frame, frame + 1)
        alone = render_frames(batch.scenes, batch.camera_to_world[:, one], batch.intrinsics[:, one], batch.xi, 32, 32)
        assert torch.equal(alone[:, 0], frames[:, frame])


def test_a_dolly_zoom_keeps_the_size_of_the_subject(monkeypatch):
    batch = with_lines(monkeypatch, "openworld", "dolly_zoom:0.5:target_depth=2")
    focal, forward = batch.intrinsics[..., 0, 0], anchored(batch)[..., 2, 3]
    size = focal / (2 - forward)
    torch.testing.assert_close(size, size[:, :1].expand_as(size))


@pytest.mark.parametrize("style", STYLES)
def test_no_move_comes_near_a_solid_at_or_between_frames(style):
    batch = sample_batch(style, range(300, 332), frames=17, width=32, height=32, moves=1.0)
    between = torch.linspace(0, 16, 65, dtype=torch.float64)
    poses = torch.stack([se3.interpolate(one, between) for one in batch.camera_to_world])
    seconds = (between.float() / batch.fps).expand(len(batch), -1)
    assert distance_to_solids(batch.scenes, poses[..., :3, 3].float(), seconds).min() >= CLEARANCE
    assert all(batch.moves)


@pytest.mark.parametrize("style", ["walkthrough", "openworld"])
def test_where_no_way_is_clear_the_camera_stays_on_its_spot_and_still_turns(style, monkeypatch):
    monkeypatch.setattr(trajectories, "CLEARANCE", 1e3)  # no try can keep this distance
    batch = sample_batch(style, range(300, 332), frames=9, width=32, height=32, moves=1.0)
    positions = batch.camera_to_world[..., :3, 3]
    assert (positions - positions[:, :1]).norm(dim=-1).max() < 3 * TRAVELS[-1]
    assert distance_to_solids(batch.scenes, positions.float(), batch.seconds).min() >= CLEARANCE
    turns = se3.rotation_angle(anchored(batch)[:, :, :3, :3]).amax(1)
    assert turns.max() > 0.5


def test_a_fraction_of_the_clips_follows_moves_and_the_others_do_not_change():
    none, half = (sample_batch("orbit", range(60), 5, 16, 16, moves=fraction) for fraction in (0.0, 0.5))
    follows = [bool(line) for line in half.moves]
    assert 0.3 < sum(follows) / len(follows) < 0.7 and not any(none.moves)
    for clip, follow in enumerate(follows):
        assert torch.equal(half.camera_to_world[clip], none.camera_to_world[clip]) != follow
    some = [3, 40, 7]  # in any batch, a clip is the same
    again = sample_batch("orbit", some, 5, 16, 16, moves=0.5)
    assert torch.equal(again.camera_to_world, half.camera_to_world[some])
    assert torch.equal(again.intrinsics, half.intrinsics[some])


def test_too_few_frames_are_refused():
    with pytest.raises(SightlineError, match="frames is 3: expected at least 5"):
        sample_batch("orbit", [0], 3, 16, 16, moves=1.0)


def test_lines_do_not_depend_on_python_s_global_generator():
    random.seed(1)
    first = draw_line("orbit 5", 2.0)
    random.seed(2)
    assert draw_line("orbit 5", 2.0) == first


@pytest.mark.parametrize("style", ["walkthrough", "orbit"])
def test_cameras_start_low_and_high(style):
    batch = sample_batch(style, range(300, 364), frames=5, width=32, height=32, moves=1.0)
    heights = -batch.camera_to_world[:, 0, 1, 3]
    low, high = HEIGHTS
    assert heights.min() >= low - 1e-9 and heights.max() <= high + 1e-9
    assert (heights < 0.9).sum() > 6 and (heights > 1.4).sum() > 12
