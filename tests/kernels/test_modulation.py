"""Norms and residuals by a table of timesteps: the kernels equal their references, and those what Wan's block computes."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sightline.kernels import ops, reference
from tests.kernels.cases import TOLERANCE, apart, modulation_arguments


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"batch": 1, "tokens": 40, "dim": 150},
        {"entries": 20},
        {"entries": 1, "dim": 16},
        {"entries": 130, "tokens": 100},
    ],
)
def test_the_kernels_equal_the_references(shape, dtype, device):
    from sightline.kernels import modulation_triton as fused

    x, y, shift, scale, gate, index = modulation_arguments(**shape, dtype=dtype, device=device)
    grad, limit = torch.randn_like(x), TOLERANCE[dtype]
    one, other = fused.modulate(x, shift, scale, index, 1e-6), reference.modulate(x, shift, scale, index, 1e-6)
    assert one.dtype == dtype and apart(one, other) < limit
    one, other = fused.add_gated(x, y, gate, index), reference.add_gated(x, y, gate, index)
    assert one.dtype == dtype and apart(one, other) < limit
    pairs = [
        *zip(fused.modulate_backward(grad, x, shift, scale, index, 1e-6),
             reference.modulate_backward(grad, x, shift, scale, index, 1e-6), strict=True),
        *zip(fused.add_gated_backward(grad, y, gate, index), reference.add_gated_backward(grad, y, gate, index), strict=True),
    ]  # fmt: skip
    for one, other in pairs:
        assert one.shape == other.shape and one.dtype == other.dtype and apart(one, other) < limit


def test_an_index_of_one_row_per_clip_needs_no_memory(device):
    x, y, shift, scale, gate, _ = modulation_arguments(device=device)
    index = torch.arange(2, dtype=torch.int32, device=device)[:, None].expand(2, x.shape[1])  # stride 0
    assert apart(ops.modulate(x, shift, scale, index, 1e-6), reference.modulate(x, shift, scale, index, 1e-6)) < 1e-5
    assert apart(ops.add_gated(x, y, gate, index), reference.add_gated(x, y, gate, index)) < 1e-5


def test_the_references_are_what_wan_computes():
    x, y, shift, scale, gate, index = modulation_arguments(dtype=torch.float64)
    expected = F.layer_norm(x, x.shape[-1:], eps=1e-6) * (1 + scale[index]) + shift[index]
    torch.testing.assert_close(reference.modulate(x, shift, scale, index, 1e-6), expected)
    torch.testing.assert_close(reference.add_gated(x, y, gate, index), x + y * gate[index])


def test_gradcheck_and_opcheck():
    x, y, shift, scale, gate, index = modulation_arguments(tokens=5, dim=6, dtype=torch.float64)
    x, y, shift, scale, gate = (one.clone().requires_grad_() for one in (x, y, shift, scale, gate))
    for function in (reference, ops):
        assert torch.autograd.gradcheck(lambda *a, f=function: f.modulate(*a, index, 1e-6), (x, shift, scale))
        assert torch.autograd.gradcheck(lambda *a, f=function: f.add_gated(*a, index), (x, y, gate))
    torch.library.opcheck(ops.modulate, (x, shift, scale, index, 1e-6))
    torch.library.opcheck(ops.add_gated, (x, y, gate, index))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="real widths need a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("dim", [3072, 5120])
def test_real_widths_on_a_gpu(dim, dtype, device):
    x, y, shift, scale, gate, index = modulation_arguments(2, 4097, dim, dtype=dtype, device=device)
    x, y, shift, scale, gate = (one.clone().requires_grad_() for one in (x, y, shift, scale, gate))
    results = []
    for function in (ops, reference):
        outputs = function.modulate(x, shift, scale, index, 1e-6), function.add_gated(x, y, gate, index)
        grads = torch.autograd.grad(
            outputs, [x, y, shift, scale, gate], [torch.sin(7 * one.detach()) for one in (x, y)]
        )
        results.append([*outputs, *grads])
    for one, other in zip(*results, strict=True):
        assert apart(one, other) < TOLERANCE[dtype]
