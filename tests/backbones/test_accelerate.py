"""sl.accelerate: the same model up to rounding, whatever is done to it, and the eager bits again when it is off."""

from __future__ import annotations

import copy
import logging
from typing import Any

import pytest
import torch
from diffusers import FirstBlockCacheConfig, MagCacheConfig
from diffusers.models.transformers import transformer_wan as wan
from torch._dynamo.testing import CompileCounterWithBackend

import sightline as sl
from sightline import kernels
from sightline.backbones import accelerate as accelerating
from sightline.backbones import fused
from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.encodings import ENCODINGS, Prope, ReCamMaster, Scope, Sweep, Ucpe
from sightline.errors import SightlineError
from tests.conftest import model_inputs, wake

pytestmark = pytest.mark.skipif(not kernels.HAS_TRITON, reason="triton is not installed")

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.backends.cudnn.allow_tf32 = False  # the patch embedding's, whose rounding would hide what is compared
# Between fused and eager, in parts of the output's largest value: the eager path rounds after every step.
ROUNDING = {torch.float32: 1e-5, torch.bfloat16: 3e-2}


def pair(kind: Any = "ti2v-5b", encoding: Any = None, dtype: torch.dtype = torch.float32) -> tuple[Any, Any]:
    """A model and its accelerated copy."""
    model: Any = tiny_transformer(kind)
    if encoding is not None:
        model = wake(CameraWanTransformer3DModel.from_transformer(model, encoding))
    for name, parameter in model.named_parameters():  # as from_pretrained does
        if not any(kept in name for kept in model._keep_in_fp32_modules):
            parameter.data = parameter.data.to(dtype)
    model = model.to(DEVICE)
    return model, sl.accelerate(copy.deepcopy(model))


def is_accelerated(model: Any) -> bool:
    return isinstance(model.blocks[0], fused.WanTransformerBlock)


def run(model: Any, tokens: Any = None, **options: Any) -> torch.Tensor:
    inputs = {name: x.to(DEVICE) for name, x in model_inputs(model, **options).items()}
    camera = {} if tokens is None else {"attention_kwargs": {"camera": tokens}}
    return model(**inputs, **camera, return_dict=False)[0]


def apart(one: torch.Tensor, other: torch.Tensor) -> float:
    return ((one - other).abs().max() / other.abs().max()).item()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("kind, per_token", [("ti2v-5b", True), ("i2v-a14b", False)])
@pytest.mark.parametrize("encoding", [None, Scope()])
def test_it_is_the_same_model_up_to_rounding_and_off_is_the_same_bits(kind, per_token, encoding, dtype, tokens):
    model, fast = pair(kind, encoding, dtype)
    camera = None if encoding is None else tokens
    batch = 2 if dtype == torch.float32 else 1
    eager, quick = (run(one, camera, batch=batch, per_token_time=per_token) for one in (model, fast))
    assert quick.dtype == eager.dtype and 0 < apart(quick, eager) < ROUNDING[dtype]
    slow = run(sl.accelerate(fast, enabled=False), camera, batch=batch, per_token_time=per_token)
    assert torch.equal(slow, eager)
    assert type(fast.blocks[0]) is wan.WanTransformerBlock
    assert type(fast.blocks[0].attn1.processor) is (
        wan.WanAttnProcessor if encoding is None else CameraWanAttnProcessor
    )


@pytest.mark.parametrize("dtype, size", [(torch.float32, 2e-6), (torch.bfloat16, 2e-2)])
@pytest.mark.parametrize("encoding", [Scope(), Sweep()])
def test_an_untrained_fused_encoding_is_the_stock_model_up_to_rounding(encoding, dtype, size, tokens):
    stock, _ = pair(dtype=dtype)
    model = CameraWanTransformer3DModel.from_transformer(stock, encoding)
    difference = apart(run(sl.accelerate(model), tokens, per_token_time=True), run(stock, per_token_time=True))
    assert difference < size


@pytest.mark.parametrize(
    "name", ["sweep", "cameractrl", "recammaster", "ucpe", "prope", "rerope"]
)  # one for each set of stages
def test_every_encoding_runs_and_is_the_same_model(name, tokens):
    model: Any = tiny_transformer("pixels" if name in ("prope", "ucpe", "rerope") else "ti2v-5b")
    model = wake(
        CameraWanTransformer3DModel.from_transformer(model, ENCODINGS[name](**({"ratio": 2} if name == "ucpe" else {})))
    )
    model.to(DEVICE)
    eager = run(model, tokens, per_token_time=True)
    assert apart(run(sl.accelerate(model), tokens, per_token_time=True), eager) < ROUNDING[torch.float32]


