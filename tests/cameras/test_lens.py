"""Rays of pixels: pinhole and unified camera model."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from sightline.cameras import lens
from sightline.errors import SightlineError


def test_the_middle_of_the_picture_looks_straight_ahead():
    k = lens.intrinsics_from_fov(90, 64, 32)
    ahead = lens.pixel_rays(k, torch.tensor([32.0, 16.0], dtype=torch.float64))
    torch.testing.assert_close(ahead, torch.tensor([0.0, 0.0, 1.0], dtype=torch.float64))


def test_the_edge_of_a_90_degree_lens_looks_45_degrees_aside():
    k = lens.intrinsics_from_fov(90, 64, 32)
    x, y, z = lens.pixel_rays(k, torch.tensor([64.0, 16.0], dtype=torch.float64)).tolist()
    assert math.isclose(x, z, rel_tol=1e-12) and y == 0.0 and x > 0


def test_36_millimetres_on_a_36_millimetre_sensor_is_one_picture_width():
    k = lens.intrinsics_from_mm(torch.tensor(36.0), 832, 480)
    assert k[0, 0] == k[1, 1] == 832 and k[0, 2] == 416 and k[1, 2] == 240


@given(st.floats(0, 0.95), st.floats(0, 64), st.floats(0, 48))
def test_projecting_a_ray_finds_its_pixel(xi, x, y):
    k = lens.intrinsics_from_fov(75, 64, 48)
    pixel = torch.tensor([x, y], dtype=torch.float64)
    ray = lens.pixel_rays(k, pixel, xi)
    assert abs(ray.norm().item() - 1) < 1e-12
    torch.testing.assert_close(lens.project(k, 3.0 * ray, xi), pixel, atol=1e-9, rtol=0)


def test_xi_widens_the_view():
    k = lens.intrinsics_from_fov(75, 64, 48)
    corner = torch.tensor([64.0, 48.0], dtype=torch.float64)
    assert lens.pixel_rays(k, corner, xi=0.8)[2] < lens.pixel_rays(k, corner, xi=0.0)[2]


def test_pixels_outside_the_sphere_are_refused():
    k = lens.intrinsics_from_fov(120, 64, 48)
    with pytest.raises(SightlineError, match="xi = 2"):
        lens.pixel_rays(k, torch.tensor([64.0, 48.0], dtype=torch.float64), xi=2.0)


def test_patch_centres_are_at_half_a_stride_row_by_row():
    centres = lens.grid_centres(width=64, height=32, columns=4, rows=2)
    assert centres[0].tolist() == [[8, 8], [24, 8], [40, 8], [56, 8]]
    assert centres[1, 0].tolist() == [8, 24]
