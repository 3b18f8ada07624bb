"""The speed levels on a GPU: FP8 products, films at every level, and offloaded blocks. Skipped without one."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import sightline as sl
from sightline.backbones import speed
from sightline.backbones.fast_vae import decode_in_bfloat16
from sightline.backbones.narrow_linear import Fp8Linear
from sightline.backbones.speed import FilmSpeed, running, set_speed
from sightline.backbones.tiny import tiny_by_name
from sightline.bench.models import cast_as_loaded
from sightline.generation.offload import offload_groups
from sightline.images import psnr
from sightline.kernels import reference, why_no_fp8
from sightline.speed_levels import SPEEDS

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
    assert relative(layer.after_gelu(x), layer(gelu)) < 0.02


@torch.no_grad()
def test_the_vae_decodes_in_bfloat16():
    vae = tiny_by_name("tiny:ti2v-5b").vae.to(GPU)
    latents = torch.randn(1, vae.config.z_dim, 3, 4, 4, device=GPU)
    exact = vae.decode(latents, return_dict=False)[0]
    decode_in_bfloat16(vae)
    assert relative(vae.decode(latents, return_dict=False)[0], exact) < 0.02


def pipeline(level: str, films: int = 1):
    """Wide enough for FP8, and with blocks enough for a cache."""
    pipe = sl.attach_camera(tiny_by_name("tiny:ti2v-5b"), sl.Scope())
    pipe.set_progress_bar_config(disable=True)
    config = {
        **pipe.transformer.config,
        "num_layers": 3,
        "attention_head_dim": 64,
        "num_attention_heads": 4,
        "ffn_dim": 512,
    }
    torch.manual_seed(0)
    pipe.register_modules(transformer=cast_as_loaded(type(pipe.transformer).from_config(config).eval(), torch.bfloat16))
    return set_speed(pipe.to(GPU), level, films=films)


def film(pipe) -> np.ndarray:
    trajectory = sl.moves.pan(20, frames=9, width=64, height=64)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return sl.generate(pipe, image, "a room", trajectory, num_inference_steps=3, guidance_scale=3.0)


@pytest.mark.parametrize("films", [1, 10**12])  # eager, and compiled
@pytest.mark.parametrize("level", SPEEDS[1:])
def test_a_film_at_each_level_lies_close_to_the_exact_one(level, films):
    exact, pipe = film(pipeline("exact")), pipeline(level, films)
    fast = film(pipe)
    assert psnr(fast, exact).mean() > 30
    used = pipe.transformer._sightline_film
    assert used.compiled == (films > 1) and used.joined and "fused kernels" in used.used
    assert ("linear layers in FP8" in used.used) == (level != "fast" and why_no_fp8(GPU) is None)
    assert np.array_equal(film(pipe), fast)  # and the same again


def test_offloaded_blocks_give_the_same_film():
    expected, pipe = film(pipeline("fast")), pipeline("fast")
    pipe.to("cpu")
    offload_groups(pipe, GPU)
    assert speed._is_offloaded(pipe.transformer) and not speed._is_moved_by_layer(pipe.transformer)
    assert np.array_equal(film(pipe), expected)
    with running(pipe, FilmSpeed("fast")):
        pass
