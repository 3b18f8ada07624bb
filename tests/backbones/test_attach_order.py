"""A camera is added to a transformer as it was loaded: what has been turned on before would be lost without a word."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from accelerate import cpu_offload, cpu_offload_with_hook
from diffusers import FirstBlockCacheConfig
from safetensors.torch import load_file

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from tests.conftest import smooth_trajectory, wake


def offload_groups(model):
    cpu = torch.device("cpu")
    model.enable_group_offload(onload_device=cpu, offload_device=cpu, offload_type="leaf_level")


TURNED_ON = {
    "group offload": (offload_groups, "has hooks"),
    "model offload": (lambda model: cpu_offload_with_hook(model, "cpu"), "has hooks"),
    "layerwise casting": (
        lambda model: model.enable_layerwise_casting(torch.float8_e4m3fn, torch.float32),
        "has hooks",
    ),
    "a cache": (lambda model: model.enable_cache(FirstBlockCacheConfig(threshold=0.1)), "has hooks"),
    "compiled blocks": (lambda model: model.compile_repeated_blocks(), "is compiled"),
    "a compiled model": (lambda model: model.compile(), "is compiled"),
}


@pytest.mark.parametrize("name", TURNED_ON)
def test_a_transformer_with_something_turned_on_is_refused(name):
    turn_on, sentence = TURNED_ON[name]
    pipe = tiny_pipeline()
    turn_on(pipe.transformer)
    with pytest.raises(sl.SightlineError, match=f"the transformer {sentence}.*add the camera first"):
        sl.attach_camera(pipe, sl.Scope())
    with pytest.raises(sl.SightlineError, match=f"the transformer {sentence}"):
        sl.add_camera(pipe.transformer, sl.Scope())


def test_a_pipeline_at_a_speed_or_around_a_compiled_transformer_is_refused():
    with pytest.raises(sl.SightlineError, match="runs at the speed 'fast'"):
        sl.attach_camera(sl.set_speed(tiny_pipeline(), "fast"), sl.Scope())
    pipe = tiny_pipeline()
    pipe.transformer = torch.compile(pipe.transformer, backend="eager")
    with pytest.raises(sl.SightlineError, match="is compiled"):
        sl.attach_camera(pipe, sl.Scope())


def camera_weights(folder):
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    wake(pipe.transformer)
    sl.save_pipeline_camera(pipe, folder)
    return load_file(folder / "transformer.safetensors")


@pytest.mark.parametrize("name", TURNED_ON)
def test_other_weights_of_the_same_encoding_are_written_into_the_transformer_that_is_there(name, tmp_path):
    weights = camera_weights(tmp_path)
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    TURNED_ON[name][0](pipe.transformer)
    transformer = pipe.transformer
    assert sl.attach_camera(pipe, tmp_path).transformer is transformer
    written = dict(transformer.named_parameters())
    assert all(torch.equal(written[name], tensor.to(written[name].dtype)) for name, tensor in weights.items())


def test_a_compiled_transformer_stays_compiled_with_other_weights(tmp_path):
    weights = camera_weights(tmp_path)
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    pipe.transformer = compiled = torch.compile(pipe.transformer, backend="eager")
    assert sl.attach_camera(pipe, tmp_path).transformer is compiled
    written = dict(compiled._orig_mod.named_parameters())
    assert all(torch.equal(written[name], tensor) for name, tensor in weights.items())


def test_other_weights_are_refused_where_offloading_would_lose_them(tmp_path):
    camera_weights(tmp_path)
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    cpu_offload(pipe.transformer, "cpu")  # as enable_sequential_cpu_offload does: the weights are on the meta device
    with pytest.raises(sl.SightlineError, match="the transformer has hooks"):
        sl.attach_camera(pipe, tmp_path)


def test_what_is_no_pipeline_is_refused(tmp_path):
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    with pytest.raises(sl.SightlineError, match="pipe is a "):
        sl.save_pipeline_camera(tmp_path / "folder", pipe)  # in the wrong order
    with pytest.raises(sl.SightlineError, match="pipe is a CameraWanTransformer3DModel"):
        sl.set_speed(pipe.transformer, "fast")


def test_gradient_checkpointing_stays_on():
    base = tiny_transformer()
    base.enable_gradient_checkpointing()
    assert sl.add_camera(base, sl.Scope()).is_gradient_checkpointing
    assert not sl.add_camera(tiny_transformer(), sl.Scope()).is_gradient_checkpointing


def test_a_transformer_may_be_compiled_after_the_camera_is_attached(tmp_path, fresh_compiler):
    pipe = sl.attach_camera(tiny_pipeline(), sl.Scope())
    pipe.set_progress_bar_config(disable=True)
    wake(pipe.transformer)
    eager = sl.generate(pipe, None, "a", smooth_trajectory(), num_inference_steps=1)
    sl.save_pipeline_camera(pipe, tmp_path / "eager")
    pipe.transformer = torch.compile(pipe.transformer, backend="eager")
    compiled = sl.generate(pipe, None, "a", smooth_trajectory(), num_inference_steps=1)
    assert np.array_equal(eager, compiled)
    sl.save_pipeline_camera(pipe, tmp_path / "compiled")
    written = [load_file(tmp_path / name / "transformer.safetensors") for name in ("eager", "compiled")]
    assert written[0].keys() == written[1].keys()
    assert all(torch.equal(tensor, written[1][name]) for name, tensor in written[0].items())
