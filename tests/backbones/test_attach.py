"""A camera that does not fit a model is refused before any weight of the model is read."""

from __future__ import annotations

import re

import pytest

import sightline as sl
from sightline.backbones.attach import attach_camera, save_pipeline_camera
from sightline.backbones.tiny import tiny_pipeline
from sightline.encodings import encoding_from_config
from sightline.errors import SightlineError
from sightline.generation.model import Model, ModelOptions


@pytest.fixture(scope="module")
def without_weights(tmp_path_factory):
    """Saved pipelines without any weights: whatever reads them fails."""
    folder = tmp_path_factory.mktemp("models")
    for kind in ("ti2v-5b", "i2v-a14b", "vace", "ltx-2"):
        tiny_pipeline(kind).save_pretrained(folder / kind)
    for weights in folder.rglob("*.safetensors"):
        weights.unlink()
    return folder


@pytest.fixture(scope="module")
def cameras(tmp_path_factory):
    """Camera weights of two backbones; `saved` is a complete model of the second."""
    folder = tmp_path_factory.mktemp("cameras")
    for kind in ("ti2v-5b", "wan2.1-i2v"):
        pipe = attach_camera(tiny_pipeline(kind), sl.Scope())
        save_pipeline_camera(pipe, folder / kind)
    pipe.transformer.save_pretrained(folder / "saved")
    tiny_pipeline("ti2v-5b").transformer.save_pretrained(folder / "stock")
    (folder / "empty").mkdir()
    (folder / "notes.txt").write_text("no weights")
    return folder


@pytest.mark.parametrize(
    "model, camera, message",
    [
        ("ti2v-5b", "wan2.1-i2v", "was trained on a backbone with in_channels 36: this model has 48."),
        ("vace", "wan2.1-i2v", "was trained on a backbone with in_channels 36: this model has 16."),
        ("ltx-2", "ti2v-5b", "was trained on a backbone with attention_head_dim 12: this model has 16."),
        ("i2v-a14b", "ti2v-5b/transformer.safetensors", "since this model has two experts"),
        ("ti2v-5b", "saved", "was trained on a backbone with in_channels 36"),
        ("ti2v-5b", "stock", "is a WanTransformer3DModel without a camera"),
        ("ti2v-5b", "empty", "config.json cannot be read"),
        ("ti2v-5b", "missing", "does not exist"),
        ("ti2v-5b", "notes.txt", "holds no camera weights"),
    ],
)
def test_files_that_do_not_fit_are_refused_first(without_weights, cameras, model, camera, message):
    with pytest.raises(SightlineError, match=re.escape(message)):
        sl.load_pipeline(without_weights / model, camera=cameras / camera)


@pytest.mark.parametrize(
    "camera, message",
    [(encoding_from_config({"name": "rerope"}), "LTX2VideoTransformer3DModel"), (7, "camera is 7: expected a path")],
)
def test_other_cameras_that_do_not_fit_are_refused_first(without_weights, camera, message):
    with pytest.raises(SightlineError, match=message):
        sl.load_pipeline(without_weights / "ltx-2", camera=camera)


def test_a_camera_that_fits_is_not_refused(without_weights, cameras):
    with pytest.raises(SightlineError, match="cannot be loaded"):  # the weights of the model, which are missing
        sl.load_pipeline(without_weights / "ti2v-5b", camera=cameras / "ti2v-5b")


def test_an_encoding_for_a_model_with_a_camera_is_refused_first(tmp_path):
    attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope()).save_pretrained(tmp_path)
    for weights in tmp_path.rglob("*.safetensors"):
        weights.unlink()
    with pytest.raises(SightlineError, match="already carries the encoding 'scope'"):
        sl.load_pipeline(tmp_path, camera=sl.Scope())


def test_a_run_refuses_a_camera_that_does_not_fit_before_it_plans_anything(without_weights, cameras):
    options = ModelOptions(str(without_weights / "vace"), cameras / "wan2.1-i2v")
    with pytest.raises(SightlineError, match="in_channels 36: this model has 16"):
        Model(options).info  # noqa: B018  # a property
