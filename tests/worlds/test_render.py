"""Pictures: anti-aliasing, the two ray casters agree, determinism, what moves and what does not, bad arguments."""

from __future__ import annotations

import dataclasses

import pytest
import torch

from sightline.cameras import lens
from sightline.errors import SightlineError
from sightline.worlds import (
    STYLES,
    make_scene,
    make_scenes,
    render_batch,
    render_clip,
    render_depth,
    sample_batch,
    stack,
)
from sightline.worlds import render as render_module
from sightline.worlds.builder import Builder
from sightline.worlds.palettes import linear
from sightline.worlds.textures import material
from tests.worlds.helpers import bare_scene, looking_ahead

GROUNDS = {
    "checker": material(linear("white"), linear("black"), cell=(0.4, 0.4), checker=(1.0, 1.0)),
    "stripes": material(linear("white"), linear("black"), cell=(0.3, 0.3), checker=(1.0, 0.0)),
    "tiles": material(linear("white"), None, linear("black"), cell=(0.3, 0.3), joint_width=(0.1, 0.1)),
    "dots": material(linear("white"), linear("black"), cell=(0.4, 0.4), dot=0.3),
    "noise": material(linear("white"), linear("black"), noise=1.0, grain=(0.3, 0.3)),
    "planks": material(
        linear("oak"),
        linear("brown"),
        linear("black"),
        cell=(1.2, 0.15),
        joint_width=(0.01, 0.1),
        shift=0.37,
        shades=0.3,
    ),
}


@pytest.mark.parametrize("name", GROUNDS)
def test_a_far_patterned_floor_does_not_alias(name):
    scene = bare_scene(Builder("test", 0), GROUNDS[name])
    trajectory = looking_ahead(size=64, fov=70)
    picture = render_clip(scene, trajectory).frames[0].float() / 255
    reference = render_clip(scene, trajectory, samples=64).frames[0].float() / 255
    below = slice(34, 64)  # below the horizon; the reference itself aliases in the first rows under it
    error = (picture[below] - reference[below]).square().mean().sqrt()
    assert error < 0.05
    # Far rows, where a cell is smaller than a pixel: nothing flickers from pixel to pixel.
    far = picture[32:34].mean(-1)
    assert far.diff(dim=1).abs().max() < 0.08


def test_one_unfiltered_ray_per_pixel_would_alias(monkeypatch):
    """The bound above means something: with no footprint the same floor breaks it."""
    scene, trajectory = bare_scene(Builder("test", 0), GROUNDS["checker"]), looking_ahead(size=64, fov=70)
    plain_colour = render_module._colour
    monkeypatch.setattr(render_module, "_colour", lambda *arguments: plain_colour(*arguments[:-1], 1e-4))
    picture = render_clip(scene, trajectory, samples=1).frames[0].float() / 255
    assert picture[32:34].mean(-1).diff(dim=1).abs().max() > 0.3


@pytest.mark.parametrize("style", STYLES)
def test_testing_few_solids_per_tile_and_all_at_once_give_the_same_picture(style, monkeypatch):
    batch = sample_batch(style, [1, 4], frames=2, width=40, height=24)
    tiled = batch.render()
    monkeypatch.setattr(render_module, "_SCENES_AT_ONCE", 2)
    monkeypatch.setattr(
        render_module,
        "_cast_tiles",
        lambda view, offsets, per_ray, like: render_module._cast_frames(
            view, offsets, lambda *rest: per_ray(*rest, None), like, rays_at_once=1
        ),
    )
    all_at_once = batch.render()
    assert ((tiled[0].int() - all_at_once[0].int()).abs().amax(-1) > 2).float().mean() < 1e-3
    torch.testing.assert_close(tiled[1], all_at_once[1], atol=1e-3, rtol=1e-4)


def test_clips_of_any_number_length_and_size_are_compiled_once(monkeypatch):
    """With a backend that compiles nothing but counts, for depth, whose code is short."""
    graphs = []

    def counting(graph, inputs):
        graphs.append(graph)
        return graph.forward

    for name, value in (("_COMPILED_RAYS_AT_ONCE", 1 << 12), ("_PIECE", 128), ("_SCENES_AT_ONCE", 3)):
        monkeypatch.setattr(render_module, name, value)
    compiled = torch.compile(
        lambda packets, around, x, y: render_module._depth_of(packets, around, x, y, None),
        dynamic=False,
        backend=counting,
    )
    monkeypatch.setattr(render_module, "_compiled_depth", compiled)
    for style, seeds, frames, width, height in (
        ("walkthrough", [1, 2], 2, 40, 24),
        ("panorama", [3], 5, 16, 16),
        ("orbit", [4, 5, 6, 7], 1, 16, 48),
    ):
        batch = sample_batch(style, seeds, frames, width, height)
        cameras = (batch.scenes, batch.camera_to_world, batch.intrinsics, batch.xi, width, height)
        torch.testing.assert_close(render_depth(*cameras, compile=True), render_depth(*cameras), atol=1e-3, rtol=1e-4)
    assert len(graphs) == 1


