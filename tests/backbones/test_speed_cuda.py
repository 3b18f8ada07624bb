"""The speed levels on a GPU: FP8 products, films at every level, and offloaded blocks. Skipped without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import sightline as sl
from sightline.backbones import speed
from sightline.backbones.fast_vae import decode_in_bfloat16
from sightline.backbones.low_precision_linear import Fp8Linear
from sightline.backbones.speed import FilmSpeed, running, set_speed
from sightline.backbones.stock import experts
from sightline.backbones.tiny import tiny_by_name
from sightline.bench.models import cast_as_loaded
from sightline.generation.model import Model, ModelOptions
from sightline.generation.offload import offload_groups
from sightline.images import psnr
from sightline.kernels import reference, why_no_fp8
from sightline.speed_levels import SPEEDS
from tests.conftest import wake

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
GPU = torch.device("cuda")


def relative(one: torch.Tensor, other: torch.Tensor) -> float:
    return float((one.float() - other.float()).square().mean().sqrt() / other.float().square().mean().sqrt())


def require_fp8() -> None:
    if torch.cuda.is_available() and (reason := why_no_fp8(GPU)) is not None:
        pytest.skip(reason)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@torch.no_grad()
def test_a_product_in_fp8_is_its_reference(bias, compiled):
    require_fp8()
    torch.manual_seed(0)
    linear = nn.Linear(3072, 1024, bias=bias, device=GPU, dtype=torch.bfloat16)
    layer, x = Fp8Linear(linear, GPU), torch.randn(2, 333, 3072, device=GPU, dtype=torch.bfloat16)
    call = torch.compile(layer) if compiled else layer
    rows, scales = reference.quantize_rows(x, False)
    expected = reference.fp8_product(rows, scales, layer.weight, layer.weight_scales, layer.bias).view(2, 333, 1024)
    assert relative(call(x), expected) < 1e-2  # GPUs sum FP8 products with about 14 bits, which is 0.5 % at this width
    assert relative(call(x), linear(x)) < 0.05
    gelu = nn.functional.gelu(x.float(), approximate="tanh").bfloat16()
    assert relative(layer(x, gelu=True), layer(gelu)) < 0.02


@torch.no_grad()
def test_the_vae_decodes_in_bfloat16():
    vae = tiny_by_name("tiny:ti2v-5b").vae.to(GPU)
    latents = torch.randn(1, vae.config.z_dim, 3, 4, 4, device=GPU)
    exact = vae.decode(latents, return_dict=False)[0]
    decode_in_bfloat16(vae)
    assert relative(vae.decode(latents, return_dict=False)[0], exact) < 0.02


def pipeline(level: str, videos: int = 1, name: str = "ti2v-5b"):
    """Wide enough for FP8, with blocks enough for a cache, and with a camera that matters."""
    pipe = sl.attach_camera(tiny_by_name(f"tiny:{name}"), sl.Scope())
    pipe.set_progress_bar_config(disable=True)
    width = {"num_layers": 3, "attention_head_dim": 64, "num_attention_heads": 4, "ffn_dim": 512}
    for part, model in experts(pipe).items():
        torch.manual_seed(0)
        wide = wake(type(model).from_config({**model.config, **width}).eval(), alpha=0.3)
        pipe.register_modules(**{part: cast_as_loaded(wide, torch.bfloat16)})
    return set_speed(pipe.to(GPU), level, num_videos=videos)


def film(pipe, **options) -> np.ndarray:
    trajectory = sl.moves.pan(20, frames=9, width=64, height=64)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    options = {"num_inference_steps": 3, "guidance_scale": 3.0} | options
    return sl.generate(pipe, image, "a room", trajectory, **options)


@pytest.mark.parametrize("videos", [1, 10**12])  # eager, and compiled
@pytest.mark.parametrize("level", SPEEDS[1:])
def test_a_film_at_each_level_lies_close_to_the_exact_one(level, videos):
    exact, pipe = film(pipeline("exact")), pipeline(level, videos)
    fast = film(pipe)
    assert psnr(fast, exact).mean() > 30
    used = pipe.transformer._sightline_film
    assert used.compiled == (videos > 1) and used.joined and "fused kernels" in used.used
    assert ("linear layers in FP8" in used.used) == (level != "fast" and why_no_fp8(GPU) is None)
    assert np.array_equal(film(pipe), fast)  # and the same again


def test_a_film_of_two_experts_lies_close_to_the_exact_one():
    exact = film(pipeline("exact", name="i2v-a14b"))
    assert psnr(film(pipeline("faster", 10**12, "i2v-a14b")), exact).mean() > 30


@pytest.mark.parametrize("options", [{"guidance_scale": 1.0}, {"blind": True}, {"camera_guidance_scale": 2.0}])
def test_other_kinds_of_guidance_lie_close_to_the_exact_ones(options):
    exact = film(pipeline("exact"), **options)
    assert psnr(film(pipeline("faster", 10**12), **options), exact).mean() > 30


@pytest.mark.parametrize("level, videos", [("fast", 1), ("faster", 10**12)])
def test_offloaded_blocks_give_the_same_film(level, videos):
    expected, pipe = film(pipeline(level, videos)), pipeline(level, videos)
    pipe.to("cpu")
    offload_groups(pipe, GPU)
    assert speed._is_offloaded(pipe.transformer) and not speed._is_moved_by_layer(pipe.transformer)
    for _ in range(2):  # the first film copies weights when they are needed, the second one before
        assert np.array_equal(film(pipe), expected)
    assert pipe.transformer.condition_embedder.time_proj.weight.is_cuda
    assert not pipe.transformer.blocks[0].attn2.to_q.weight.is_cuda
    with running(pipe, FilmSpeed("fast")):
        pass


@pytest.mark.parametrize("level, offload", [("fast", "none"), ("fastest", "none"), ("faster", "group")])
def test_the_lab_model_as_the_command_runs_it(level, offload):
    trajectory = sl.moves.orbit(15, frames=9, width=128, height=128)
    films = []
    for options in (ModelOptions(speed="exact"), ModelOptions(speed=level, offload=offload)):
        model = Model(options, device=GPU)
        films.append(sl.generate(model.pipe, sl.FIRST_FRAME, "a room", trajectory, num_inference_steps=4))
    assert psnr(*films).mean() > 25
