"""SANA-WM as its configuration files describe it. Nothing here imports diffusers, which takes seconds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.backbones.wan_configs import Defaults
from sightline.cameras.token_grid import TokenStride
from sightline.checks import whole_number
from sightline.errors import SightlineError

SANA_WM = "SanaWMPipeline"  # the pipeline's class in model_index.json
SANA_WM_DEFAULTS = Defaults(num_frames=161, width=1280, height=704, num_inference_steps=60, guidance_scale=5.0)


@dataclass(frozen=True)
class SanaWMConfig:
    """The release, as its configuration files on the hub state it."""

    transformer: Mapping[str, Any]
    stride: TokenStride  # the frames and pixels that one token covers


SANA_WM_RELEASE = SanaWMConfig(
    transformer={
        "in_channels": 128,
        "num_layers": 20,
        "hidden_size": 2240,
        "num_attention_heads": 20,
        "patch_size": (1, 1, 1),
        "linear_head_dim": 112,
        "caption_channels": 2304,
        "chunk_plucker_channels": 48,
    },
    stride=TokenStride(frames=8, height=32, width=32),
)


def require_no_camera(model: object, camera: object) -> None:
    """Refuse camera weights beside SANA-WM."""
    if camera is not None:
        raise SightlineError(
            f"camera is {str(camera)!r}, but model {str(model)!r} is SANA-WM, which has a camera of its own: expected none."
        )


def sana_wm_stride(configs: Mapping[str, Mapping[str, Any]]) -> TokenStride:
    """The frames and pixels that a token covers."""
    vae, patch = configs["vae"], configs["transformer"]["patch_size"]
    factors = {
        "scale_factor_temporal": _compression(vae, "temporal_compression_ratio", "patch_size_t", 1),
        "scale_factor_spatial": _compression(vae, "spatial_compression_ratio", "patch_size", 4),
    }
    return TokenStride.from_vae(factors, patch)


def _compression(vae: Mapping[str, Any], name: str, patch: str, default: int) -> int:
    """As the file states it, or as diffusers computes it from the scaling blocks."""
    if vae.get(name) is not None:
        return whole_number(name, vae[name])
    return whole_number(patch, vae.get(patch, default)) * 2 ** sum(map(bool, vae["spatio_temporal_scaling"]))
