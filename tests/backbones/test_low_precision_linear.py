"""Linear layers in bfloat16 and FP8: they differ by rounding, adapters keep their precision, and hooks see every call."""

from __future__ import annotations

import pytest
import torch
from accelerate import cpu_offload
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode

import sightline as sl
from sightline import kernels
from sightline.backbones.low_precision_linear import Bfloat16Linear, Fp8Linear, to_bfloat16, to_fp8
from sightline.backbones.speed import compile_blocks
from sightline.kernels import ops, reference
from tests.backbones.wide import output, relative, wide_model

CPU = torch.device("cpu")


def test_products_in_bfloat16_differ_by_rounding():
    model = wide_model()
    exact = output(model)
    assert to_bfloat16(model.blocks) == 3 * 8  # all but the keys and values of the prompt
    assert type(model.blocks[0].attn2.to_k) is nn.Linear and type(model.blocks[0].ffn.net[2]) is Bfloat16Linear
    fast = output(model)
    assert fast.dtype == torch.float32 and 0 < relative(fast, exact) < 0.01


def test_products_in_fp8_lie_within_three_percent():
    model = wide_model()
    exact = output(model)
    assert to_fp8(model.blocks, CPU) == 3 * 6  # self-attention and feed-forward
    assert type(model.blocks[0].attn2.to_q) is nn.Linear
    layer = model.blocks[0].attn1.to_q
    assert type(layer) is Fp8Linear and layer.weight.dtype == torch.float8_e4m3fn
    assert 0 < relative(output(model), exact) < 0.03


def test_adapters_keep_their_precision():
    peft = pytest.importorskip("peft")
    model = wide_model()
    model.add_adapter(peft.LoraConfig(r=256, target_modules=["attn1.to_q"], init_lora_weights=False))
    exact = output(model)
    assert to_fp8(model.blocks, CPU) == 3 * 5  # the layer below an adapter stays as it is, too
    assert type(model.blocks[0].attn1.to_q.lora_A["default"]) is nn.Linear
    assert 0 < relative(output(model), exact) < 0.03


def test_gelu_is_applied_while_the_input_of_a_layer_is_rounded():
    torch.manual_seed(0)
    layer, x = Fp8Linear(nn.Linear(64, 32), CPU), torch.randn(2, 5, 64)
    expected = layer(nn.functional.gelu(x, approximate="tanh"))
    assert relative(layer(x, gelu=True), expected) < 1e-2


@pytest.mark.skipif(not kernels.INTERPRETED, reason="Triton's interpreter is off")
def test_fused_kernels_fp8_and_a_compiler_agree_with_fp8_alone(fresh_compiler):
    """What `faster` turns on, with the kernels in Triton's interpreter and the graph that a compiler captures."""
    model = wide_model(2)
    to_fp8(model.blocks, CPU)
    expected = output(model)
    sl.accelerate(model)
    assert relative(output(model), expected) < 0.01  # the GELU is not rounded before it becomes FP8
    fused = output(model)
    compile_blocks(model, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(output(model), fused)


@pytest.mark.skipif(not kernels.INTERPRETED, reason="Triton's interpreter is off")
def test_query_key_and_value_share_their_input_in_fp8(monkeypatch):
    model, rounded, quantize_rows = wide_model(1), [], ops.quantize_rows
    to_fp8(model.blocks, CPU)
    sl.accelerate(model)
    monkeypatch.setattr(ops, "quantize_rows", lambda x, gelu: rounded.append(gelu) or quantize_rows(x, gelu))
    output(model)
    # Of self-attention the input and the output, and those of both layers of the feed-forward.
    assert rounded == [False, False, False, True]


@pytest.mark.skipif(not kernels.INTERPRETED, reason="Triton's interpreter is off")
def test_layers_in_fp8_are_called_where_hooks_bring_their_weights():
    """As `--offload sequential` does, and `group` where an encoding runs before the first block."""
    model = wide_model(1)
    to_fp8(model.blocks, CPU)
    sl.accelerate(model)
    called: list[str] = []
    layers = {name: layer for name, layer in model.named_modules() if isinstance(layer, Fp8Linear)}
    expected = output(model)
    for name, layer in layers.items():
        layer.register_forward_pre_hook(lambda _layer, _inputs, name=name: called.append(name))
    cpu_offload(model, CPU, offload_buffers=True)  # weights are on the meta device until a layer is called
    assert layers["blocks.0.attn1.to_q"].weight.is_meta
    torch.testing.assert_close(output(model), expected)
    assert sorted(called) == sorted(layers)


def test_torch_accepts_fp8_products_in_this_layout_on_a_gpu():
    """torch's own checks of strides, sizes and dtypes, which need no GPU."""
    with FakeTensorMode(), torch.device("cuda"):
        for tokens in (1, 333, 8190):
            rows, scales = torch.empty(tokens, 48, dtype=reference.FP8), torch.empty(tokens, 1)
            weight, bias = torch.empty(32, 48, dtype=reference.FP8), torch.empty(32, dtype=torch.bfloat16)
            product = ops.fp8_product(rows, scales, weight, torch.empty(1, 32), bias)
            assert product.shape == (tokens, 32) and product.dtype == torch.bfloat16 and product.is_cuda