def test_what_attention_can_fuse():
    dim, heads = 64, 4
    assert fused.can_fuse(Scope().layer(dim, heads)) and fused.can_fuse(
        Scope(flip=False, gate_hidden=3).layer(dim, heads)
    )
    for ablation in ({"projection": "mlp"}, {"ngi": False}, {"norm": False}, {"value": True}, {"terms": "abc"}):
        layer = Scope(**ablation).layer(dim, heads)
        assert not layer.has_fused
    assert fused.can_fuse(Sweep().layer(dim, heads)) and not fused.can_fuse(Sweep(tied=False).layer(dim, heads))
    assert not fused.can_fuse(Sweep(frequencies=(1.0, 2.0, 4.0)).layer(dim, heads))  # 94 features
    assert fused.can_fuse(ReCamMaster().layer(dim, heads)) and fused.can_fuse(Ucpe(ratio=4).layer(dim, heads))
    assert not fused.can_fuse(Prope().layer(dim, heads))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_without_gradients_the_gelu_is_part_of_the_product(dtype, monkeypatch):
    model, fast = pair(dtype=dtype)
    calls = []
    fuse = fused.ops.linear_gelu
    monkeypatch.setattr(fused.ops, "linear_gelu", lambda *tensors: calls.append(1) or fuse(*tensors))
    run(fast, per_token_time=True)  # its gradient would need what is never stored
    assert not calls
    with torch.no_grad():
        eager, quick = run(model, per_token_time=True), run(fast, per_token_time=True)
        assert len(calls) == len(fast.blocks) and apart(quick, eager) < ROUNDING[dtype]
        fast.blocks[0].ffn.net[0].approximate = "none"  # another function, left to itself
        run(fast, per_token_time=True)
        assert len(calls) == 2 * len(fast.blocks) - 1


@pytest.mark.parametrize("encoding", [Scope(), Sweep()])
def test_gradients_agree_with_checkpointing_too(encoding, tokens):
    model, fast = pair(encoding=encoding)
    checkpointed = copy.deepcopy(fast).train()
    checkpointed.enable_gradient_checkpointing()
    grads = []
    for one in (model.train(), fast.train(), checkpointed):
        run(one, tokens, per_token_time=True).square().mean().backward()
        grads.append({name: parameter.grad for name, parameter in one.named_parameters()})
    for name, expected in grads[0].items():
        assert apart(grads[1][name], expected) < 1e-4, name
        assert apart(grads[2][name], grads[1][name]) < 1e-6, name


@pytest.mark.parametrize("kind, per_token", [("ti2v-5b", True), ("i2v-a14b", False)])
def test_blocks_compile_whole_and_share_their_code(kind, per_token, tokens, fresh_compiler):
    _, fast = pair(kind, Scope())
    expected = run(fast, tokens, per_token_time=per_token)
    counter = CompileCounterWithBackend("aot_eager")
    fast.compile_repeated_blocks(fullgraph=True, backend=counter)
    assert apart(run(fast, tokens, per_token_time=per_token), expected) < 1e-6
    assert counter.frame_count == 1  # not one for each block


def test_a_model_compiled_as_a_whole(tokens, fresh_compiler):
    _, fast = pair(encoding=Scope())
    expected = run(fast, tokens, per_token_time=True)
    compiled = torch.compile(fast, backend="aot_eager")
    assert apart(run(compiled, tokens, per_token_time=True), expected) < 1e-5


def test_autocast_keeps_rays_and_sums_in_float32(tokens):
    model, fast = pair(encoding=Scope())
    with torch.autocast(DEVICE.type, torch.bfloat16):
        eager, quick = run(model, tokens, per_token_time=True), run(fast, tokens, per_token_time=True)
    assert apart(quick, eager) < ROUNDING[torch.bfloat16]


