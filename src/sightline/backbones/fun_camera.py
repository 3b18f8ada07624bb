"""Wan2.1-Fun-V1.1-Control-Camera and Wan2.2-Fun-Control-Camera (VideoX-Fun): loading into CameraWanTransformer3DModel.

Their camera is CameraCtrl's: rays (o x d, d) of every pixel, relative to the first camera, four frames to a latent frame,
through a strided convolution and a residual block into the embedded tokens. Only the order of the channels differs, so the
weights are permuted when they are loaded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.attention import CameraRotaryPosEmbed
from sightline.backbones.released_files import ReleasedWeights
from sightline.backbones.wan import ENCODING_KEY, CameraWanTransformer3DModel
from sightline.backbones.wan_names import diffusers_name, is_wan, wan_config
from sightline.cameras.tokens import FOLD
from sightline.documents import read_json
from sightline.encodings.cameractrl import CHANNELS, CameraCtrl
from sightline.errors import SightlineError

ADAPTER = "control_adapter.conv.weight"
_RAY = CHANNELS // FOLD  # channels of one raw frame
_ENCODING = f"blocks.0{ENCODING_KEY}"
_ADAPTER_NAMES = {
    "control_adapter.conv.weight": "patch_weight",
    "control_adapter.conv.bias": "patch_bias",
    **{
        f"control_adapter.residual_blocks.0.conv{number}.{kind}": f"conv_{number}_{kind}"
        for number in (1, 2)
        for kind in ("weight", "bias")
    },
}
# The folders of the two experts, which VideoX-Fun names by their noise and diffusers by their order.
_EXPERT_FOLDERS = {"transformer": "high_noise_model", "transformer_2": "low_noise_model"}


@dataclass(frozen=True)
class FunCamera:
    """A release whose files were found to be complete. weights and configs: of each expert, by diffusers' component."""

    source: Path
    weights: dict[str, ReleasedWeights]
    configs: dict[str, dict[str, Any]]

    @classmethod
    def read(cls, source: Path) -> FunCamera:
        """Check names and shapes of all tensors of a folder as released, or of one file. Reads no weights."""
        folders = {name: source / folder for name, folder in _EXPERT_FOLDERS.items()}
        if any(folder.is_dir() for folder in folders.values()):
            if missing := [folder.name for folder in folders.values() if not folder.is_dir()]:
                raise SightlineError(f"camera {source} lacks the folder {missing[0]}: expected both experts.")
        else:
            folders = {"transformer": source}
        weights = {name: ReleasedWeights.open(folder) for name, folder in folders.items()}
        configs = {name: _checked_config(opened, name) for name, opened in weights.items()}
        return cls(source, weights, configs)

    @property
    def base(self) -> str:
        """The hub id of a pipeline that has the other parts of this model: VAE, text encoder, image encoder."""
        if len(self.weights) == 2:
            return "Wan-AI/Wan2.2-I2V-A14B-Diffusers"
        if self.configs["transformer"]["image_dim"] is not None:
            return "Wan-AI/Wan2.1-I2V-14B-480P-Diffusers"
        return "Wan-AI/Wan2.2-TI2V-5B-Diffusers"

    def require_base(self, model: str | Path, configs: Mapping[str, Mapping[str, Any]]) -> None:
        """Refuse a pipeline whose other parts are not this model's. configs: as read_configs reads them."""
        pipeline, own = configs[""], self.configs["transformer"]
        image_encoder = pipeline.get("image_encoder") or [None]
        found = {
            "experts": 2 if "transformer_2" in configs else 1,
            "latent channels": configs["vae"].get("z_dim"),
            "timesteps per token": bool(pipeline.get("expand_timesteps")),
            "text channels": configs["text_encoder"].get("d_model"),
            "an image encoder": image_encoder[0] is not None,
        }
        has_clip, two = own["image_dim"] is not None, len(self.configs) == 2
        needed = {
            "experts": len(self.configs),
            "latent channels": own["out_channels"],
            "timesteps per token": not has_clip and not two,
            "text channels": own["text_dim"],
            "an image encoder": has_clip or found["an image encoder"],  # an unused one does no harm
        }
        for what, expected in needed.items():
            if found[what] != expected:
                raise SightlineError(
                    f"model {str(model)!r} has {what} {found[what]} and the camera model {self.source} needs {expected}: "
                    f"expected {self.base} as the model."
                )

    def load(self, component: str, dtype: torch.dtype) -> CameraWanTransformer3DModel:
        """One expert with its weights, on the CPU."""
        model = _empty(self.configs[component])
        state = {}
        for name, tensor in self.weights[component].tensors():
            target = _target(name)
            assert target is not None
            if name == ADAPTER:
                tensor = reorder_channels(tensor)
            is_float32 = any(part in target for part in model._keep_in_fp32_modules)
            state[target] = tensor.to(torch.float32 if is_float32 else dtype)
        model.load_state_dict(state, assign=True)
        config = model.config  # the RoPE tables are in no file: they are computed
        model.rope = CameraRotaryPosEmbed(config.attention_head_dim, config.patch_size, config.rope_max_seq_len)
        return model.eval()


