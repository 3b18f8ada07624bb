"""The configuration of the released SANA-WM, for measurements with random weights."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sightline.cameras.token_grid import TokenStride


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