def test_fused_projections_offloading_and_more_timesteps_than_a_table_takes(tokens, monkeypatch):
    model, fast = pair(encoding=Scope())
    eager = run(model, tokens, per_token_time=True)
    fast.fuse_qkv_projections()
    assert apart(run(fast, tokens, per_token_time=True), eager) < ROUNDING[torch.float32]
    model, fast = pair(encoding=Scope())
    fast.enable_group_offload(DEVICE, offload_type="leaf_level")
    assert (
        apart(run(fast, tokens, per_token_time=True), run(model, tokens, per_token_time=True)) < ROUNDING[torch.float32]
    )
    model, fast = pair()
    inputs = {name: x.to(DEVICE) for name, x in model_inputs(model, batch=2).items()}
    inputs["timestep"] = torch.linspace(0, 999, 96, device=DEVICE).view(2, 48)  # every token its own
    assert apart(fast(**inputs).sample, model(**inputs).sample) < ROUNDING[torch.float32]
    monkeypatch.setattr(fused, "MAX_TIMESTEPS", 95)
    monkeypatch.setattr(fused.ops, "modulate", None)  # not called: the table would be as long as the tokens
    fast(**inputs)


def test_layers_whose_weights_a_hook_moves_are_called(tokens):
    """Weights that such a hook fetches in advance are on the device before they have arrived."""
    model, fast = pair(encoding=Scope())
    fast.enable_group_offload(DEVICE, offload_type="leaf_level")
    moved = {name: layer for name, layer in fast.blocks.named_modules() if hasattr(layer, "_diffusers_hook")}
    called: list[str] = []
    for name, layer in moved.items():
        layer.register_forward_pre_hook(lambda _layer, _inputs, name=name: called.append(name))
    with torch.no_grad():
        quick, eager = run(fast, tokens, per_token_time=True), run(model, tokens, per_token_time=True)
    assert "0.ffn.net.0.proj" in moved and apart(quick, eager) < ROUNDING[torch.float32]
    assert {name for name, layer in moved.items() if list(layer.parameters(recurse=False))} <= set(called)


@pytest.mark.parametrize("config", [FirstBlockCacheConfig(threshold=0.0), MagCacheConfig(calibrate=True)])
def test_caches_that_know_blocks_by_their_class(config, tokens):
    model, fast = pair(encoding=Scope())
    outputs = []
    for one in (model, fast):
        one.enable_cache(config)
        with torch.no_grad(), one.cache_context("cond"):
            outputs.append([run(one, tokens, per_token_time=True) for _ in range(2)][1])
    assert apart(outputs[1], outputs[0]) < ROUNDING[torch.float32]


def test_hooks_must_go_before_it_is_turned_off():
    _, fast = pair()
    fast.enable_group_offload(DEVICE, offload_type="block_level", num_blocks_per_group=1)
    with pytest.raises(SightlineError, match="model has hooks of offloading"):
        sl.accelerate(fast, enabled=False)


def test_pipelines_and_what_is_neither():
    pipe = tiny_pipeline("i2v-a14b")
    assert sl.accelerate(pipe) is pipe
    assert is_accelerated(pipe.transformer) and is_accelerated(pipe.transformer_2)
    sl.accelerate(pipe, enabled=False)
    assert not is_accelerated(pipe.transformer)
    with pytest.raises(SightlineError, match="model is a Linear: expected a WanTransformer3DModel"):
        sl.accelerate(torch.nn.Linear(2, 2))


def test_the_log_says_why_a_path_stays_eager(caplog, monkeypatch, tokens):
    caplog.set_level(logging.INFO, "sightline")
    sl.accelerate(CameraWanTransformer3DModel.from_transformer(tiny_transformer("pixels"), Prope()))
    assert "PropeLayer keeps the eager path in attention" in caplog.text
    hooked = tiny_transformer()
    hooked.blocks[0].forward = hooked.blocks[0].forward
    sl.accelerate(hooked)
    assert "WanTransformerBlock keeps the eager path: expected diffusers' own" in caplog.text
    monkeypatch.setattr(accelerating, "why_not", lambda *_: "the model is on the moon")
    sl.accelerate(tiny_transformer())
    assert "The eager path runs for now: the model is on the moon." in caplog.text
    monkeypatch.setattr(accelerating, "HAS_TRITON", False)
    model = sl.accelerate(tiny_transformer())
    assert "stay off: triton is not installed" in caplog.text and not is_accelerated(model)


def test_without_a_kernel_for_the_device_it_is_the_eager_path_bit_for_bit(monkeypatch, tokens):
    model, fast = pair(encoding=Scope())
    eager = run(model, tokens, per_token_time=True)
    monkeypatch.setattr(fused, "usable", lambda x: False)
    assert torch.equal(run(fast, tokens, per_token_time=True), eager)
