"""Camera weights: a safetensors file with the parameters of a model's encoding, and with LoRA weights where there are any.

The file's metadata holds the encoding's settings, the backbone and the expert for which the weights were trained.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from sightline.backbones.camera_lora import (
    Lora,
    active_lora,
    attach_lora,
    lora_layers,
    lora_pairs,
    merge_lora,
    pop_lora,
)
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.models import add_camera, blocks_of, camera_class
from sightline.backbones.stock import EXPERTS
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.encodings import Encoding, encoding_from_config
from sightline.encodings.protocol import EncodingLayer, promote_scalars
from sightline.errors import SightlineError
from sightline.files import atomic_write, reason
from sightline.settings import convert
from sightline.tensors import metadata_json, read_metadata, read_tensors, require_real

_EXPECTED = "camera weights written by save_camera"
_FORMAT, _VERSION = "sightline-camera", "1"

# The config keys of a backbone in which it must agree with the one that the weights were trained on.
_BACKBONE_KEYS = (
    "num_layers",
    "num_attention_heads",
    "attention_head_dim",
    "in_channels",
    "out_channels",
    "patch_size",
)


def save_camera(model: CameraTransformer, path: str | Path, component: str = "transformer") -> None:
    """Write the camera weights: only the parameters that the base model does not have (a few MB).

    LoRA adapters of the model are saved as they act now: the sum of those that are active, each with its scaling, in
    bfloat16. `load_camera` merges them into the base's weights. Adapters that also change something else are refused.
    component: the expert of a pipeline that this model is, "transformer" (high noise) or "transformer_2" (low noise).
    """
    if not isinstance(model, CameraTransformer):
        raise SightlineError(
            f"model is a {type(model).__name__}: expected a model with a camera, such as a CameraWanTransformer3DModel."
        )
    _require_component(component)
    tensors = {name: tensor for name, tensor in model.state_dict().items() if ENCODING_KEY in name}
    for layer, (a, b) in active_lora(model).items():
        tensors |= {f"{layer}.lora_A": a.to(torch.bfloat16), f"{layer}.lora_B": b.to(torch.bfloat16)}
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    metadata = {
        "format": _FORMAT,
        "version": _VERSION,
        "component": component,
        "encoding": json.dumps(model.encoding.to_config()),
        "backbone": json.dumps(_backbone(model)),
    }
    with atomic_write(path) as temporary:
        save_file(tensors, temporary, metadata=metadata)


def load_camera(
    model: Any,
    path: str | Path,
    component: str = "transformer",
    *,
    copy: bool = True,
    keep_lora: bool = False,
) -> CameraTransformer:
    """Load camera weights into a model and return it. Anything that does not fit is refused by name.

    model: a stock model, which is retrofitted (see `from_transformer` for `copy`), or a model with the same encoding, whose
        parameters are overwritten in place.
    keep_lora: keep the file's LoRA weights as an adapter that can be trained further (needs peft), instead of merging them.
    """
    encoding, tensors, lora = read_camera(model, path, component)
    if not isinstance(model, CameraTransformer):
        model = add_camera(model, encoding, component=component, copy=copy)
    parameters = {name: parameter for name, parameter in model.state_dict().items() if ENCODING_KEY in name}
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(tensors[name])
    if keep_lora and lora:
        attach_lora(model, lora)
    else:
        merge_lora(model, lora)
    return model


def read_camera(
    model: Any, path: str | Path, component: str = "transformer"
) -> tuple[Encoding, dict[str, Tensor], Lora]:
    """The encoding, camera parameters and LoRA weights of a file; what does not fit the model is refused by name.

    model: as for load_camera. It may be on the meta device, so that a file is refused before the model's weights are read.
    """
    camera_class(model)  # refuses other models
    _require_component(component)
    path = Path(path)
    metadata, tensors = _read(path)
    trained, encoding = _trained_backbone(path, metadata), _encoding_of(path, metadata)
    if metadata.get("component") != component:
        raise SightlineError(
            f"{path} was trained for {metadata.get('component')!r}: expected weights for {component!r}."
        )
    require_same_backbone(path, trained, model)
    lora = pop_lora(tensors)
    if isinstance(model, CameraTransformer):
        if lora:
            raise SightlineError(
                f"{path} holds LoRA weights for a stock model: this one carries a camera already; load the base again."
            )
        if not model.encoding.computes_as(encoding):
            raise SightlineError(
                f"{path} was trained for the encoding {encoding}: this model carries {model.encoding}."
            )
    _require_fitting(path, tensors, _camera_shapes(path, model, encoding))
    require_real(path, tensors.items())
    return encoding, tensors, lora_layers(model, lora, path)


def load_camera_layers(path: str | Path, backbone: dict[str, Any]) -> tuple[list[EncodingLayer], Lora]:
    """The encoding's layers, first to last, and the LoRA weights, for a Wan model of another library.

    backbone: the values of that model under the keys of a diffusers config: num_layers, num_attention_heads,
        attention_head_dim, in_channels, out_channels and patch_size. What does not fit is refused as in `load_camera`.
    The LoRA weights are A [rank, in] and B [out, rank] by the layer's name in diffusers. Only the caller can compare them
    with the weights they are for.
    """
    path = Path(path)
    metadata, tensors = _read(path)
    encoding = _encoding_of(path, metadata)
    _require_same_values(path, _trained_backbone(path, metadata), backbone)
    lora = lora_pairs(path, pop_lora(tensors))
    heads, count = backbone["num_attention_heads"], backbone["num_layers"]
    dim, blocks_name = heads * backbone["attention_head_dim"], CameraWanTransformer3DModel.blocks_name
    _require_fitting(path, tensors, _layer_shapes(path, encoding, dim, heads, count, blocks_name))
    require_real(path, tensors.items())
    layers = encoding.layers(dim, heads, count)
    with torch.no_grad():
        for index, layer in enumerate(layers):
            for name, parameter in layer.state_dict().items():
                parameter.copy_(tensors[f"{blocks_name}.{index}{ENCODING_KEY}{name}"])
    return layers, lora


def _camera_shapes(path: Path, model: Any, encoding: Encoding) -> dict[str, torch.Size]:
    """The shape of every camera parameter of the model with this encoding, by name. Allocates none of them."""
    blocks_name, blocks = camera_class(model).blocks_name, blocks_of(model)
    first = blocks[0].attn1
    return _layer_shapes(path, encoding, first.inner_dim, first.heads, len(blocks), blocks_name)


def _layer_shapes(
    path: Path, encoding: Encoding, dim: int, heads: int, count: int, blocks_name: str
) -> dict[str, torch.Size]:
    try:
        with torch.device("meta"):
            layers = encoding.layers(dim, heads, count)
    except (RuntimeError, OverflowError, MemoryError) as error:  # of sizes that no tensor can have
        raise SightlineError(
            f"{path}: no model can carry {encoding} ({reason(error)}), expected {_EXPECTED}."
        ) from None
    return {
        f"{blocks_name}.{index}{ENCODING_KEY}{name}": tensor.shape
        for index, layer in enumerate(layers)
        for name, tensor in layer.state_dict().items()
    }


def is_camera_weights(path: Path) -> bool:
    """Whether this is a file that `save_camera` wrote."""
    try:
        return read_metadata(path, _EXPECTED).get("format") == _FORMAT
    except SightlineError:
        return False


def _read(path: Path) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and tensors of a file of camera weights."""
    metadata, tensors = read_tensors(path, _EXPECTED)
    if metadata.get("format") != _FORMAT:
        raise SightlineError(
            f"{path} has the format {metadata.get('format')!r}: expected {_FORMAT!r}, as save_camera writes."
        )
    if metadata.get("version") != _VERSION:
        raise SightlineError(
            f"{path} has version {metadata.get('version')!r}: expected {_VERSION!r}; a newer sightline wrote it."
        )
    return metadata, promote_scalars(tensors)


