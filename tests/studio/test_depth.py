"""Sources of depth: shapes with known answers, files, worlds, and a model that is a stand-in."""

from __future__ import annotations

import io
import pickle

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


def npy(array, **options):
    buffer = io.BytesIO()
    np.save(buffer, array, **options)
    return buffer.getvalue()


def npy_that_claims(shape):
    """A short file whose header claims a huge array."""
    buffer = io.BytesIO()
    np.lib.format.write_array_header_1_0(buffer, {"descr": "<f4", "fortran_order": False, "shape": shape})
    return buffer.getvalue() + b"\0" * 64


class _Trap:
    """Whoever unpickles it gets caught."""

    def __reduce__(self):
        return pytest.fail, ("the file was unpickled",)


def npz():
    buffer = io.BytesIO()
    np.savez(buffer, depth=np.ones((4, 4)))
    return buffer.getvalue()


HOSTILE = {
    "zeros": (npy(np.zeros((4, 4))), "not above 0"),
    "negative": (npy(np.array([[1.0, -np.inf]])), "not above 0"),
    "infinite": (npy(np.full((2, 2), np.inf)), "no finite value"),
    "nan": (npy(np.array([[1.0, np.nan]])), "not above 0"),
    "one axis": (npy(np.ones(4)), r"shape \[4\]"),
    "no axis": (npy(np.float32(1.0)), r"shape \[\]"),
    "three axes": (npy(np.ones((2, 2, 3))), r"shape \[2, 2, 3\]"),
    "empty": (npy(np.ones((0, 4))), r"shape \[0, 4\]"),
    "pickle in npy": (npy(np.array([[_Trap()]]), allow_pickle=True), "cannot be read"),
    "pickle": (pickle.dumps(_Trap()), "is no .npy file"),
    "archive": (npz(), "is no .npy file"),
    "complex": (npy(np.ones((2, 2), complex)), "values of type complex128"),
    "text": (npy(np.array([["1.0", "2.0"]])), "values of type <U3"),
    "booleans": (npy(np.ones((2, 2), bool)), "values of type bool"),
    "records": (npy(np.ones((2, 2), [("a", "f4")])), "values of type"),
    "huge": (npy_that_claims((2**20, 2**20)), "cannot be read"),
    "overflowing": (npy_that_claims((2**62, 2**62)), "cannot be read"),
    "minus": (npy_that_claims((-4, -4)), "cannot be read|shape"),
    "cut": (npy(np.ones((64, 64)))[:200], "cannot be read"),
    "nothing": (b"", "is no .npy file"),
    "a letter": (b"hello", "is no .npy file"),
    "header only": (b"\x93NUMPY\x01\x00\xff\xff{", "cannot be read"),
}


@pytest.mark.parametrize("content, words", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_file_is_refused_in_one_sentence(tmp_path, content, words):
    (tmp_path / "depth.npy").write_bytes(content)
    with pytest.raises(SightlineError, match=words) as caught:
        depth.read_depth(tmp_path / "depth.npy", "room.npy")
    assert str(caught.value).startswith("room.npy ") and "\n" not in str(caught.value) and len(str(caught.value)) < 300


@pytest.mark.parametrize("kind", ["float16", "float64", "uint16", ">f4"])
def test_depths_of_other_types_and_of_the_sky_are_read(tmp_path, kind):
    values = np.full((3, 5), 4).astype(kind)
    if values.dtype.kind == "f":
        values[0, 0] = np.inf
    np.save(tmp_path / "depth.npy", np.asfortranarray(values))
    found = depth.read_depth(tmp_path / "depth.npy")
    assert found.dtype == np.float32 and np.array_equal(found, values.astype(np.float32))


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


def test_a_depth_model_of_transformers_is_loaded_and_used(tmp_path):
    from transformers import DPTConfig, DPTForDepthEstimation, DPTImageProcessorPil

    config = DPTConfig(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=16, image_size=32, patch_size=8,
        backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, is_hybrid=False,
    )  # fmt: skip
    model = DPTForDepthEstimation(config)
    for parameter in model.head.parameters():  # above zero everywhere, and not the same
        parameter.data.abs_().add_(0.1)
    model.save_pretrained(tmp_path)
    DPTImageProcessorPil(size={"height": 32, "width": 32}).save_pretrained(tmp_path)
    image = np.random.default_rng(0).integers(0, 256, (48, 64, 3), np.uint8)
    found = depth.model_depth(Image.fromarray(image), str(tmp_path), distance=3.0)
    assert found.shape == (48, 64) and found.min() > 0 and np.unique(found).size > 100
    assert depth.subject_depth(torch.from_numpy(found)) == pytest.approx(3.0, rel=1e-3)

    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")  # a pickle, which transformers alone would read
    with pytest.raises(SightlineError, match=r"cannot be loaded .*safetensors"):
        depth.model_depth(Image.fromarray(image), str(tmp_path))


def test_a_model_that_fails_is_one_sentence():
    with pytest.raises(SightlineError, match="model 'x' cannot estimate depth"):
        depth.model_depth(Image.new("RGB", (8, 8)), "x", estimator=lambda image: {})


@pytest.mark.parametrize(
    "name", ["..", "/etc", "../models/depth", "a/b/c", "owner/../x", "~/x", "", "a b/c", "owner\\name"]
)
def test_a_page_cannot_name_a_folder_as_a_depth_model(name):
    with pytest.raises(SightlineError, match="expected the id of a model on the hub"):
        depth.require_hub_id(name)


def test_an_id_that_is_also_a_folder_here_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert depth.require_hub_id("owner/depth-model.v2") == "owner/depth-model.v2"
    (tmp_path / "owner" / "depth-model.v2").mkdir(parents=True)
    with pytest.raises(SightlineError, match="owner/depth-model"):
        depth.require_hub_id("owner/depth-model.v2")
