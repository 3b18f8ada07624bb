"""Sources of depth: shapes with known answers, files, worlds, and a model that is a stand-in."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.studio import depth
from sightline.worlds import render_clip, sample_clip

CAMERA = moves.static(frames=1, width=64, height=48, focal_mm=18)  # tan of half the angle across is 1


def test_a_plane_has_one_depth():
    assert torch.equal(depth.plane_depth(CAMERA, 3.0), torch.full((48, 64), 3.0))
    with pytest.raises(SightlineError, match="distance is 0"):
        depth.plane_depth(CAMERA, 0)


def test_a_box_room_has_its_walls_where_they_are_said_to_be():
    found = depth.box_room_depth(CAMERA, distance=5.0, across=4.0, up=1.0, down=2.0)
    assert float(found[24, 32]) == 5.0
    assert float(found[24, 0]) == pytest.approx(2.0 / (31.5 / 32), rel=1e-6)  # the left wall, 2 to the left
    assert float(found[0, 32]) == pytest.approx(1.0 / (23.5 / 32), rel=1e-6)  # the ceiling
    assert float(found[47, 32]) == pytest.approx(2.0 / (23.5 / 32), rel=1e-6)  # the floor


def test_a_file_is_scaled_and_cropped_as_the_picture_is(tmp_path):
    columns = np.tile(np.arange(1, 201, dtype=np.float32), (96, 1))  # wider than the camera's picture
    np.save(tmp_path / "depth.npy", columns)
    found = depth.fitted(depth.read_depth(tmp_path / "depth.npy"), CAMERA)
    assert found.shape == (48, 64) and found.dtype == torch.float32
    assert float(found[0, 0]) == pytest.approx(37.0 + 1, abs=1) and float(found[0, -1]) == pytest.approx(163.0, abs=1)


@pytest.mark.parametrize(
    "array, words", [(np.zeros((4, 4)), "not above 0"), (np.ones(4), "shape"), (np.array([{}]), "cannot be read")]
)
def test_a_file_of_something_else_is_refused(tmp_path, array, words):
    np.save(tmp_path / "depth.npy", array, allow_pickle=True)
    with pytest.raises(SightlineError, match=words):
        depth.read_depth(tmp_path / "depth.npy")


def test_the_depth_of_a_world_is_what_its_renderer_measures():
    clip = sample_clip("walkthrough", 16, 2, 32, 32)
    rendered = render_clip(clip.scene, clip.true_trajectory)
    assert torch.equal(depth.world_depth(clip.scene, clip.true_trajectory), rendered.depth[0])


class _Stub:
    def __init__(self, values, metric):
        self.values, self.model = values, type("Model", (), {})()
        self.model.config = type("Config", (), {"model_type": "depth_pro" if metric else "depth_anything"})()

    def __call__(self, image):
        return {"predicted_depth": torch.tensor(self.values)[None]}


def test_metric_depth_is_kept_and_relative_inverse_depth_is_scaled_to_the_subject():
    image = Image.new("RGB", (64, 48))
    metric = depth.model_depth(image, "m", estimator=_Stub(np.full((6, 8), 7.0), metric=True))
    assert metric.shape == (6, 8) and (metric == 7.0).all()
    inverse = np.full((6, 8), 0.5)
    inverse[2:4] = 2.0  # nearer
    found = depth.model_depth(image, "m", distance=3.0, estimator=_Stub(inverse, metric=False))
    assert found[2, 4] == pytest.approx(3.0, rel=1e-5) and found[0, 0] == pytest.approx(12.0, rel=1e-5)


def test_a_model_that_fails_is_one_sentence():
    with pytest.raises(SightlineError, match="model 'x' cannot estimate depth"):
        depth.model_depth(Image.new("RGB", (8, 8)), "x", estimator=lambda image: {})
