"""Mirrored and reversed shots: their cameras are those of the pictures that they show."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import torch

from sightline.cameras import se3
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.shot_batch import mirror
from sightline.data.sources import open_source
from sightline.errors import SightlineError
from sightline.worlds import STYLES, Scene, render_batch, sample_batch
from sightline.worlds.textures import BASE_R, GLOW, SECOND_R

SPEC = ClipSpec(num_frames=5, width=32, height=24)
OPTIONS = "clips=4&paths=2&mirrored=true"


def shots_of(style, names, options="unit=metre&moves=0.5"):
    return open_source(f"worlds:{style}?{options}").for_spec(SPEC).sample_shots(names)


def mirrored_scene(scene: Scene) -> Scene:
    """The scene reflected in the plane x = 0, built from its solids: nothing of the code under test."""
    solids, room, light = scene.solids.clone(), scene.room.clone(), scene.light.clone()
    solids[..., [0, 7, 8]] *= -1  # centre, sine of the turn, sway
    room[:, [0, 3]] = -scene.room[:, [3, 0]]
    light[:, 0] *= -1
    return Scene(solids, room, scene.materials, light, scene.notes)


def plain(scene: Scene) -> Scene:
    """The scene without textures, whose coordinates start at an edge and so are not mirrored with it."""
    materials = torch.zeros_like(scene.materials)
    materials[..., BASE_R:SECOND_R] = scene.materials[..., BASE_R:SECOND_R]
    materials[..., GLOW] = scene.materials[..., GLOW]
    return dataclasses.replace(scene, materials=materials)


@pytest.mark.parametrize("style", STYLES)
def test_a_mirror_image_is_what_the_mirrored_camera_sees_in_the_mirrored_scene(style):
    shots = shots_of(style, ["00000003-1", "00000003-1m", "00000008-0m"])
    takes = dataclasses.replace(shots.takes, scenes=plain(shots.takes.scenes))
    # A principal point that is not in the middle.
    lens = takes.intrinsics.clone()
    lens[..., 0, 2] += 5.0
    takes = dataclasses.replace(takes, intrinsics=lens)
    shots = dataclasses.replace(shots, takes=takes)
    # One ray per pixel: the four of a pixel are not placed symmetrically.
    frames, depth = (shots.show(part) for part in takes.render(samples=1))
    cameras, mirrored = shots.cameras, shots.mirrored
    scenes = mirrored_scene(takes.scenes).select(shots.take[mirrored])
    seen, far = render_batch(
        scenes, cameras.camera_to_world[mirrored], cameras.intrinsics[mirrored], cameras.xi[mirrored], 32, 24, samples=1
    )
    different = ((far - depth[mirrored]).abs() > 1e-3 * far).float().mean()
    assert different < 2e-3  # a few rays that graze an edge
    assert ((seen.int() - frames[mirrored].int()).abs().amax(-1) > 2).float().mean() < 5e-3
    # The picture is not its own mirror image, so an unmirrored camera does not fit.
    wrong, _ = render_batch(
        scenes, takes.camera_to_world[shots.take[mirrored]], takes.intrinsics[shots.take[mirrored]],
        cameras.xi[mirrored], 32, 24, samples=1,
    )  # fmt: skip
    assert ((wrong.int() - frames[mirrored].int()).abs().amax(-1) > 2).float().mean() > 0.1


def test_a_mirrored_pose_is_a_rigid_motion_and_mirroring_twice_changes_nothing():
    poses = sample_batch("panorama", range(4), 5, 16, 16).camera_to_world
    assert (se3.orthonormality_error(mirror(poses)[..., :3, :3]) < 1e-12).all()
    assert torch.equal(mirror(mirror(poses)), poses)
    torch.testing.assert_close(se3.anchor(mirror(poses)), mirror(se3.anchor(poses)))  # a pan right becomes a pan left


@pytest.mark.parametrize("style", ["walkthrough", "orbit", "panorama"])
def test_a_reversed_clip_is_rendered_along_its_own_trajectory(style):
    clips = Clips([open_source(f"worlds:{style}?clips=2&reversed=true&unit=metre&moves=0.5")], SPEC)
    assert [window.shot for window in clips.windows] == ["00000000", "00000000r", "00000001", "00000001r"]
    for forward, backward in ((clips[0], clips[1]), (clips[2], clips[3])):
        assert np.array_equal(backward.frames, forward.frames[::-1])
        poses = forward.trajectory.camera_to_world.flip(0)
        torch.testing.assert_close(backward.trajectory.camera_to_world, se3.anchor(poses))
        assert torch.equal(backward.trajectory.intrinsics, forward.trajectory.intrinsics.flip(0))
        assert torch.equal(backward.trajectory.camera_to_world[0], torch.eye(4, dtype=torch.float64))
    shots = clips.sources[0].sample_shots(["00000000r"])
    cameras, takes = shots.cameras, shots.takes
    again, _ = render_batch(takes.scenes, cameras.camera_to_world, cameras.intrinsics, cameras.xi, 32, 24)
    assert np.array_equal(again[0].numpy(), clips[1].frames)
    at_the_end = dataclasses.replace(
        takes, camera_to_world=takes.camera_to_world.flip(1), intrinsics=takes.intrinsics.flip(1)
    )
    assert shots.captions == at_the_end.captions
    if style == "panorama":
        assert shots.near_depth is not None
        torch.testing.assert_close(shots.near_depth, at_the_end.near_depth_at(0))


def test_things_that_move_are_not_reversed():
    with pytest.raises(SightlineError, match="reversed is true for openworld, where things move"):
        open_source("worlds:openworld?reversed=true")


def test_mirrored_and_reversed_at_once():
    clips = Clips([open_source("worlds:orbit?clips=1&mirrored=true&reversed=true")], SPEC)
    assert [window.shot[8:] for window in clips.windows] == ["", "m", "r", "mr"]
    first, _, _, both = clips
    assert np.array_equal(both.frames, first.frames[::-1, :, ::-1])
    poses = first.trajectory.camera_to_world.flip(0)
    torch.testing.assert_close(both.trajectory.camera_to_world, se3.anchor(mirror(poses)))
    assert len({clip.scene for clip in clips}) == 1


def test_the_depth_of_a_derived_shot_is_that_of_its_first_frame():
    source = open_source("worlds:orbit?clips=1&unit=metre").for_spec(SPEC)
    _, depth = source.sample_shots(["00000000"]).takes.render(samples=1)
    for suffix, expected in (
        ("", depth[0, 0]),
        ("m", depth[0, 0].flip(1)),
        ("r", depth[0, 4]),
        ("mr", depth[0, 4].flip(1)),
    ):
        found = source.depth(f"00000000{suffix}", 0, SPEC)
        torch.testing.assert_close(torch.from_numpy(found), expected, atol=1e-4, rtol=1e-5)


def test_shots_are_named_by_scene_and_path_and_split_by_scene():
    source = open_source(f"worlds:panorama?{OPTIONS}&seed=7")
    assert source.shots() == [f"0000000{seed}-{path}{side}" for seed in (7, 8) for path in (0, 1) for side in ("", "m")]
    assert [source.scene(shot) for shot in source.shots()] == ["00000007"] * 4 + ["00000008"] * 4
    many = open_source("worlds:orbit?clips=200&paths=5&mirrored=true")
    parts = [
        {window.shot[:8] for window in Clips([many], SPEC, part=part, held_out=0.3).windows}
        for part in ("train", "held-out")
    ]
    assert not parts[0] & parts[1] and len(parts[0] | parts[1]) == 40 and parts[1]
    for text, sentence in (("paths=0", "paths is 0"), ("moves=2", "moves is 2.0: expected a fraction between 0 and 1")):
        with pytest.raises(SightlineError, match=sentence):
            open_source(f"worlds:orbit?{text}")
    with pytest.raises(SightlineError, match="shot is 'seven': expected a name such as"):
        source.scene("seven")


def test_paths_differ_and_the_first_is_the_one_without_paths():
    batch = sample_batch("walkthrough", [5, 5, 5, 6], 9, 32, 32, paths=[0, 1, 2, 1])
    alone = sample_batch("walkthrough", [5], 9, 32, 32)
    assert torch.equal(batch.camera_to_world[0], alone.camera_to_world[0]) and batch.captions[0] == alone.captions[0]
    assert torch.equal(batch.intrinsics[0], alone.intrinsics[0])
    assert torch.equal(batch.scenes.solids[1], batch.scenes.solids[0])
    assert not torch.equal(batch.camera_to_world[1], batch.camera_to_world[0])
    assert not torch.equal(batch.camera_to_world[1], batch.camera_to_world[2])
    other = sample_batch("walkthrough", [6], 9, 32, 32, paths=[1])
    assert torch.equal(other.camera_to_world[0], batch.camera_to_world[3])


@pytest.mark.parametrize("near_depth", [False, True])
def test_cameras_of_a_batch_are_those_of_each_trajectory(near_depth):
    spec = dataclasses.replace(SPEC, near_depth=near_depth)
    shots = shots_of("panorama", ["00000003m", "00000004", "00000003r"], "moves=0.5")
    cameras = shots.clip_cameras(spec, eta=3.0)
    for index in range(3):
        expected = spec.trajectory(shots.trajectory(index), 0, eta=3.0)
        assert torch.equal(cameras.camera_to_world[index], expected.camera_to_world)
        assert torch.equal(cameras.intrinsics[index], expected.intrinsics)


@pytest.mark.parametrize("style", STYLES)
def test_no_caption_names_a_side(style):
    words = {word for caption in sample_batch(style, range(120), 2, 16, 16).captions for word in caption.split()}
    assert not words & {"left", "right", "west", "east", "clockwise"}
