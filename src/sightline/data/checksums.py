"""Checksums of cached clips. A flipped byte in a shard would otherwise be trained on without a word."""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from sightline.errors import SightlineError
from sightline.files import reason


def clip_checksum(entry: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> str:
    """CRC-32 of a clip: of its entry in the shard's header, but for the checksum itself, and of its tensors by name."""
    known = {name: value for name, value in entry.items() if name != "checksum"}
    checksum = zlib.crc32(json.dumps(known, sort_keys=True).encode())
    for name in sorted(tensors):
        values = tensors[name].contiguous()
        checksum = zlib.crc32(f"{name} {values.dtype} {list(values.shape)}".encode(), checksum)
        checksum = zlib.crc32(values.flatten().view(torch.uint8).numpy(), checksum)  # type: ignore[arg-type]  # an array is a buffer
    return f"{checksum:08x}"


def require_checksum(path: Path, entry: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Refuse a clip that is not what was written. Cheap beside reading it."""
    if clip_checksum(entry, tensors) != entry.get("checksum"):
        raise SightlineError(
            f"{path}: the clip {entry.get('name')} is damaged (its checksum differs): expected what `sightline data cache` "
            "wrote; the same command repairs the cache."
        )


def verify_shard(path: Path, entries: list[Any]) -> None:
    """Read all clips of a shard and refuse it if one of them is damaged. entries: of the shard's header."""
    try:
        with safe_open(path, framework="pt") as shard:
            names = list(shard.keys())
            for position, entry in enumerate(entries):
                prefix = f"{position:05d}."
                own = {name.removeprefix(prefix): shard.get_tensor(name) for name in names if name.startswith(prefix)}
                require_checksum(path, entry, own)
    except (OSError, SafetensorError) as error:
        raise SightlineError(f"{path}: cannot be read ({reason(error)}), expected a shard of a cache.") from None