def _trained_backbone(path: Path, metadata: dict[str, str]) -> dict[str, Any]:
    return convert(dict, metadata_json(path, metadata, "backbone", _EXPECTED), f"{path}: backbone")


def _encoding_of(path: Path, metadata: dict[str, str]) -> Encoding:
    try:
        return encoding_from_config(metadata_json(path, metadata, "encoding", _EXPECTED))
    except SightlineError as error:
        raise SightlineError(str(error) if str(path) in str(error) else f"{path}: {error}") from None


def require_same_backbone(path: Path, trained: dict[str, Any], model: Any) -> None:
    """Refuse weights that were trained on a backbone of other dimensions. trained: config values of that backbone."""
    _require_same_values(path, trained, _backbone(model))


def _require_same_values(path: Path, trained: dict[str, Any], backbone: dict[str, Any]) -> None:
    for key, value in backbone.items():
        if _as_json(trained.get(key)) != value:
            raise SightlineError(
                f"{path} was trained on a backbone with {key} {trained.get(key)}: this model has {value}."
            )


def _require_component(component: str) -> None:
    if component not in EXPERTS:
        raise SightlineError(f"component is {component!r}: expected one of {', '.join(EXPERTS)}.")


def _backbone(model: Any) -> dict[str, Any]:
    return {key: _as_json(model.config[key]) for key in _BACKBONE_KEYS}


def _as_json(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value  # json has no tuples


def _require_fitting(path: Path, tensors: dict[str, Tensor], shapes: dict[str, torch.Size]) -> None:
    """Refuse tensors with other names or shapes than those of the camera parameters."""
    if missing := sorted(set(shapes) - set(tensors)):
        raise SightlineError(f"{path} lacks {missing[0]} ({len(missing)} missing): expected every camera parameter.")
    if unknown := sorted(set(tensors) - set(shapes)):
        raise SightlineError(f"{path} holds the unknown parameter {unknown[0]} ({len(unknown)} unknown): refused.")
    for name, tensor in tensors.items():
        if tensor.shape != shapes[name]:
            raise SightlineError(f"{path}: {name} has shape {tuple(tensor.shape)}, expected {tuple(shapes[name])}.")
