"""QKNorm, RoPE and the camera in one kernel: the kernels equal their reference, and the reference equals the model's own path."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from sightline.encodings import Scope, Sweep
from sightline.encodings.rotary import apply_rope
from sightline.errors import SightlineError
from sightline.kernels import ops, reference
from sightline.kernels.scope_reference import ScopeWeights
from sightline.kernels.sweep_reference import SweepWeights
from tests.kernels.cases import TOLERANCE, apart, qk_arguments

SHAPES: list[dict[str, Any]] = [
    {},
    {"cameras": 2},
    {"cameras": 0},
    {"heads": 1, "head_dim": 16, "batch": 1, "tokens": 32},  # exactly one tile
    {"heads": 5, "head_dim": 64, "batch": 1, "tokens": 18, "hidden": 16},  # blocks of two whole heads, and a rest
    {"heads": 3, "head_dim": 96, "batch": 1},  # blocks that end within heads: each has angles of its own
    {"tokens": 35},  # three tiles, the second with tokens of both clips
    {"hidden": 17, "flip": False},
    {"features": 64},
    {"features": 40, "cameras": 2, "hidden": 17, "tokens": 35},
    {"features": 64, "heads": 5, "head_dim": 64, "batch": 1, "tokens": 18, "hidden": 16},
    {"features": 16, "heads": 3, "head_dim": 96, "batch": 1},
]


def leaves(arguments: list[Any]) -> list[torch.Tensor]:
    return [*arguments[:4], *arguments[7]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: "-".join(f"{k}{v}" for k, v in shape.items()) or "usual")
def test_the_kernels_equal_the_reference_forward_and_backward(shape, dtype, device):
    from sightline.kernels import qk_backward_triton, qk_triton

    arguments = qk_arguments(**shape, dtype=dtype, device=device)
    for one, other in zip(qk_triton.qk(*arguments), reference.qk(*arguments), strict=True):
        assert one.dtype == dtype and one.shape == other.shape and one.is_contiguous()
        assert apart(one, other) < TOLERANCE[dtype]
    # A gradient along what the camera adds, so that alpha's, one sum over everything, does not cancel.
    without = reference.qk(*arguments[:6], None, [], *arguments[8:])
    grads = [torch.randn_like(x) + x - y for x, y in zip(reference.qk(*arguments), without, strict=True)]
    actual = qk_backward_triton.qk_backward(*grads, *arguments)
    for number, (one, other) in enumerate(zip(actual, reference.qk_backward(*grads, *arguments), strict=True)):
        assert one.shape == other.shape and one.dtype == other.dtype
        assert apart(one, other) < TOLERANCE[dtype], number


@pytest.mark.parametrize("features", [0, 64])
def test_runs_of_several_tiles(features, monkeypatch, device):
    """As with thousands of tokens, where each program adds up over its run."""
    from sightline.kernels import camera_backward_triton, qk_backward_triton

    for module in (qk_backward_triton, camera_backward_triton):
        monkeypatch.setattr(module, "RUNS", 2)
    arguments = qk_arguments(tokens=70, batch=1, heads=1, features=features, device=device)
    grads = [torch.randn_like(x) for x in arguments[:2]]
    actual = qk_backward_triton.qk_backward(*grads, *arguments)
    for number, (one, other) in enumerate(zip(actual, reference.qk_backward(*grads, *arguments), strict=True)):
        assert apart(one, other) < 10 * TOLERANCE[torch.float32], number  # alpha's gradient is a sum that cancels


def test_shapes_that_do_not_fit_are_refused_before_a_kernel_reads_beyond_them(device):
    from sightline.kernels import qk_triton

    fitting = qk_arguments(device=device)
    for place, name in ((1, "key"), (2, "norm_query"), (4, "cos"), (5, "sin"), (6, "camera_rows")):
        arguments = list(fitting)
        arguments[place] = arguments[place][:-1] if place == 2 else arguments[place][:, :-1]
        with pytest.raises(SightlineError, match=f"{name} has shape"):
            qk_triton.qk(*arguments)
    arguments = qk_arguments(features=16, device=device)
    arguments[6] = arguments[6][..., :-1]
    with pytest.raises(SightlineError, match="camera_rows has 105 columns: expected 90 and 16 features"):
        qk_triton.qk(*arguments)


@pytest.mark.parametrize("cameras", [0, 1])
def test_rows_of_fused_projections_and_shards_of_a_sequence(cameras, device):
    """Query and key as thirds of one projection; and a half of the tokens with its half of tables and camera."""
    from sightline.kernels import qk_triton

    arguments = qk_arguments(cameras=cameras, device=device)
    whole = reference.qk(*arguments)
    joint = torch.cat([*arguments[:2], torch.zeros_like(arguments[0])], dim=-1)
    strided = [*joint.chunk(3, dim=-1)[:2], *arguments[2:]]
    half = [x[:, 4:] for x in strided[:2]] + arguments[2:4] + [x[:, 4:] for x in arguments[4:6]] + arguments[6:]
    half[6] = None if cameras == 0 else arguments[6][:, 4:]
    for one, part, other in zip(qk_triton.qk(*strided), qk_triton.qk(*half), whole, strict=True):
        assert apart(one, other) < TOLERANCE[torch.float32]
        assert apart(part, other[:, 4:]) < TOLERANCE[torch.float32]


@pytest.mark.parametrize("features", [0, 64])
@pytest.mark.parametrize("fused", [True, False])
def test_autocast_does_not_reach_into_the_operation(fused, features, device, monkeypatch):
    """The reference's products, and those that end the kernels' gradient, would be bf16 otherwise."""
    monkeypatch.setattr(ops, "usable", lambda x: fused)
    arguments = qk_arguments(features=features, device=device)
    grads = [torch.randn_like(x) for x in arguments[:2]]
    expected = [*ops.qk(*arguments), *ops.qk_backward(*grads, *arguments)]
    with torch.autocast(torch.device(device).type, torch.bfloat16):
        actual = [*ops.qk(*arguments), *ops.qk_backward(*grads, *arguments)]
    assert all(torch.equal(one, other) for one, other in zip(actual, expected, strict=True))


@pytest.mark.parametrize("features", [0, 64])
def test_no_nan_where_the_moment_is_zero_or_there_is_no_camera(features, device):
    arguments = qk_arguments(features=features, device=device)
    arguments[6][..., 3:6] = 0  # the whole clip at the anchor
    inputs = [x.requires_grad_() for x in leaves(arguments)]
    outputs = ops.qk(*arguments)
    grads = torch.autograd.grad([x.sum() for x in outputs], inputs)
    assert all(x.isfinite().all() for x in (*outputs, *grads))
    without = ops.qk(*arguments[:6], None, [], *arguments[8:])
    for one, other in zip(outputs, without, strict=True):
        assert apart(one[:, 1], other[:, 1]) < 1e-6  # token 1 has no camera: nothing is added


@pytest.mark.parametrize("features", [0, 64])
def test_without_strength_nothing_is_added(features, device):
    """Alpha is 0 at the start: query and key are then those without a camera, and only alpha has a gradient."""
    arguments = qk_arguments(features=features, device=device)
    for alpha in arguments[7][-2:]:
        alpha.zero_()
    inputs = [x.requires_grad_() for x in leaves(arguments)]
    outputs, without = ops.qk(*arguments), ops.qk(*arguments[:6], None, [], *arguments[8:])
    for one, other in zip(outputs, without, strict=True):
        assert apart(one, other) < 1e-6  # a GPU may sum the norms of the two in another order
    *others, alpha_q, alpha_k = torch.autograd.grad([x.square().sum() for x in outputs], inputs)
    assert alpha_q.abs() > 0 and alpha_k.abs() > 0 and not any(x.any() for x in others[4:])


@pytest.mark.parametrize("encoding", [Scope(gate_hidden=5, min_moment=1e-3), Sweep(gate_hidden=5)])
def test_the_reference_is_the_model_s_own_path(encoding):
    layer = encoding.layer(36, 3).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    arguments = qk_arguments(dtype=torch.float64, features=64 if isinstance(encoding, Sweep) else 0)
    names = SweepWeights._fields if isinstance(encoding, Sweep) else ScopeWeights._fields
    arguments[7] = [getattr(layer, name) for name in names]
    if isinstance(encoding, Scope):
        arguments[9] = encoding.min_moment
    normed = [F.rms_norm(x, (36,), w, 1e-6) for x, w in zip(arguments[:2], arguments[2:4], strict=True)]
    rotated = [apply_rope(x.unflatten(-1, (3, 12)), *arguments[4:6]) for x in normed]
    expected = layer("inject", *rotated, rotated[0], arguments[6])[:2]
    for one, other in zip(reference.qk(*arguments), expected, strict=True):
        assert apart(one, other.flatten(2)) < TOLERANCE[torch.float64]


@pytest.mark.parametrize("cameras, features", [(0, 0), (1, 0), (2, 0), (1, 10), (2, 10)])
def test_gradcheck_and_the_reference_s_written_out_gradient(cameras, features):
    arguments = qk_arguments(
        cameras=cameras, tokens=4, heads=2, head_dim=4, hidden=3, dtype=torch.float64, features=features
    )
    inputs = [x.requires_grad_() for x in leaves(arguments)]

    def call(function: Any) -> Any:
        return lambda *x: function(*x[:4], *arguments[4:7], list(x[4:]), *arguments[8:])

    assert torch.autograd.gradcheck(call(reference.qk), inputs, fast_mode=True)
    assert torch.autograd.gradcheck(call(ops.qk), inputs, fast_mode=True)  # float64: the reference and its own backward


@pytest.mark.parametrize("cameras, features", [(0, 0), (1, 0), (1, 16)])
def test_opcheck(cameras, features):
    arguments = qk_arguments(cameras=cameras, dtype=torch.float64, features=features)
    for tensor in leaves(arguments):
        tensor.requires_grad_()
    torch.library.opcheck(ops.qk, tuple(arguments))
    plainly = [x.detach() if isinstance(x, torch.Tensor) else x for x in arguments]
    plainly[7] = [x.detach() for x in arguments[7]]
    grads = [torch.randn_like(x) for x in plainly[:2]]
    torch.library.opcheck(ops.qk_backward, (*grads, *plainly))


def test_it_compiles_whole_with_its_gradient():
    arguments = qk_arguments(dtype=torch.float64)
    inputs = [x.requires_grad_() for x in leaves(arguments)]

    def loss(*x: torch.Tensor) -> torch.Tensor:
        query, key = ops.qk(*x[:4], *arguments[4:7], list(x[4:]), *arguments[8:])
        return (query * key).sum()

    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
    for one, other in zip(
        torch.autograd.grad(compiled(*inputs), inputs), torch.autograd.grad(loss(*inputs), inputs), strict=True
    ):
        torch.testing.assert_close(one, other)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="real widths need a GPU")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("features", [0, 64])
@pytest.mark.parametrize("heads, tokens", [(24, 8190), (40, 4097)])
def test_real_widths_on_a_gpu(heads, tokens, features, dtype, device):
    arguments = qk_arguments(2, tokens, heads, 128, 1, 16, dtype=dtype, device=device, features=features)
    inputs = [x.requires_grad_() for x in leaves(arguments)]
    results = []
    for function in (ops.qk, reference.qk):
        outputs = function(*arguments)
        grads = [torch.sin(7 * x.detach()) for x in arguments[:2]]
        results.append([*outputs, *torch.autograd.grad(outputs, inputs, grads)])
    for number, (one, other) in enumerate(zip(*results, strict=True)):
        assert apart(one, other) < TOLERANCE[dtype], number