def reorder_channels(weight: Tensor) -> Tensor:  # [dim, 24 f f, k, k] -> [dim, 24 (k f)^2]
    """The adapter's convolution over unshuffled pixels as CameraCtrl's over a token's pixels.

    Theirs reads (coordinate, frame, y within f, x within f) at k x k positions, ours (frame, coordinate, y, x).
    """
    dim, channels, kernel, _ = weight.shape
    factor = round((channels / CHANNELS) ** 0.5)
    parts = weight.reshape(dim, _RAY, FOLD, factor, factor, kernel, kernel)
    return parts.permute(0, 2, 1, 5, 3, 6, 4).reshape(dim, -1).contiguous()


def _target(name: str) -> str | None:
    """The parameter of CameraWanTransformer3DModel that a released tensor becomes; None for one it does not have."""
    adapter = _ADAPTER_NAMES.get(name)
    return diffusers_name(name) if adapter is None else f"{_ENCODING}{adapter}"


def _checked_config(weights: ReleasedWeights, component: str) -> dict[str, Any]:
    """The configuration of the model for these tensors; refuses any that the model would lack, miss or hold in another shape."""
    source, shapes = weights.source, weights.shapes
    if not is_wan(shapes):
        raise SightlineError(
            f"camera {source} holds no Wan transformer under Wan's own names (such as patch_embedding.weight): expected "
            "the weights of a Fun-Control-Camera model."
        )
    adapter = shapes.get(ADAPTER)
    if adapter is None:
        raise SightlineError(
            f"camera {source} is a Wan transformer without {ADAPTER}: expected the weights of a Fun-Control-Camera model."
        )
    config = wan_config(shapes, _num_heads(source, shapes))
    _require_channels(source, config)
    patch = config["patch_size"][1]
    factor = round((adapter[1] / CHANNELS) ** 0.5) if len(adapter) == 4 else 0
    if adapter[1:] != (CHANNELS * factor**2, patch, patch):
        raise SightlineError(
            f"{source}: {ADAPTER} has shape {adapter}, expected [width, {CHANNELS} f f, {patch}, {patch}]: six ray "
            "coordinates of four frames."
        )
    config |= {"encoding": CameraCtrl(pixels=factor * patch, pinhole=True).to_config(), "component": component}
    _require_fitting(source, shapes, config)
    return config


def _num_heads(source: Path, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    """As config.json states it, which must be that of these weights; None for a single file, which has none beside it."""
    if source.is_file():
        return None
    config = read_json(source / "config.json", "that of a Fun-Control-Camera model")
    dim = shapes["patch_embedding.weight"][0]
    heads = config.get("num_heads")
    if config.get("dim") != dim or not isinstance(heads, int) or heads < 1 or dim % heads:
        raise SightlineError(
            f"{source / 'config.json'} has dim {config.get('dim')} and num_heads {heads}: expected dim {dim}, that of the "
            "weights beside it, and a number of heads that divides it."
        )
    return heads


def _require_channels(source: Path, config: Mapping[str, Any]) -> None:
    inputs, latent = config["in_channels"], config["out_channels"]
    expected = 2 * latent if config["image_dim"] is not None else 2 * latent + FOLD
    if inputs != expected:
        kind = "a model with an image encoder" if config["image_dim"] is not None else "this model"
        raise SightlineError(
            f"{source}: patch_embedding.weight takes {inputs} channels, expected {expected} for {kind} with {latent} latent "
            "channels: those of the latents, of the first frame and of its mask."
        )


def _require_fitting(source: Path, shapes: Mapping[str, tuple[int, ...]], config: dict[str, Any]) -> None:
    expected = {name: tuple(tensor.shape) for name, tensor in _empty(config).state_dict().items()}
    targets = {name: _target(name) for name in shapes}
    if unknown := sorted(name for name, target in targets.items() if target not in expected):
        raise SightlineError(
            f"{source} holds the unknown tensor {unknown[0]} ({len(unknown)} unknown): expected those of a "
            "Fun-Control-Camera model alone."
        )
    if missing := sorted(set(expected) - set(targets.values())):
        raise SightlineError(
            f"{source} lacks {missing[0]} ({len(missing)} missing, in diffusers' names): expected every weight of the model."
        )
    for name, target in targets.items():
        assert target is not None
        size = torch.Size(shapes[name]).numel() if name == ADAPTER else shapes[name]
        wanted = torch.Size(expected[target]).numel() if name == ADAPTER else expected[target]
        if size != wanted:
            raise SightlineError(f"{source}: {name} has shape {shapes[name]}, expected {expected[target]}.")


def _empty(config: Mapping[str, Any]) -> CameraWanTransformer3DModel:
    with torch.device("meta"):
        return CameraWanTransformer3DModel.from_config(dict(config))
