"""One trajectory means the same in every released model: right is right, up is up, forward is forward."""

from __future__ import annotations

import math

import pytest
import torch
from diffusers.pipelines.sana_wm.cam_utils import prepare_camera

from sightline.backbones.hy_worldplay_model import actions, frame_poses
from sightline.backbones.released import RELEASES, read_released
from sightline.backbones.sana_wm import camera_arguments
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import INTRINSICS, CameraTokens
from sightline.encodings.cameractrl import pixel_rays
from tests.backbones import releases

SIZE = {"frames": 9, "width": 96, "height": 96}
GRID = TokenGrid(3, 3, 3)  # its middle token looks along the axis of the camera
MIDDLE = -5
SINE, COSINE = math.sin(math.radians(40)), math.cos(math.radians(40))

# What the models' own code makes of its commands, in the axes of the first camera: right, down, forward. DreamX-World's "l"
# (pan right), "i" (tilt up), "d" and "w" at speed 4, from ActionToPoseFromID of utils/inference_utils.py; VideoX-Fun's
# Pan_Right.txt, which is a truck, and Zoom_In.txt, which is a dolly, in the signs of their last poses.
MOVES = {
    "pan right": (moves.pan(40, **SIZE), (SINE, 0, COSINE), (0, 0, 0)),
    "tilt up": (moves.tilt(40, **SIZE), (0, -SINE, COSINE), (0, 0, 0)),
    "truck right": (moves.truck(4, **SIZE), (0, 0, 1), (4, 0, 0)),
    "dolly in": (moves.dolly(4, **SIZE), (0, 0, 1), (0, 0, 4)),
}


def fun(layer, rows):
    """The ray (o x d, d) of the pixels in the middle, in the last raw frame."""
    pixels = layer.settings.pixels
    rays = pixel_rays(rows, GRID, pixels)[0, MIDDLE].reshape(4, 6, pixels, pixels)[-1]
    half = pixels // 2
    moment, direction = rays[:, half - 1 : half + 1, half - 1 : half + 1].mean(dim=(-1, -2)).split(3)
    return direction / direction.norm(), moment


def prope(layer, rows):
    """The axis and the moment of the camera whose frame the branch applies."""
    _, inverse = layer.frame(rows)
    lens = layer.settings.lens or rows[0, MIDDLE, INTRINSICS][:2].tolist()
    camera_to_world = inverse[0, MIDDLE] @ torch.diag(torch.tensor([*lens, 1.0, 1.0]))
    direction = camera_to_world[:3, 2]
    return direction, torch.linalg.cross(camera_to_world[:3, 3], direction)


CAMERAS = {
    "5b": (lambda folder: releases.write_fun(folder, "5b"), fun),
    "2.1": (lambda folder: releases.write_fun(folder, "2.1"), fun),
    "a14b": (lambda folder: releases.write_fun(folder, "a14b"), fun),
    "dreamx": (lambda folder: releases.write(folder, releases.dreamx_state()), prope),
    "hy-worldplay": (releases.write_hy, prope),
}


@pytest.mark.parametrize("name", CAMERAS)
def test_a_pan_to_the_right_is_a_pan_to_the_right(name, tmp_path):
    write, seen = CAMERAS[name]
    release = read_released(write(tmp_path))
    layer = release.load("transformer", torch.float32).encoding_layers[0]
    for move, (trajectory, axis, position) in MOVES.items():
        rows = CameraTokens.from_trajectory(trajectory, GRID).rows
        direction, moment = seen(layer, rows)
        axis, position = torch.tensor(axis, dtype=torch.float32), torch.tensor(position, dtype=torch.float32)
        assert torch.allclose(direction, axis, atol=1e-5), move
        assert torch.allclose(moment, torch.linalg.cross(position, axis), atol=1e-3), move


def test_a_pan_to_the_right_is_one_in_sana_wm_too():
    for move, (trajectory, axis, position) in MOVES.items():
        poses, lens = camera_arguments(trajectory).values()
        camera = prepare_camera(poses, lens, target_size=(96, 96), vae_stride=(8, 32, 32))
        pose = camera["raymap"][-1, :16].reshape(4, 4)  # of the last latent frame
        assert torch.allclose(pose[:3, 2], torch.tensor(axis, dtype=torch.float32), atol=1e-5), move
        assert torch.allclose(pose[:3, 3], torch.tensor(position, dtype=torch.float32), atol=1e-5), move
        direction, moment = camera["chunk_plucker"][-6:, -1].split(3)  # of the last frame, [3, 3, 3] each
        assert torch.allclose(torch.linalg.cross(pose[:3, 3], direction[:, 1, 1]), moment[:, 1, 1], atol=1e-5), move


def test_the_action_of_hy_worldplay_is_the_keys_of_its_own_commands():
    """9 times the number of w, s, d, a, plus that of right, left, up, down: 1 to 4 each, by pose_to_input of its generate.py."""
    keys = {"pan right": 1, "tilt up": 3, "truck right": 27, "dolly in": 9}
    for move, (trajectory, *_) in MOVES.items():
        found = actions(frame_poses(CameraTokens.from_trajectory(trajectory, GRID)))
        assert found.tolist() == [[0, keys[move], keys[move]]], move


def test_every_family_is_here(tmp_path):
    found = {type(read_released(write(tmp_path / name))) for name, (write, _) in CAMERAS.items()}
    assert found == set(RELEASES)
