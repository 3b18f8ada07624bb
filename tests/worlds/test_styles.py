"""Properties over many seeds: paths keep clear, depth is sane, captions name what is there, units are those of the style."""

from __future__ import annotations

import math

import pytest
import torch

from sightline.cameras import se3
from sightline.cameras.statistics import trajectory_statistics
from sightline.worlds import FAR, STYLES, distance_to_solids, sample_batch, sample_clip, trajectories
from sightline.worlds.palettes import COLOURS
from sightline.worlds.styles import NEAR_QUANTILE, OPENWORLD_SCALE, SFM_SCALES
from sightline.worlds.trajectories import CLEARANCE

SEEDS = range(300, 364)


@pytest.mark.parametrize("style", STYLES)
def test_no_path_comes_near_a_solid_or_leaves_its_world_at_or_between_frames(style):
    batch = sample_batch(style, SEEDS, frames=17, width=32, height=32)
    poses = torch.stack(
        [se3.interpolate(one, torch.linspace(0, 16, 65, dtype=torch.float64)) for one in batch.camera_to_world]
    )
    seconds = (torch.linspace(0, 16, 65) / batch.fps).expand(len(batch), -1)
    clear = distance_to_solids(batch.scenes, poses[..., :3, 3].float(), seconds)
    assert clear.min() >= CLEARANCE
    low, high = batch.scenes.room[:, None, :3], batch.scenes.room[:, None, 3:]
    assert ((poses[..., :3, 3] > low) & (poses[..., :3, 3] < high)).all()


def test_a_share_of_the_cameras_comes_back_and_keeps_clear_too():
    one_way, some, all_of_them = (
        sample_batch("openworld", SEEDS, frames=17, width=32, height=32, returning=share) for share in (0.0, 0.3, 1.0)
    )
    back = [torch.equal(poses, poses.flip(0)) for poses in some.camera_to_world]
    assert 0.1 < sum(back) / len(back) < 0.5
    kept = [torch.equal(a, b) for a, b in zip(some.camera_to_world, one_way.camera_to_world, strict=True)]
    assert all(one != other for one, other in zip(back, kept, strict=True))  # whoever does not return goes as before
    poses = all_of_them.camera_to_world
    assert torch.equal(poses, poses.flip(1)) and (poses[:, 8, :3, 3] != poses[:, 0, :3, 3]).any(-1).float().mean() > 0.9
    assert distance_to_solids(all_of_them.scenes, poses[..., :3, 3].float(), all_of_them.seconds).min() >= CLEARANCE


@pytest.mark.parametrize("style", STYLES)
def test_where_no_path_is_clear_the_camera_pans_on_a_free_spot(style, monkeypatch):
    monkeypatch.setattr(trajectories, "CLEARANCE", 1e3)  # no try can keep this distance
    batch = sample_batch(style, SEEDS, frames=9, width=32, height=32)
    positions = batch.camera_to_world[..., :3, 3]
    assert (positions == positions[:, :1]).all()
    assert not torch.equal(batch.camera_to_world[:, 0, :3, :3], batch.camera_to_world[:, -1, :3, :3])
    assert distance_to_solids(batch.scenes, positions.float(), batch.seconds).min() >= CLEARANCE


@pytest.mark.parametrize("style", STYLES)
def test_frames_and_depth_are_sane_over_many_seeds(style):
    batch = sample_batch(style, range(500, 524), frames=3, width=24, height=24)
    frames, depth = batch.render(samples=1)
    assert frames.dtype == torch.uint8 and depth.dtype == torch.float32
    assert depth.isfinite().all() and depth.max() <= FAR
    # A wide lens sees up to some 60 degrees off its axis, where depth is half the distance.
    assert depth.min() > 0.4 * CLEARANCE
    spread = frames.float().flatten(1).std(1)
    assert (spread > 12).all()  # no clip is one flat colour
    assert (frames.float().flatten(1).mean(1) > 30).all()  # nor is it dark


