"""The configuration files of the released Wan2.2 pipelines, as far as memory depends on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

_TEXT = {"d_model": 4096, "d_kv": 64, "d_ff": 10240, "num_layers": 24, "num_heads": 64, "vocab_size": 256384}
_TRANSFORMER = {"patch_size": [1, 2, 2], "attention_head_dim": 128, "text_dim": 4096, "freq_dim": 256}
_5B = _TRANSFORMER | {
    "num_attention_heads": 24, "num_layers": 30, "ffn_dim": 14336, "in_channels": 48, "out_channels": 48,
}  # fmt: skip
_14B = _TRANSFORMER | {
    "num_attention_heads": 40, "num_layers": 40, "ffn_dim": 13824, "in_channels": 36, "out_channels": 16,
}  # fmt: skip
_VAE_21 = {"z_dim": 16, "base_dim": 96, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2}
_VAE_22 = {
    "z_dim": 48, "base_dim": 160, "decoder_base_dim": 256, "dim_mult": [1, 2, 4, 4], "num_res_blocks": 2,
    "in_channels": 12, "out_channels": 12, "is_residual": True, "patch_size": 2, "scale_factor_spatial": 16,
    "scale_factor_temporal": 4, "latents_mean": [0.0] * 48, "latents_std": [1.0] * 48,
}  # fmt: skip

WAN: dict[str, dict[str, dict[str, Any]]] = {
    "TI2V-5B": {
        "": {"expand_timesteps": True, "boundary_ratio": None},
        "transformer": _5B,
        "vae": _VAE_22,
        "text_encoder": _TEXT,
    },
    "I2V-A14B": {
        "": {"expand_timesteps": False, "boundary_ratio": 0.9},
        "transformer": _14B,
        "transformer_2": _14B,
        "vae": _VAE_21,
        "text_encoder": _TEXT,
    },
}
_LIBRARIES = {
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": ["diffusers", "WanTransformer3DModel"],
    "vae": ["diffusers", "AutoencoderKLWan"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
}


def write_configs(release: str, folder: Path) -> Path:
    """A folder in the hub's layout without any weights."""
    configs = WAN[release]
    index = {"_class_name": "WanImageToVideoPipeline" if "A14B" in release else "WanPipeline", **configs[""]}
    for name in configs:
        if name:
            index[name] = _LIBRARIES[name]
            (folder / name).mkdir(parents=True)
            (folder / name / "config.json").write_text(json.dumps(configs[name]))
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder
