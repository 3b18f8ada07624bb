"""How a model is laid out: each option reaches diffusers, by signatures that are its own."""

from __future__ import annotations

from unittest.mock import create_autospec

import pytest
import torch
from diffusers import AutoencoderKLWan, WanPipeline

from sightline import kernels
from sightline.backbones import accelerate, pipelines
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.errors import SightlineError
from sightline.generation.model import Model, ModelOptions

GPU = torch.device("cuda", 1)


def laid_out(**options):
    pipe = create_autospec(WanPipeline, instance=True)
    pipe.vae = create_autospec(AutoencoderKLWan, instance=True)
    transformer = create_autospec(CameraWanTransformer3DModel, instance=True)
    Model(ModelOptions(**options), GPU, processes=4)._place(pipe, [transformer])
    return pipe, transformer


def test_offloading_goes_to_the_gpu_of_the_process():
    pipe, _ = laid_out()
    assert not pipe.method_calls
    pipe, _ = laid_out(offload="model")
    pipe.enable_model_cpu_offload.assert_called_once_with(device=GPU)
    pipe, _ = laid_out(offload="sequential")
    pipe.enable_sequential_cpu_offload.assert_called_once_with(device=GPU)
    pipe, _ = laid_out(offload="group")
    pipe.enable_group_offload.assert_called_once_with(onload_device=GPU, offload_type="leaf_level", use_stream=True)


def test_compilation_attention_tiles_and_shared_videos():
    pipe, transformer = laid_out(compile=True, attention="_native_flash", tiled_decode=True, context_parallel="ulysses")
    pipe.vae.enable_tiling.assert_called_once_with()
    transformer.compile_repeated_blocks.assert_called_once_with(fullgraph=True)
    # The backend first: context parallelism asks it whether it can.
    assert [call[0] for call in transformer.method_calls][:2] == ["set_attention_backend", "enable_parallelism"]
    assert transformer.enable_parallelism.call_args.kwargs["config"].ulysses_degree == 4


def test_fused_kernels_come_before_whatever_wraps_a_module(monkeypatch):
    monkeypatch.setattr(accelerate, "accelerate", lambda one: one.eval())  # leaves its name among the calls
    _, transformer = laid_out(fused=True, attention="native", compile=True, offload="group")
    names = [call[0] for call in transformer.method_calls]
    assert names == ["eval", "set_attention_backend", "compile_repeated_blocks"]


def test_the_settings_say_fused_only_where_the_kernels_can_run(monkeypatch):
    monkeypatch.setattr(kernels, "INTERPRETED", False)
    assert Model(ModelOptions(fused=True), GPU).settings()["fused"] is kernels.HAS_TRITON
    assert not Model(ModelOptions(fused=True), torch.device("cpu")).settings()["fused"]
    assert not Model(ModelOptions(), GPU).settings()["fused"]


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
