"""Linear layers with a lower precision than the model around them: bfloat16 on a CPU, FP8 on a GPU.

Activations between layers keep their dtype. Only the operands of the matrix products, which take most of the time, are rounded.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from sightline.kernels import ops, reference

_ALIGNMENT = 16  # in_features and out_features of an FP8 product must be multiples of this
_MIN_PARAMETERS = 2**16  # smaller layers gain nothing
_PROMPT = (".attn2.to_k", ".attn2.to_v")  # these run over the few tokens of the prompt
# The output of text cross-attention is added without a gate, so its rounding error is the largest, for an eighth of the work
# (benchmarks/fp8_error.py).
_TEXT = (".attn2.",)


class Bfloat16Linear(nn.Linear):
    """A linear layer whose product runs in bfloat16, which CPUs with AVX-512 BF16 or AMX compute at twice the speed or more."""

    def forward(self, x: Tensor) -> Tensor:  # [..., K] -> [..., N] in the dtype of x
        return F.linear(x.bfloat16(), self.weight, self.bias).to(x.dtype)

    @classmethod
    def convert(cls, linear: nn.Linear) -> nn.Linear:
        """Change a layer in place."""
        linear.__class__ = cls
        return linear.to(torch.bfloat16)


class Fp8Linear(nn.Module):
    """A linear layer whose product runs in FP8, without gradients.

    The weight was rounded once, with a scale for each output. Inputs are rounded in every call, with a scale for each token.
    """

    weight: Tensor  # [N, K] in FP8
    weight_scales: Tensor  # [1, N] in float32

    def __init__(self, linear: nn.Linear, device: torch.device) -> None:
        """device: where the weight is rounded, which is slow on a CPU. The layer stays where it is."""
        super().__init__()
        self.in_features, self.out_features = linear.in_features, linear.out_features
        place = linear.weight.device
        numbers, scales = reference.quantize_rows(linear.weight.detach().to(device), False)
        self.register_buffer("weight", numbers.to(place))
        self.register_buffer("weight_scales", scales.t().contiguous().to(place))
        bias = linear.bias
        self.bias = None if bias is None else nn.Parameter(bias.detach().bfloat16(), requires_grad=False)

    def forward(
        self,
        x: Tensor,  # [..., K]
        *,
        gelu: bool = False,
        rounded: tuple[Tensor, Tensor] | None = None,
    ) -> Tensor:  # [..., N] in the dtype of x
        """gelu: apply the tanh form of GELU to x before it is rounded. rounded: x in FP8 and its scales, if they are known
        already.

        Always call the layer instead of using its weights: offloading hooks move them to the GPU in the call.
        """
        numbers, scales = ops.quantize_rows(x, gelu) if rounded is None else rounded
        out = ops.fp8_product(numbers, scales, self.weight, self.weight_scales, self.bias)
        return out.unflatten(0, x.shape[:-1]).to(x.dtype)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


def to_bfloat16(blocks: nn.Module) -> int:
    """Run the large linear layers of a transformer's blocks in bfloat16; returns how many there are."""
    return _replace(blocks, Bfloat16Linear.convert, _PROMPT)


def to_fp8(blocks: nn.Module, device: torch.device) -> int:
    """Run the large linear layers of self-attention and feed-forward in FP8; returns how many there are. The original weights are
    freed. device: where the blocks will run."""
    return _replace(blocks, partial(Fp8Linear, device=device), _TEXT, _ALIGNMENT)


def _replace(
    blocks: nn.Module, make: Callable[[nn.Linear], nn.Module], kept: tuple[str, ...], alignment: int = 1
) -> int:
    """kept: parts of the names of layers that stay as they are."""
    count = 0
    for name, layer in list(blocks.named_modules()):
        # Layers of other classes and those inside adapters are left alone, and the camera's small weights stay exact.
        if type(layer) is not nn.Linear or any(
            part in name for part in (*kept, "camera_encoding", ".base_layer", ".lora_")
        ):
            continue
        if layer.weight.numel() < _MIN_PARAMETERS or layer.in_features % alignment or layer.out_features % alignment:
            continue
        parent, _, last = name.rpartition(".")
        setattr(blocks.get_submodule(parent), last, make(layer))
        count += 1
    return count
