"""Which way a pose goes. One camera stands at the origin, the other a unit to its right; each method says by a sign which is
which. Camera-to-world and world-to-camera exchanged, every one of these signs turns round: the last test shows it."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.encodings import FreqSplit, Gta, Prope, ReCamMaster, ReRope, Scope, Ucpe
from sightline.encodings.cameractrl import pixel_rays
from sightline.encodings.freqsplit import camera_uv_phases, four_dof_phases
from sightline.encodings.ucpe import world_to_ray
from sightline.kernels.scope_reference import ray_features
from tests.encodings import geometry as g

MOVED = 6  # a token of latent frame 1, whose camera stands at (1, 0, 0)
D = g.HEAD


def still_then_right() -> Trajectory:
    """Frame 0 at the origin, frames 1 to 4 one unit to the right, all looking along z; a lens of 90 degrees."""
    poses = torch.eye(4, dtype=torch.float64).repeat(5, 1, 1)
    poses[1:, 0, 3] = 1.0
    return Trajectory(poses, lens.intrinsics_from_fov(90, g.WIDTH, g.HEIGHT), g.WIDTH, g.HEIGHT)


def exchanged() -> Trajectory:
    trajectory = still_then_right()
    return Trajectory(torch.linalg.inv(trajectory.camera_to_world), trajectory.intrinsics, g.WIDTH, g.HEIGHT)


def relative_entry(layer, camera: Tensor, query_token: int, key_token: int, offset: int) -> float:
    """Row 0, column 3 of what stands between a query and a key: the x translation of M_i M_j^-1."""
    query, key = torch.zeros(2, 1, g.TOKENS, g.HEADS, D, dtype=torch.float64)
    query[..., offset], key[..., offset + 3] = 1.0, 1.0
    if "rotate" in layer.stages:
        still = torch.ones(1, g.TOKENS, 1, D, dtype=torch.float64)
        query, key, _ = layer("rotate", query, key, key, (still, 0 * still), camera)
        return float(g.logits(query, key)[0, 0, query_token, key_token])
    matrix, inverse = layer.frame(camera)
    return (matrix[0, query_token] @ inverse[0, key_token])[0, 3].item()


def prope(camera):
    return relative_entry(g.trained(Prope()), camera, MOVED, 0, 0) / float(camera[0, 0, 18])  # fx / width


def gta(camera):
    return relative_entry(g.trained(Gta(translation=1.0), seed=1), camera, MOVED, 0, 0)


def ucpe(camera):
    """In the frame of a ray its own camera is at the origin, and the world's origin lies to the left."""
    return float(world_to_ray(camera)[0, MOVED, 0, 3])


def rerope(camera):
    return relative_entry(ReRope().layer(g.DIM, g.HEADS), camera, MOVED, 0, 4)


def projective(camera):
    return relative_entry(FreqSplit("projective").layer(g.DIM, g.HEADS), camera, MOVED, 0, 4)


def camera_uv(camera):
    """The moved camera's near points lie to the right, so they appear further right in the first camera."""
    phases = camera_uv_phases(camera)[0]
    return float(phases[0, 0] - phases[MOVED, 0])  # tokens 0 and 6 are at the same place of the image


def four_dof(camera):
    """The closest point to the origin of a ray from (1, 0, 0) lies to the east."""
    return -float(four_dof_phases(camera)[0, MOVED, 2])


def plucker(camera):
    layer = FreqSplit("plucker").layer(g.DIM, g.HEADS).double()
    with torch.no_grad():
        layer.weight[:, 4] = 1.0  # reads m_y: (1, 0, 0) x (0, 0, 1) = (0, -1, 0)
    return layer.phase(camera)[0, MOVED, 0, 0].item()


def scope(camera):
    """The unit moment's y, where a ray straight ahead from the right has -1."""
    return float(ray_features(camera, True, 1e-6)[0][0, MOVED, 4])


def cameractrl(camera):
    """The moment's y (second of the six) of a pixel in the last raw frame."""
    return float(pixel_rays(camera, g.GRID, 2).unflatten(-1, (4, 6, 2, 2))[0, MOVED, 3, 1, 0, 0])


def recammaster(camera):
    layer, hidden = ReCamMaster().layer(g.DIM, g.HEADS).double(), torch.zeros(1, g.TOKENS, g.DIM, dtype=torch.float64)
    with torch.no_grad():
        layer.pose_weight[:, 3] = 1.0  # reads the x of the camera's place in the world
    return -layer("input", hidden, camera)[0, MOVED, 0].item()


METHODS = [prope, gta, ucpe, rerope, projective, camera_uv, four_dof, plucker, scope, cameractrl, recammaster]


@pytest.mark.parametrize("method", METHODS)
def test_a_camera_to_the_right_sees_the_world_to_its_left(method):
    assert method(g.rows(still_then_right())) < -0.05


@pytest.mark.parametrize("method", METHODS)
def test_with_directions_exchanged_every_sign_turns_round(method):
    assert method(g.rows(exchanged())) > 0.05


def test_the_numbers_themselves():
    camera = g.rows(still_then_right())
    for method in (prope, rerope):
        assert math.isclose(method(camera), -1.0, abs_tol=1e-9)
    assert math.isclose(projective(camera), -0.5)  # fx / width at 90 degrees; equal lenses cancel the common factor
    assert math.isclose(recammaster(camera), -1.0, abs_tol=1e-9)
    layer = Ucpe(ratio=1).layer(g.DIM, g.HEADS)
    assert layer.stages == {"output"} and Scope().layer(g.DIM, g.HEADS).stages == {"inject"}