@pytest.mark.parametrize("style", STYLES)
def test_most_clips_move_and_none_jumps(style):
    batch = sample_batch(style, SEEDS, frames=33, width=32, height=32)
    positions = batch.camera_to_world[..., :3, 3]
    steps = positions.diff(dim=1).norm(dim=-1)
    assert (steps.sum(1) > 0.2).float().mean() > 0.9
    assert steps.max() < 0.35
    turns = se3.rotation_angle(
        batch.camera_to_world[:, :-1, :3, :3].transpose(-1, -2) @ batch.camera_to_world[:, 1:, :3, :3]
    )
    assert math.degrees(float(turns.max())) < 8


@pytest.mark.parametrize("style", STYLES)
def test_captions_name_things_and_colours_of_the_scene(style):
    batch = sample_batch(style, SEEDS, frames=2, width=32, height=32)
    coloured = 0
    for words, notes in zip(batch.captions, batch.scenes.notes, strict=True):
        assert notes.place in words and notes.ground in words
        named = [thing for thing in notes.things if thing.name in words]
        coloured += any(colour in words for thing in named for colour in COLOURS if colour == thing.colour)
        assert "  " not in words and len(words) < 200
    assert coloured > 0.6 * len(batch)
    assert len(set(batch.captions)) > 0.9 * len(batch)


def test_structure_from_motion_styles_report_a_random_scale_and_nothing_else():
    for style in ("walkthrough", "orbit"):
        batch = sample_batch(style, SEEDS, frames=5, width=32, height=32)
        assert batch.scale.min() >= SFM_SCALES[0] and batch.scale.max() <= SFM_SCALES[1]
        assert batch.scale.log().std() > 0.25 and batch.scale.log().mean().abs() < 0.2
        assert batch.near_depth is None


@pytest.mark.parametrize("style", STYLES)
def test_reported_poses_are_the_true_ones_times_one_factor(style):
    clip = sample_clip(style, 21, frames=9, width=32, height=32)
    batch = sample_batch(style, [21], frames=9, width=32, height=32)
    torch.testing.assert_close(clip.reported_trajectory.rotations, clip.true_trajectory.rotations, atol=0, rtol=0)
    torch.testing.assert_close(
        clip.reported_trajectory.positions, clip.true_trajectory.positions * float(batch.scale[0]), atol=1e-12, rtol=0
    )
    assert torch.equal(clip.reported_trajectory.intrinsics, clip.true_trajectory.intrinsics)
    assert (clip.reported_trajectory.near_depth is not None) == (style == "panorama")


def test_panoramas_are_metric_tilted_and_seen_through_many_lenses():
    batch = sample_batch("panorama", SEEDS, frames=3, width=32, height=32)
    assert (batch.scale == 1).all()
    down = batch.camera_to_world[:, 0, 1, :3]  # world y in camera axes: (0, 1, 0) for a level camera
    assert (down[:, 1] < math.cos(math.radians(5))).float().mean() > 0.5
    assert 0.2 < (batch.xi == 0).float().mean() < 0.6 and batch.xi.max() > 0.6
    assert batch.intrinsics[:, 0, 0, 0].max() > 1.8 * batch.intrinsics[:, 0, 0, 0].min()


def test_the_near_depth_of_a_panorama_is_the_twentieth_nearest_part_of_its_first_frame():
    batch = sample_batch("panorama", range(40, 48), frames=2, width=96, height=96)
    _, depth = batch.render(samples=1)
    true = depth[:, 0].flatten(1).quantile(NEAR_QUANTILE, dim=1)
    torch.testing.assert_close(batch.near_depth.float(), true, rtol=0.12, atol=0.02)


def test_open_world_translations_are_a_twentieth_and_eta_20_closes_the_gap():
    median = {}
    for style in STYLES:
        batch = sample_batch(style, range(600, 624), frames=33, width=64, height=64)
        moments = [trajectory_statistics(batch.reported_trajectory(clip)).moment.median for clip in range(len(batch))]
        median[style] = float(torch.tensor(moments).median())
    assert (sample_batch("openworld", [1], 2, 16, 16).scale == OPENWORLD_SCALE).all()
    others = [value for style, value in median.items() if style != "openworld"]
    middle = float(torch.tensor(others).median())
    assert 12 < middle / median["openworld"] < 35  # about 20
    assert 0.6 < middle / (20 * median["openworld"]) < 1.7
