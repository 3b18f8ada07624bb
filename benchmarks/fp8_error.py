"""How far FP8 products move the output of a model of 5B's width, by kind of layer, computed on a CPU: no GPU is needed.

    python benchmarks/fp8_error.py                  3 of 30 layers, 48 tokens, random weights

Weights and inputs of the chosen layers are rounded as in `low_precision_linear.py`. Prints the RMS of the difference from
the output in float32, divided by the RMS of that output.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import tyro
from torch import Tensor, nn

from sightline.bench.models import Setting, call_arguments, random_base
from sightline.kernels.reference import quantize_rows

_PARTS: dict[str, tuple[str, ...]] = {
    "self-attention": ("attn1.",),
    "of it, query and key": ("attn1.to_q", "attn1.to_k"),
    "of it, value and output": ("attn1.to_v", "attn1.to_out"),
    "feed-forward": ("ffn.",),
    "text cross-attention": ("attn2.to_q", "attn2.to_out"),
    "self-attention and feed-forward (this is in the code)": ("attn1.", "ffn."),
    "all": ("attn1.", "ffn.", "attn2.to_q", "attn2.to_out"),
}


def main(layers: int = 3, size: str = "128x128", num_frames: int = 9, threads: int = 1) -> None:
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    setting = Setting.from_options("5b", layers, num_frames, size)
    model = random_base(setting, torch.device("cpu")).float()
    arguments = call_arguments(model, setting, torch.device("cpu"), torch.float32)
    exact = output(model, arguments, lambda name: False)
    print(f"{layers} layers, {setting.tokens} tokens")
    for part, names in _PARTS.items():
        rounded = output(model, arguments, lambda name, names=names: any(one in name for one in names))
        off = (rounded - exact).square().mean().sqrt() / exact.square().mean().sqrt()
        print(f"| {part} | {100 * float(off):.2f} % |", flush=True)


@torch.no_grad()
def output(model: nn.Module, arguments: dict[str, Tensor], is_rounded: Callable[[str], bool]) -> Tensor:
    """The output with some linear layers in FP8. The model is left as it was."""
    weights, hooks = {}, []
    for name, layer in model.blocks.named_modules():
        if type(layer) is nn.Linear and is_rounded(name):
            weights[layer] = layer.weight.data
            layer.weight.data = restored(layer.weight.data)
            hooks.append(layer.register_forward_pre_hook(lambda _, inputs: (restored(inputs[0]),)))
    result: Tensor = model(**arguments)[0]
    for layer, weight in weights.items():
        layer.weight.data = weight
    for hook in hooks:
        hook.remove()
    return result


def restored(x: Tensor) -> Tensor:
    numbers, scales = quantize_rows(x, False)
    return (numbers.float() * scales).view_as(x)


if __name__ == "__main__":
    tyro.cli(main)
