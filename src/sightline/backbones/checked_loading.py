"""How a transformer with a camera is read from files: as in diffusers, with every parameter accounted for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from diffusers.models.modeling_utils import ModelMixin

from sightline.backbones.stock import SAFETENSORS
from sightline.devices import as_dtype
from sightline.documents import read_json
from sightline.encodings.protocol import promote_scalars
from sightline.errors import LoadError, SightlineError
from sightline.files import reason
from sightline.tensors import open_tensors, read_tensors

ENCODING_KEY = ".attn1.camera_encoding."  # part of the name of every camera parameter and of no other


class CheckedLoading(ModelMixin):
    """A model of diffusers that refuses missing, unknown and unreadable weights."""

    @classmethod
    def from_pretrained(cls, path: Any, **options: Any) -> Any:
        """As in diffusers, except that missing or unknown weights are refused rather than ignored, and that a dtype may be the
        name of one."""
        wants_info = options.pop("output_loading_info", False)
        for name in ("dtype", "torch_dtype"):  # diffusers would load a dtype named by a string as float32
            if isinstance(options.get(name), str):
                options[name] = as_dtype(options[name], torch.device("cpu"))
        folder = Path(path) / (options.get("subfolder") or "")
        if folder.is_dir():  # a damaged configuration would send diffusers to the hub
            try:
                read_json(folder / "config.json", "that of a camera model saved by save_pretrained")
            except SightlineError as error:
                raise LoadError(str(error)) from None
        try:
            model, info = super().from_pretrained(path, output_loading_info=True, **{**options, **SAFETENSORS})
        except (SightlineError, torch.OutOfMemoryError):
            raise
        except (
            Exception
        ) as error:  # another shape, a file cut short, no such folder or variant, a configuration that is none
            kind = LoadError if isinstance(error, OSError) else SightlineError
            raise kind(
                f"the model in {path} cannot be loaded ({reason(error)}): expected a camera model saved by save_pretrained."
            ) from None
        for problem, names in (("lack", info["missing_keys"]), ("hold the unknown", info["unexpected_keys"])):
            if names:
                raise SightlineError(
                    f"the weights in {path} {problem} {sorted(names)[0]} ({len(names)} such): expected every parameter "
                    f"of the encoding {model.config.encoding['name']!r} and of its backbone."
                )
        for name, parameter in model.named_parameters():
            if ENCODING_KEY in name and not parameter.isfinite().all():
                raise SightlineError(
                    f"the weights in {path} hold values in {name} that are not finite: expected numbers."
                )
        return (model, info) if wants_info else model

    @classmethod
    def _load_pretrained_model(cls, model: Any, state_dict: Any, files: list[Any], *args: Any, **options: Any) -> Any:
        # A step of diffusers' from_pretrained, which accepts state dicts in place of file names. diffusers compares shapes
        # before it fills the model, so scalar alphas must be promoted here.
        if state_dict is not None:
            promote_scalars(state_dict)
        else:
            files = [_promote_scalars_of(file) for file in files]
        return super()._load_pretrained_model(model, state_dict, files, *args, **options)


def _promote_scalars_of(file: str) -> Any:
    """The name of a file of weights or, where it holds 0-dim tensors, its content with those reshaped to (1,)."""
    expected = "weights written by save_pretrained"
    with open_tensors(file, expected) as shard:
        if all(shard.get_slice(name).get_shape() for name in shard.keys()):  # noqa: SIM118  # not a dict
            return file
    return promote_scalars(read_tensors(file, expected)[1])
