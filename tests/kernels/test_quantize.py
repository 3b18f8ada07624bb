"""Numbers in FP8 with a scale for each row: the kernel equals its reference, and a product stays close to the exact one."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from sightline.kernels import ops, reference


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("gelu", [False, True])
@pytest.mark.parametrize("shape", [(2, 5, 48), (3, 100), (1, 1, 16)])
def test_the_kernel_equals_the_reference(shape, gelu, dtype, device):
    from sightline.kernels import quantize_triton

    x = torch.randn(shape, dtype=dtype, device=device) * 30
    x[..., 0, :] = 0  # a row of zeros has a scale too
    numbers, scales = quantize_triton.quantize_rows(x, gelu)
    expected, expected_scales = reference.quantize_rows(x, gelu)
    assert numbers.dtype == torch.float8_e4m3fn and scales.dtype == torch.float32
    torch.testing.assert_close(scales, expected_scales)
    # A number halfway between two of FP8 may go to either, by the rounding of the division before. Scales are not part of the
    # comparison: on a GPU, torch divides by a constant as a product with its reciprocal, and most differ in their last bit.
    apart = (numbers.float() - expected.float()).abs()
    assert (apart <= 0.13 * expected.float().abs() + 2**-9).all()
    assert (apart > 0).float().mean() < 0.02


def test_a_slice_of_a_wider_tensor_is_read_where_it_lies(device):
    from sightline.kernels import quantize_triton

    wide = torch.randn(4, 96, device=device)
    numbers, scales = quantize_triton.quantize_rows(wide[:, :48], False)
    expected, expected_scales = reference.quantize_rows(wide[:, :48].contiguous(), False)
    torch.testing.assert_close(scales, expected_scales)
    assert torch.equal(numbers.float(), expected.float())


def test_a_row_is_restored_within_the_rounding_of_fp8():
    x = torch.randn(20, 256) * torch.logspace(-6, 6, 20)[:, None]  # every row has its own scale
    numbers, scales = reference.quantize_rows(x, False)
    error = (numbers.float() * scales - x).abs()
    assert (error <= x.abs() / 16 + scales * 2**-9).all()  # three bits behind the point, and the smallest subnormal


def test_a_product_lies_within_four_percent_of_the_exact_one():
    torch.manual_seed(0)
    x, weight, bias = torch.randn(64, 512), torch.randn(96, 512) / 512**0.5, torch.randn(96).bfloat16()
    numbers, scales = ops.quantize_rows(x, False)
    weight_numbers, weight_scales = reference.quantize_rows(weight, False)
    product = ops.fp8_product(numbers, scales, weight_numbers, weight_scales.t().contiguous(), bias)
    exact = F.linear(x, weight)
    assert product.dtype == torch.bfloat16
    assert float((product.float() - bias.float() - exact).std() / exact.std()) < 0.04


def test_opcheck():
    torch.library.opcheck(ops.quantize_rows, (torch.randn(2, 3, 16), True))
