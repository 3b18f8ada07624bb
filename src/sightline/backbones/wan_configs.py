"""The configurations of the released Wan2.2 models, as their configuration files on the hub state them.

Only the VAE's latent statistics are left out (they are 0 and 1 here): time, memory and shapes do not depend on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from sightline.cameras.token_grid import TokenStride

EXPERTS = ("transformer", "transformer_2")  # of high noise, and of low noise where a model has two


class VideoShape(NamedTuple):
    """The number of frames and the size of a video."""

    num_frames: int
    width: int
    height: int

    def __str__(self) -> str:
        frames = "1 frame" if self.num_frames == 1 else f"{self.num_frames} frames"
        return f"{frames} of {self.width}x{self.height}"


@dataclass(frozen=True)
class Defaults:
    """The video a model is made for, and how it is sampled."""

    num_frames: int
    width: int
    height: int
    num_inference_steps: int
    guidance_scale: float


@dataclass(frozen=True)
class WanConfig:
    """One release. transformer, vae and text_encoder: the arguments of their classes."""

    hub_id: str
    pipeline_class: str
    pipeline: Mapping[str, Any]  # the flags in model_index.json
    transformer: Mapping[str, Any]
    two_experts: bool  # whether there is a transformer_2, of the same configuration
    vae: Mapping[str, Any]
    text_encoder: Mapping[str, Any]
    flow_shift: float  # of the scheduler
    defaults: Defaults
    trained_shapes: tuple[VideoShape, ...]  # of the release and of the paper's camera weights

    @property
    def stride(self) -> TokenStride:
        """The frames and pixels that one token covers."""
        return TokenStride.from_vae(self.vae, self.transformer["patch_size"])

    @property
    def experts(self) -> tuple[str, ...]:
        """The names of its transformers."""
        return EXPERTS if self.two_experts else EXPERTS[:1]

    def components(self) -> dict[str, Mapping[str, Any]]:
        """The configuration of each component by its name; that of the pipeline itself is "", as in ModelInfo."""
        models = dict.fromkeys(self.experts, self.transformer) | {"vae": self.vae, "text_encoder": self.text_encoder}
        return {"": self.pipeline, **models}


_TEXT_ENCODER = {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "vocab_size": 256384}
_TRANSFORMER = {"patch_size": (1, 2, 2), "attention_head_dim": 128, "text_dim": 4096, "freq_dim": 256}
_5B = _TRANSFORMER | {
    "num_attention_heads": 24, "num_layers": 30, "ffn_dim": 14336, "in_channels": 48, "out_channels": 48,
}  # fmt: skip
_14B = _TRANSFORMER | {"num_attention_heads": 40, "num_layers": 40, "ffn_dim": 13824, "out_channels": 16}
_VAE_21 = {
    "z_dim": 16, "base_dim": 96, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2,
    "temperal_downsample": [False, True, True],
}  # fmt: skip
_VAE_22 = _VAE_21 | {
    "z_dim": 48, "base_dim": 160, "decoder_base_dim": 256, "in_channels": 12, "out_channels": 12, "is_residual": True,
    "patch_size": 2, "scale_factor_spatial": 16, "scale_factor_temporal": 4,
    "latents_mean": [0.0] * 48, "latents_std": [1.0] * 48,
}  # fmt: skip


def _both_ways(*shapes: tuple[int, int, int]) -> tuple[VideoShape, ...]:
    """Landscape and portrait of each shape."""
    return tuple(VideoShape(frames, *size) for frames, *sides in shapes for size in (sides, sides[::-1]))


TI2V_5B = WanConfig(
    hub_id="Wan-AI/Wan2.2-TI2V-5B-Diffusers",
    pipeline_class="WanPipeline",
    pipeline={"expand_timesteps": True, "boundary_ratio": None},
    transformer=_5B,
    two_experts=False,
    vae=_VAE_22,
    text_encoder=_TEXT_ENCODER,
    flow_shift=5.0,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=50, guidance_scale=5.0),
    trained_shapes=_both_ways((81, 832, 480), (121, 1280, 704)),
)
I2V_A14B = WanConfig(
    hub_id="Wan-AI/Wan2.2-I2V-A14B-Diffusers",
    pipeline_class="WanImageToVideoPipeline",
    pipeline={"expand_timesteps": False, "boundary_ratio": 0.9},
    transformer=_14B | {"in_channels": 36},
    two_experts=True,
    vae=_VAE_21,
    text_encoder=_TEXT_ENCODER,
    flow_shift=5.0,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=40, guidance_scale=3.5),
    trained_shapes=_both_ways((81, 832, 480), (81, 1280, 720)),
)
T2V_A14B = WanConfig(
    hub_id="Wan-AI/Wan2.2-T2V-A14B-Diffusers",
    pipeline_class="WanPipeline",
    pipeline={"expand_timesteps": False, "boundary_ratio": 0.875},
    transformer=_14B | {"in_channels": 16},
    two_experts=True,
    vae=_VAE_21,
    text_encoder=_TEXT_ENCODER,
    flow_shift=12.0,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=40, guidance_scale=4.0),
    trained_shapes=_both_ways((81, 832, 480), (81, 1280, 720)),
)
# Wan 2.1: one expert, and for image-to-video an image encoder (CLIP). 1.3B is narrower.
I2V_21 = replace(
    I2V_A14B,
    hub_id="Wan-AI/Wan2.1-I2V-14B-480P-Diffusers",
    pipeline={"expand_timesteps": False, "boundary_ratio": None},
    transformer={**_14B, "in_channels": 36, "image_dim": 1280, "added_kv_proj_dim": 5120},
    two_experts=False,
    flow_shift=3.0,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=50, guidance_scale=5.0),
)
T2V_21 = replace(
    I2V_21,
    hub_id="Wan-AI/Wan2.1-T2V-14B-Diffusers",
    pipeline_class="WanPipeline",
    transformer=_14B | {"in_channels": 16},
    trained_shapes=_both_ways((81, 832, 480), (81, 1280, 720)),
)
# VideoX-Fun's Control-Camera releases on these backbones, with the settings of its examples.
FUN_5B = replace(
    TI2V_5B,
    transformer=_5B | {"in_channels": 100},
    defaults=Defaults(num_frames=121, width=1280, height=704, num_inference_steps=50, guidance_scale=6.0),
    trained_shapes=(),
)
FUN_21_14B = replace(
    I2V_21,
    transformer={**I2V_21.transformer, "in_channels": 32},
    defaults=replace(I2V_21.defaults, guidance_scale=6.0),
    trained_shapes=(),
)
FUN_A14B = replace(
    I2V_A14B,
    defaults=Defaults(num_frames=81, width=832, height=480, num_inference_steps=50, guidance_scale=6.0),
    trained_shapes=(),
)
# DreamX-World-5B-Cam, with the settings of its own command.
DREAMX_5B = replace(
    TI2V_5B,
    defaults=Defaults(num_frames=121, width=1280, height=704, num_inference_steps=50, guidance_scale=3.0),
    trained_shapes=(),
)

# HY-WorldPlay-5B on TI2V-5B: the class of its transformer, the latent frames of a chunk, and the timesteps of its steps.
HY_WORLDPLAY = "HyWorldPlayTransformer3DModel"
HY_CHUNK = 4
HY_TIMESTEPS = (1000.0, 960.0, 888.8889, 727.2728)
HY_DEFAULTS = Defaults(num_frames=61, width=1280, height=704, num_inference_steps=4, guidance_scale=1.0)