@pytest.mark.parametrize("style", STYLES)
def test_a_clip_is_the_same_bytes_in_any_batch(style):
    alone = sample_batch(style, [11], frames=3, width=32, height=32)
    among = sample_batch(style, [2, 11, 7], frames=3, width=32, height=32)
    assert torch.equal(alone.camera_to_world[0], among.camera_to_world[1])
    assert torch.equal(alone.scenes.solids[0], among.scenes.solids[1])
    assert torch.equal(alone.scenes.materials[0], among.scenes.materials[1])
    assert alone.captions[0] == among.captions[1]
    first, second = alone.render(), among.render()
    assert torch.equal(first[0][0], second[0][1]) and torch.equal(first[1][0], second[1][1])
    assert torch.equal(first[0], alone.render()[0])


def test_different_seeds_and_styles_are_different_scenes():
    frames = sample_batch("walkthrough", range(6), frames=1, width=24, height=24).render_frames().float()
    apart = torch.cdist(frames.flatten(1), frames.flatten(1)) + 1e6 * torch.eye(6)
    assert apart.min() > 100
    assert not torch.equal(make_scene(0, "walkthrough").solids, make_scene(0, "orbit").solids)


@pytest.mark.parametrize("style", STYLES)
def test_only_the_open_world_moves(style):
    seeds = range(4)
    scenes = make_scenes(seeds, style)
    early, late = scenes.solids_at(torch.zeros(4, 1)), scenes.solids_at(torch.full((4, 1), 1.0))
    moved = ((early - late).abs().amax((1, 2, 3)) > 0.01).tolist()
    assert moved == [style == "openworld"] * 4


def test_a_moving_thing_changes_the_picture_of_a_still_camera():
    batch = sample_batch("openworld", range(4), frames=17, width=48, height=48)
    still = dataclasses.replace(batch, camera_to_world=batch.camera_to_world[:, :1].expand(-1, 17, -1, -1))
    frames = still.render_frames().int()
    assert ((frames[:, 0] - frames[:, 16]).abs().amax((1, 2, 3)) > 40).any()


def test_a_camera_outside_its_room_or_inside_a_solid_still_gives_numbers():
    scene = make_scene(0, "walkthrough")
    poses = torch.eye(4, dtype=torch.float64).repeat(3, 1, 1)
    poses[:, :3, 3] = torch.tensor(
        [[30.0, -1.0, 0.0], [0.0, 5.0, 0.0], scene.solids[0, 0, :3].tolist()], dtype=torch.float64
    )
    trajectory = looking_ahead(size=24, frames=3).replace(camera_to_world=poses)
    depth = render_clip(scene, trajectory).depth
    assert depth.isfinite().all()


def test_bad_arguments_are_one_sentence():
    scene, poses = make_scene(0, "orbit"), torch.eye(4).repeat(1, 2, 1, 1)
    lenses = lens.intrinsics_from_fov(60, 16, 16).expand(1, 2, 3, 3)
    cases = [
        (lambda: make_scene(0, "forest"), "style is 'forest'"),
        (lambda: make_scene(-1, "orbit"), "seed is -1"),
        (lambda: make_scenes([], "orbit"), "scenes is empty"),
        (lambda: sample_batch("orbit", [0], frames=0), "frames is 0"),
        (lambda: sample_batch("orbit", [0], width=-3), "width is -3"),
        (lambda: render_batch(scene, poses[0], lenses, torch.zeros(1), 16, 16), "camera_to_world has shape"),
        (lambda: render_batch(scene, poses, lenses[:, :1], torch.zeros(1), 16, 16), "intrinsics has shape"),
        (lambda: render_batch(scene, poses, lenses, torch.zeros(2), 16, 16), "xi has shape"),
        (lambda: render_batch(scene, poses, lenses, torch.zeros(1), 16, 0), "height is 0"),
        (lambda: render_batch(scene, poses, lenses, torch.zeros(1), 16, 16, samples=3), "samples is 3"),
        (
            lambda: render_batch(scene, poses, lenses, torch.zeros(1), 16, 16, seconds=torch.zeros(1)),
            "seconds has shape",
        ),
        (lambda: render_clip(stack([scene, scene]), looking_ahead()), "scene holds 2 scenes"),
    ]
    for call, start in cases:
        with pytest.raises(SightlineError) as caught:
            call()
        assert str(caught.value).startswith(start) and str(caught.value).endswith(".") and "\n" not in str(caught.value)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize("compiled", [False, True])
def test_cuda_and_cpu_give_the_same_scene_frames_and_depth(style, compiled):
    batch = sample_batch(style, [3, 8], frames=5, width=64, height=64)
    assert torch.equal(batch.scenes.to("cuda").solids.cpu(), batch.scenes.solids)
    frames, depth = batch.render()
    there = batch.render("cuda", compile=compiled)
    difference = (frames.int() - there[0].cpu().int()).abs().amax(-1)
    assert (difference > 3).float().mean() < 2e-3  # a few rays that graze an edge fall on its other side
    assert ((depth - there[1].cpu()).abs() > 1e-3 * depth).float().mean() < 2e-3
