"""The configuration files of the released Wan2.2 pipelines on disk, without weights."""

from __future__ import annotations

import json
from pathlib import Path

from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B

_CONFIGS = {"TI2V-5B": TI2V_5B, "I2V-A14B": I2V_A14B}
WAN = {release: config.components() for release, config in _CONFIGS.items()}
_LIBRARIES = {
    "transformer": ["diffusers", "WanTransformer3DModel"],
    "transformer_2": ["diffusers", "WanTransformer3DModel"],
    "vae": ["diffusers", "AutoencoderKLWan"],
    "text_encoder": ["transformers", "UMT5EncoderModel"],
}


def write_configs(release: str, folder: Path) -> Path:
    """A folder in the hub's layout without any weights."""
    configs = WAN[release]
    index = {"_class_name": _CONFIGS[release].pipeline_class, **configs[""]}
    for name in configs:
        if name:
            index[name] = _LIBRARIES[name]
            (folder / name).mkdir(parents=True)
            (folder / name / "config.json").write_text(json.dumps(configs[name]))
    (folder / "model_index.json").write_text(json.dumps(index))
    return folder
