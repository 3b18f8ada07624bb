"""Packed weights: large matrices and kernels as int8 rows with one float32 scale each, half the size of bfloat16.

A packed component is a folder in diffusers' layout whose weights are in packed-I-of-N.safetensors instead of
diffusion_pytorch_model.safetensors. In these files `NAME` is either an int8 tensor beside its scales `NAME.row_scale`, or a
bfloat16 tensor. What is loaded is always int8 x scale rounded to bfloat16, whatever dtype it is used in afterwards, so that the
packed model and the plain folder that is written from it are the same model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import accelerate
import torch
from diffusers import ModelMixin
from safetensors.torch import save_file
from torch import Tensor

from sightline.backbones.stock import SAFETENSORS
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.tensors import read_tensors, require_real

_SCALE = ".row_scale"
_MIN_VALUES = 2**16  # smaller tensors (norms, biases, modulation tables) stay bfloat16
_MAX_FILE_BYTES = 15_000_000
_PLAIN_FILES = "diffusion_pytorch_model*.safetensors*"  # weights, and their index where there are several files


def quantize_rows(weight: Tensor) -> tuple[Tensor, Tensor]:  # [R, ...] -> int8 [R, ...], float32 [R]
    """The nearest multiples of each row's largest absolute value / 127. A row is all that makes one output channel."""
    rows = weight.detach().float().cpu().flatten(1)
    scale = rows.abs().amax(dim=1) / 127
    quantized = (rows / scale.clamp_min(torch.finfo(torch.float32).tiny)[:, None]).round().to(torch.int8)
    return quantized.reshape(weight.shape), scale


def dequantize_rows(quantized: Tensor, scale: Tensor) -> Tensor:  # int8 [R, ...], float32 [R] -> bfloat16 [R, ...]
    rows = quantized.flatten(1).float() * scale[:, None]
    return rows.reshape(quantized.shape).to(torch.bfloat16)


def pack_component(folder: Path, weights: Mapping[str, Tensor]) -> None:
    """Replace the weights of a component that was saved with save_pretrained by packed ones, in files of at most 15 MB."""
    packed: dict[str, Tensor] = {}
    for name, weight in weights.items():
        if not weight.isfinite().all():
            raise SightlineError(f"{folder}: {name} holds values that are not finite, expected finite weights.")
        if weight.ndim >= 2 and weight.numel() >= _MIN_VALUES:
            packed[name], packed[name + _SCALE] = quantize_rows(weight)
        else:
            packed[name] = weight.detach().cpu().to(torch.bfloat16).contiguous()
    for file in folder.glob(_PLAIN_FILES):
        file.unlink()
    shards = list(_shards(packed))
    for number, shard in enumerate(shards, 1):
        save_file(shard, folder / f"packed-{number}-of-{len(shards)}.safetensors", metadata={"format": "pt"})


def packed_files(folder: Path) -> list[Path]:
    """The files of a packed component; none where it is plain, or where there is no such folder."""
    return sorted(folder.glob("packed-*-of-*.safetensors"))


def load_component(model_class: type[ModelMixin], folder: Path, dtype: torch.dtype) -> Any:
    """model_class.from_pretrained(folder, dtype=dtype), where the folder may be plain or packed."""
    if not packed_files(folder):
        return model_class.from_pretrained(folder, dtype=dtype, **SAFETENSORS)
    weights = unpack_weights(folder)
    with accelerate.init_empty_weights(include_buffers=False):  # buffers are computed, not saved
        model: Any = model_class.from_config(model_class.load_config(folder))
    keep_float32 = model_class._keep_in_fp32_modules or []
    for name, weight in weights.items():
        kept = any(part in name.split(".") for part in keep_float32)
        weights[name] = weight.to(torch.float32 if kept else dtype)
    try:
        model.load_state_dict(weights, assign=True)
    except RuntimeError as error:
        raise SightlineError(
            f"{folder}: the weights do not fit the configuration ({reason(error)}): expected a packed component."
        ) from None
    return model.eval()


def unpack_weights(folder: Path) -> dict[str, Tensor]:
    """All tensors of a packed folder, in bfloat16."""
    files = packed_files(folder)
    count = int(files[0].stem.rsplit("-", 1)[1]) if files else 0
    if len(files) != count or not count:
        raise SightlineError(f"{folder} holds {len(files)} of {count} packed files: expected all of them.")
    tensors: dict[str, Tensor] = {}
    for file in files:
        tensors |= read_tensors(file, "packed weights")[1]
    weights = {}
    for name, tensor in tensors.items():
        if tensor.dtype == torch.int8:
            scale = tensors.get(name + _SCALE)
            if (
                scale is None
                or tensor.ndim < 2
                or scale.dtype != torch.float32
                or scale.shape != tensor.shape[:1]
                or not scale.isfinite().all()
            ):
                raise SightlineError(f"{folder}: {name} has no scale for each of its rows, expected packed weights.")
            require_real(folder, [(name + _SCALE, scale)])
            weights[name] = dequantize_rows(tensor, scale)
        elif not name.endswith(_SCALE):
            require_real(folder, [(name, tensor)])
            weights[name] = tensor
    return weights


def _shards(tensors: Mapping[str, Tensor]) -> Iterator[dict[str, Tensor]]:
    """The tensors in order, in groups of at most _MAX_FILE_BYTES."""
    shard: dict[str, Tensor] = {}
    size = 0
    for name, tensor in tensors.items():
        if shard and size + tensor.nbytes > _MAX_FILE_BYTES:
            yield shard
            shard, size = {}, 0
        shard[name] = tensor
        size += tensor.nbytes
    yield shard
