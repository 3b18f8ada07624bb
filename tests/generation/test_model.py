"""How a model is laid out: each option reaches diffusers, by signatures that are its own."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
import torch
from diffusers import AutoencoderKLWan, WanPipeline
from diffusers.models.attention_dispatch import _AttentionBackendRegistry

from sightline.backbones import pipelines, speed
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.errors import SightlineError
from sightline.generation import offload as offloading
from sightline.generation.model import Model, ModelOptions
from sightline.generation.placement import place_pipeline

GPU = torch.device("cuda", 1)


def laid_out(**options):
    pipe = create_autospec(WanPipeline, instance=True)
    pipe.vae = create_autospec(AutoencoderKLWan, instance=True)
    transformer = create_autospec(CameraWanTransformer3DModel, instance=True)
    place_pipeline(pipe, [transformer], ModelOptions(**{"speed": "exact"} | options), GPU, processes=4, num_videos=1)
    return pipe, transformer


def test_offloading_goes_to_the_gpu_of_the_process(monkeypatch):
    pipe, _ = laid_out()
    assert not pipe.method_calls
    pipe, _ = laid_out(offload="model")
    pipe.enable_model_cpu_offload.assert_called_once_with(device=GPU)
    pipe, _ = laid_out(offload="sequential")
    pipe.enable_sequential_cpu_offload.assert_called_once_with(device=GPU)
    monkeypatch.setattr(offloading, "offload_groups", lambda *arguments: asked.append(arguments))
    asked: list = []
    pipe, _ = laid_out(offload="group")
    assert asked == [(pipe, GPU)]


def test_attention_tiles_and_shared_videos():
    pipe, transformer = laid_out(attention="_native_flash", tiled_decode=True, context_parallel="ulysses")
    pipe.vae.enable_tiling.assert_called_once_with()
    # The backend first: context parallelism asks it whether it can.
    assert [call[0] for call in transformer.method_calls][:2] == ["set_attention_backend", "enable_parallelism"]
    assert transformer.enable_parallelism.call_args.kwargs["config"].ulysses_degree == 4


def test_the_attention_of_one_model_is_not_that_of_others():
    earlier = _AttentionBackendRegistry.get_active_backend()
    model = Model(ModelOptions("tiny:ti2v-5b", attention="_native_math"), torch.device("cpu")).pipe.transformer
    assert {block.attn1.processor._attention_backend for block in model.blocks} == {"_native_math"}
    assert _AttentionBackendRegistry.get_active_backend() == earlier


def test_the_speed_level_comes_before_whatever_wraps_a_module(monkeypatch):
    asked: list = []
    monkeypatch.setattr(offloading, "offload_groups", lambda *arguments: None)
    monkeypatch.setattr(speed, "turn_on", lambda pipe, *arguments: asked.append((*arguments, list(pipe.method_calls))))
    laid_out(speed="faster", offload="group")
    assert asked == [("faster", 1, GPU, [])]
    laid_out(speed="exact", offload="group")
    assert len(asked) == 1


def test_the_settings_name_the_level():
    assert Model(ModelOptions(speed="faster"), GPU).settings()["speed"] == "faster"


def test_weights_wait_in_main_memory_when_they_are_offloaded(monkeypatch):
    asked = []

    def load(*arguments, **options):
        asked.append((*arguments, options))
        raise SightlineError("enough.")

    monkeypatch.setattr(pipelines, "load_pipeline", load)
    for offload, place in (("none", GPU), ("model", "cpu")):
        with pytest.raises(SightlineError, match="enough"):
            _ = Model(ModelOptions(model="m", offload=offload), GPU).pipe
        assert asked[-1] == ("m", None, {"dtype": torch.bfloat16, "device": place})


def test_a_gpu_that_fills_up_while_loading_is_one_sentence(monkeypatch):
    def load(*_, **__):
        raise torch.OutOfMemoryError("CUDA out of memory.\nTried to allocate ...")

    monkeypatch.setattr(pipelines, "load_pipeline", load)
    with pytest.raises(SightlineError, match="does not fit into the GPU's memory: expected --offload model"):
        _ = Model(ModelOptions(model="m"), GPU).pipe


def test_splitting_a_video_among_processes_without_a_gpu_is_refused():
    with pytest.raises(SightlineError, match="context_parallel is 'ulysses' but there is no GPU"):
        Model(ModelOptions(context_parallel="ulysses"), device=torch.device("cpu"), processes=2)
