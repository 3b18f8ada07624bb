"""LoRA weights beside the camera's: read off a model as its adapters act, compared with a model, and merged or attached again.

A layer's LoRA weights are the pair A [rank, in] and B [out, rank]; the layer computes its weight + B A.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.errors import SightlineError
from sightline.tensors import require_real

Lora = dict[str, tuple[Tensor, Tensor]]  # by the name of the layer
_NAME = re.compile(r"\.lora_[AB]$")
# Starts of an adapter that leave the base's weights as they are. Others, such as PiSSA's, subtract B A from them.
_STARTS = (True, False, "gaussian", "orthogonal", "eva")


def pop_lora(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Take the LoRA weights of a file out of its tensors."""
    return {name: tensors.pop(name) for name in list(tensors) if _NAME.search(name)}


def active_lora(model: CameraTransformer) -> Lora:
    """A [rank, in] and B [out, rank], float32, by layer, so that the layer computes its weight + B A. The scaling of an
    adapter is multiplied into B, and several adapters are one of their summed rank."""
    adapters_of: dict[str, Any] = getattr(model, "peft_config", None) or {}
    if not adapters_of:
        return {}
    from peft.tuners.lora import Linear
    from peft.tuners.tuners_utils import BaseTunerLayer
    from peft.utils.other import AuxiliaryTrainingWrapper

    if biased := [adapter for adapter, config in adapters_of.items() if getattr(config, "bias", "none") != "none"]:
        # It trains the base's own biases, which stay changed when it is disabled or deleted.
        raise SightlineError(
            f"the adapter {biased[0]!r} has bias {adapters_of[biased[0]].bias!r}, which changes the base: expected bias 'none'."
        )
    for adapter, config in adapters_of.items():
        if (start := getattr(config, "init_lora_weights", True)) not in _STARTS:
            raise SightlineError(
                f"the adapter {adapter!r} has init_lora_weights {start!r}, which changes the base: expected true or 'gaussian'."
            )
    layers = {}
    for name, layer in model.named_modules():
        if isinstance(layer, AuxiliaryTrainingWrapper) and layer.active_adapters and not layer.disable_adapters:
            raise SightlineError(
                f"{name} is replaced by the adapter {layer.active_adapters[0]!r} (modules_to_save): expected LoRA alone, or "
                "that it is disabled."
            )
        if not isinstance(layer, BaseTunerLayer):
            continue
        adapters = [] if layer.disable_adapters else list(layer.active_adapters)
        adapters = [adapter for adapter in adapters if adapter in getattr(layer, "lora_A", adapters)]
        if ENCODING_KEY in f"{name}.":
            raise SightlineError(
                f"{name} is a camera layer with an adapter: expected adapters on the backbone alone (target_modules)."
            )
        if layer.merged:
            raise SightlineError(
                f"{name} has adapters merged into its weight, which the base lacks: expected unfuse_lora() before saving."
            )
        if not adapters:
            continue
        variants = getattr(layer, "lora_variant", {})  # of newer versions of peft, such as activated LoRA
        plain = type(layer) is Linear and not any(
            layer.use_dora.get(a) or layer.lora_bias.get(a) or variants.get(a) for a in adapters
        )
        if not plain:
            raise SightlineError(
                f"{name} has the adapter {adapters[0]!r}, which is no plain LoRA of a linear layer: expected one, or that "
                "it is disabled."
            )
        a = [layer.lora_A[adapter].weight.detach().float() for adapter in adapters]
        b = [layer.lora_B[adapter].weight.detach().float() * layer.scaling[adapter] for adapter in adapters]
        layers[name] = torch.cat(a), torch.cat(b, dim=1)
    return layers


def lora_layers(model: Any, lora: dict[str, Tensor], path: Path) -> Lora:
    """A [rank, in] and B [out, rank] by the name of the layer they belong to, each of the shape of a layer of the model."""
    parameters, layers = dict(model.named_parameters()), lora_pairs(path, lora)
    for layer, (a, b) in layers.items():
        weight = parameters.get(f"{layer}.weight")
        if weight is None or (b.shape[0], a.shape[1]) != tuple(weight.shape):
            raise _no_such_layer(path, layer)
    return layers


def lora_pairs(path: Path, lora: dict[str, Tensor]) -> Lora:
    """A [rank, in] and B [out, rank] by the name of the layer."""
    layers = {}
    for name, a in lora.items():
        layer, half = name.rsplit(".lora_", 1)
        if half == "B":
            continue
        b = lora.get(f"{layer}.lora_B")
        if b is None:
            raise SightlineError(f"{path}: {name} has no {layer}.lora_B beside it, expected both halves.")
        if (a.ndim, b.ndim) != (2, 2) or b.shape[1] != a.shape[0]:
            raise _no_such_layer(path, layer)
        require_real(path, ((name, a), (f"{layer}.lora_B", b)))
        layers[layer] = a, b
    return layers


def _no_such_layer(path: Path, layer: str) -> SightlineError:
    return SightlineError(f"{path}: {layer}.lora_A fits no layer of this model, expected LoRA weights made for it.")


@torch.no_grad()
def merge_lora(model: CameraTransformer, layers: Lora) -> None:
    """Set each weight to weight + B A, in a new tensor: a base that shares the old tensor does not change."""
    parameters = dict(model.named_parameters())
    for layer, (a, b) in layers.items():
        weight = parameters[f"{layer}.weight"]
        weight.data = (weight.float() + (b.float() @ a.float()).to(weight.device)).to(weight.dtype)


@torch.no_grad()
def attach_lora(model: CameraTransformer, layers: Lora) -> None:
    """Add the LoRA weights as an adapter."""
    from peft import LoraConfig

    ranks = sorted({a.shape[0] for a, _ in layers.values()})
    if len(ranks) > 1:
        raise SightlineError(f"the LoRA weights have the ranks {ranks}: expected one rank, to train them further.")
    rank = ranks[0]
    model.add_adapter(LoraConfig(r=rank, lora_alpha=rank, target_modules=list(layers)))
    parameters = dict(model.named_parameters())
    for layer, halves in layers.items():
        for half, tensor in zip("AB", halves, strict=True):
            parameters[f"{layer}.lora_{half}.default.weight"].copy_(tensor)
