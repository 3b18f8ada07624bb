"""The renderer's geometry: known depths, reprojection between frames, rays that meet."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sightline.cameras import lens, plucker, se3
from sightline.cameras.trajectory import Trajectory
from sightline.worlds import FAR, make_scene, render_clip, sample_clip
from sightline.worlds.builder import Builder
from sightline.worlds.furniture import matte
from tests.worlds.helpers import bare_scene, looking_ahead


def centre_depth(build: Builder, **options) -> float:
    depth = render_clip(bare_scene(build), looking_ahead(**options), samples=1).depth[0]
    return float(depth[depth.shape[0] // 2, depth.shape[1] // 2])


def test_a_box_has_the_depth_of_its_front():
    build = Builder("test", 0)
    build.box(matte("red"), (2.0, 3.0, 1.0), z=4.0)
    assert centre_depth(build) == pytest.approx(3.5, abs=1e-5)


def test_a_turned_box_has_the_depth_of_its_edge():
    build = Builder("test", 0)
    build.box(matte("red"), (1.0, 3.0, 1.0), z=4.0, turn=math.pi / 4)
    assert centre_depth(build) == pytest.approx(4.0 - math.sqrt(0.5), abs=1e-4)


def test_a_ball_and_a_cylinder_have_the_depth_of_their_nearest_point():
    for add in (
        lambda b: b.ball(matte("red"), 0.5, z=3.0, base=1.0),
        lambda b: b.cylinder(matte("red"), 0.5, 3.0, z=3.0),
    ):
        build = Builder("test", 0)
        add(build)
        assert centre_depth(build) == pytest.approx(2.5, abs=1e-5)


def test_the_floor_has_the_same_depth_along_a_row_and_the_sky_is_far():
    trajectory = looking_ahead(height=1.5, size=64)
    depth = render_clip(bare_scene(Builder("test", 0)), trajectory, samples=1).depth[0]
    focal = float(trajectory.intrinsics[0, 0, 0])
    rows = torch.arange(40, 64) + 0.5 - 32
    torch.testing.assert_close(depth[40:], (1.5 * focal / rows)[:, None].expand(-1, 64), rtol=1e-4, atol=0)
    assert (depth[:32] == FAR).all()


@pytest.mark.parametrize("xi", [0.0, 0.7])
def test_depth_is_along_the_axis_and_not_along_the_ray(xi):
    build = Builder("test", 0)
    build.box(matte("red"), (40.0, 30.0, 1.0), z=4.5)  # a wall across the view, 4 m ahead
    depth = render_clip(bare_scene(build), looking_ahead(xi=xi, size=32), samples=1).depth[0]
    torch.testing.assert_close(depth[:12], torch.full_like(depth[:12], 4.0), atol=1e-4, rtol=0)


def _lift(trajectory: Trajectory, frame: int, depth: Tensor) -> Tensor:  # [H, W] -> [H, W, 3] world points
    height, width = depth.shape
    pixels = lens.grid_centres(width, height, width, height)
    rays = lens.pixel_rays(trajectory.intrinsics[frame], pixels, trajectory.xi)
    points = rays * (depth.double() / rays[..., 2])[..., None]
    return points @ trajectory.rotations[frame].T + trajectory.positions[frame]


def _agreement(
    trajectory: Trajectory, frames: Tensor, depth: Tensor, i: int, j: int, posed: Trajectory
) -> tuple[float, float]:
    """Share of lifted pixels that frame j sees too, and the colour difference (0..1) that 90 % of those stay below."""
    height, width = depth.shape[1:]
    points = (_lift(posed, i, depth[i]) - posed.positions[j]) @ posed.rotations[j]
    pixel = lens.project(posed.intrinsics[j], points, posed.xi)
    grid = (pixel / torch.tensor([width, height]) * 2 - 1)[None].float()
    there = torch.nn.functional.grid_sample(frames[j].permute(2, 0, 1)[None].float(), grid, align_corners=False)[0]
    seen_depth = torch.nn.functional.grid_sample(depth[j][None, None], grid, align_corners=False)[0, 0]
    inside = (grid[0].abs() < 0.97).all(-1) & (points[..., 2] > 0) & (depth[i] < FAR)
    visible = inside & ((seen_depth - points[..., 2].float()).abs() < 0.02 * seen_depth)
    difference = (there - frames[i].permute(2, 0, 1)).abs().amax(0) / 255
    share = float(visible.sum() / inside.sum().clamp_min(1))
    return share, float(difference[visible].quantile(0.9)) if visible.any() else 1.0


@pytest.mark.parametrize(
    "style, seed, xi", [("walkthrough", 1, 0.0), ("walkthrough", 5, 0.6), ("orbit", 3, 0.0), ("panorama", 12, 0.4)]
)
def test_a_frame_reprojected_by_true_depth_and_pose_shows_the_same_colours(style, seed, xi):
    clip = sample_clip(style, seed, frames=9, width=96, height=96)
    trajectory = clip.true_trajectory.replace(xi=xi)
    shot = render_clip(clip.scene, trajectory)
    share, difference = _agreement(trajectory, shot.frames, shot.depth, 0, 3, trajectory)
    assert share > 0.8
    assert difference < 0.1
    # The same measure sees a wrong convention: inverted poses, poses in another unit, depth along the ray.
    whole = _agreement(trajectory, shot.frames, shot.depth, 0, 8, trajectory)[0]
    rays = lens.pixel_rays(trajectory.intrinsics[0], lens.grid_centres(96, 96, 96, 96), trajectory.xi)
    along_the_ray = shot.depth / rays[..., 2].float()
    inverted = trajectory.replace(camera_to_world=se3.inverse(trajectory.camera_to_world))
    for depth, posed in ((shot.depth, inverted), (shot.depth, trajectory.scaled(2.0)), (along_the_ray, trajectory)):
        assert _agreement(trajectory, shot.frames, depth, 0, 8, posed)[0] < 0.9 * whole


def test_two_rays_that_meet_a_surface_point_have_zero_reciprocal_product():
    clip = sample_clip("walkthrough", 3, frames=5, width=48, height=48)
    shot = render_clip(clip.scene, clip.true_trajectory, samples=1)
    points = _lift(clip.true_trajectory, 0, shot.depth[0]).flatten(0, 1)
    lines = []
    for frame in (0, 4):
        towards = points - clip.true_trajectory.positions[frame]
        lines.append(
            plucker.line_through(clip.true_trajectory.positions[frame], towards / towards.norm(dim=-1, keepdim=True))
        )
    assert plucker.reciprocal_product(*lines).abs().max() < 1e-6
    # The second frame's own ray, through its own pixel, meets the point as well: depth and pose of both frames agree.
    seen = (points - clip.true_trajectory.positions[4]) @ clip.true_trajectory.rotations[4]
    pixel = lens.project(clip.true_trajectory.intrinsics[4], seen).round() + 0.5
    inside = (pixel > 2).all(-1) & (pixel < 46).all(-1) & (seen[:, 2] > 0)
    rays = lens.pixel_rays(clip.true_trajectory.intrinsics[4], pixel[inside]) @ clip.true_trajectory.rotations[4].T
    own = plucker.line_through(clip.true_trajectory.positions[4], rays)
    miss = plucker.reciprocal_product(lines[0][inside], own).abs()
    assert miss.median() < 0.02  # half a pixel at a few metres


def test_a_closed_loop_ends_on_its_first_frame():
    clip = sample_clip("orbit", 4, frames=5, width=48, height=48)
    loop = clip.true_trajectory.concatenate(clip.true_trajectory.reversed())
    frames = render_clip(clip.scene, loop).frames
    assert (frames[0].int() - frames[-1].int()).abs().max() <= 1


def test_the_same_scene_is_filmed_by_another_lens_and_size():
    scene = make_scene(7, "panorama")
    wide = render_clip(scene, looking_ahead(size=40, fov=100), (64, 32))
    assert wide.frames.shape == (1, 32, 64, 3) and wide.depth.shape == (1, 32, 64)
