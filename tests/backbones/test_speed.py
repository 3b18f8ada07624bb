"""Speed levels: what each turns on, that exact stays exact, and that the others differ by their rounding alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import sightline as sl
from sightline.backbones import speed
from sightline.backbones.fast_vae import ChannelsLastNorm, decode_in_bfloat16
from sightline.backbones.flops import forward_flops
from sightline.backbones.speed import FilmSpeed, compile_blocks, film_speed, running, set_speed, speed_of
from sightline.backbones.tiny import tiny_by_name
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B
from sightline.errors import SightlineError
from sightline.images import psnr
from tests.backbones.wide import inputs, output, relative, wide_model

CPU = torch.device("cpu")


@pytest.fixture
def bfloat16_cpu(monkeypatch):
    """As on a CPU with instructions for bfloat16, whatever this one has."""
    monkeypatch.setattr(speed, "cpu_has_bfloat16", lambda: True)


def tiny():
    pipe = tiny_by_name("tiny:ti2v-5b")
    pipe.set_progress_bar_config(disable=True)
    return pipe


def film(pipe, **options) -> np.ndarray:
    trajectory = sl.moves.pan(20, frames=9, width=64, height=64)
    image = np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    return sl.generate(pipe, image, "a room", trajectory, num_inference_steps=2, blind=True, **options)


def test_exact_changes_nothing():
    pipe = tiny()
    before = {name: module.__class__ for name, module in pipe.transformer.named_modules()}
    assert set_speed(pipe, "exact") is pipe and speed_of(pipe) == "exact"
    assert {name: module.__class__ for name, module in pipe.transformer.named_modules()} == before
    assert film_speed(pipe, 10**6, 100, True) == FilmSpeed()


def test_a_level_can_be_chosen_once(bfloat16_cpu):
    pipe = set_speed(tiny(), "fast")
    assert set_speed(pipe, "fast") is pipe
    with pytest.raises(SightlineError, match="speed is 'exact' but the pipeline runs at 'fast'"):
        set_speed(pipe, "exact")
    with pytest.raises(SightlineError, match="speed is 'quick': expected one of exact, fast, faster, fastest"):
        set_speed(tiny(), "quick")
    for number in (-1, 2.5, True, "3"):
        with pytest.raises(SightlineError, match=r"num_videos is .*: expected a whole number"):
            set_speed(tiny(), "fast", num_videos=number)


@pytest.mark.parametrize("level", ["fast", "faster", "fastest"])
def test_a_film_at_each_level_lies_close_to_the_exact_one(level, bfloat16_cpu):
    exact = film(tiny(), guidance_scale=1.0)
    fast = film(set_speed(tiny(), level), guidance_scale=1.0)
    assert fast.shape == exact.shape and psnr(fast, exact).mean() > 45


def test_what_is_used_is_said_once(bfloat16_cpu, caplog):
    pipe = set_speed(tiny(), "fast")
    with caplog.at_level("INFO", "sightline"):
        film(pipe)
        film(pipe)
    lines = [record.message for record in caplog.records if "speed" in record.message]
    assert lines == ["speed fast: VAE decoding in bfloat16"]  # its linear layers are too small to gain


@torch.no_grad()
def test_the_vae_decodes_in_bfloat16_with_and_without_tiles():
    vae = tiny().vae
    latents = torch.randn(1, vae.config.z_dim, 3, 4, 4)
    exact = vae.decode(latents, return_dict=False)[0]
    decode_in_bfloat16(vae)
    assert vae.dtype == torch.float32 and vae.decoder.conv_in.weight.dtype == torch.bfloat16
    assert any(type(layer) is ChannelsLastNorm for layer in vae.decoder.modules())
    fast = vae.decode(latents, return_dict=False)[0]
    assert fast.dtype == torch.float32 and relative(fast, exact) < 0.02
    vae.enable_tiling()
    assert vae.decode(latents, return_dict=False)[0].dtype == torch.float32


@torch.no_grad()
def test_the_vae_s_large_convolutions_get_channels_last():
    vae, others = tiny().vae, []  # layers whose input must be reordered
    decode_in_bfloat16(vae)

    def note(layer: nn.Module, inputs: tuple) -> None:
        x, first_frame = inputs[0], inputs[0].ndim == 4 and len(inputs[0]) == 1  # later ones come in twos or fours
        layout = torch.channels_last_3d if x.ndim == 5 else torch.channels_last
        if not first_frame and not x.is_contiguous(memory_format=layout):
            others.append(layer)

    for layer in vae.decoder.modules():
        if isinstance(layer, (nn.Conv2d, nn.Conv3d)):
            layer.register_forward_pre_hook(note)
    vae.decode(torch.randn(1, vae.config.z_dim, 3, 4, 4))
    assert not others


def test_blocks_share_what_was_compiled_and_a_cache_stays_outside(fresh_compiler):
    from torch._dynamo.testing import CompileCounter

    model, counter = wide_model(), CompileCounter()
    exact = output(model)
    compile_blocks(model, backend=counter)
    assert torch.equal(output(model), exact)
    assert counter.frame_count == 1  # one graph for three blocks
    model.enable_cache(speed.FirstBlockCacheConfig(threshold=0.05))
    with model.cache_context("cond"):
        first, second = output(model), output(model)
    assert counter.frame_count == 1 and torch.equal(first, exact)
    torch.testing.assert_close(second, exact)  # the first block has not changed, so the others were left out
    with torch.compiler.set_stance("force_eager"):
        model._reset_stateful_cache()
        with model.cache_context("cond"):
            assert torch.equal(output(model), exact)


def test_many_sizes_of_video_are_compiled_in_one_process(fresh_compiler):
    from torch._dynamo.testing import CompileCounter

    model, counter = wide_model(1), CompileCounter()
    compile_blocks(model, backend=counter)
    with torch.no_grad():
        for frames in range(1, 11):
            model(**{**inputs(), "hidden_states": torch.zeros(1, 4, frames, 8, 8)})
    assert counter.frame_count == 10


def test_compilation_waits_until_it_saves_time(monkeypatch):
    from torch._dynamo.testing import CompileCounter

    pipe = tiny()
    pipe.transformer._sightline_speed = speed._Setting("fast", (), 1, True)
    flops = forward_flops(pipe.transformer.config, 100)
    monkeypatch.setattr(speed, "COMPILE_FROM_FLOPS", 50 * flops)
    assert not film_speed(pipe, 100, 49, False).compiled and film_speed(pipe, 100, 50, False).compiled
    pipe.transformer._sightline_speed = speed._Setting("fast", (), 10, True)  # ten videos
    assert film_speed(pipe, 100, 5, False).compiled
    counter = CompileCounter()
    add_one = torch.compile(lambda x: x + 1, backend=counter)
    for compiled in (False, True):
        with running(pipe, FilmSpeed("fast", compiled=compiled)):
            add_one(torch.zeros(1))
        assert counter.frame_count == int(compiled)


def test_a_cancelled_film_leaves_no_cache_behind(bfloat16_cpu):
    def cancel(_pipe, step, _timestep, tensors):
        if step == 1:
            raise KeyboardInterrupt
        return tensors

    def with_three_blocks():
        pipe = tiny()
        config = {**pipe.transformer.config, "num_layers": 3}
        torch.manual_seed(0)
        pipe.register_modules(transformer=speed.WanTransformer3DModel.from_config(config).eval())
        return set_speed(pipe, "fastest")

    pipe = with_three_blocks()
    assert "first-block cache" in speed._setting(pipe).used
    with pytest.raises(KeyboardInterrupt):
        film(pipe, callback_on_step_end=cancel)
    assert np.array_equal(film(pipe), film(with_three_blocks()))


def test_the_operations_of_a_pass_are_those_of_its_products():
    model = wide_model(1)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs())
    assert forward_flops(model.config, 32, 6) == pytest.approx(counter.get_total_flops(), rel=0.05)
    per_token = {
        name: forward_flops(config.transformer, 1, 1) / 2 for name, config in (("5b", TI2V_5B), ("14b", I2V_A14B))
    }
    assert per_token["5b"] == pytest.approx(5e9, rel=0.1) and per_token["14b"] == pytest.approx(14e9, rel=0.1)
