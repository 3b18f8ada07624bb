"""Main memory: how much is free, and the refusal of what could never fit."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from sightline.errors import SightlineError

GIB = 2**30
_CGROUP = Path("/sys/fs/cgroup")


def available_memory() -> int:
    """Bytes that this process may still take: of the machine, or of its container where that has less."""
    import psutil  # comes with accelerate

    available = psutil.virtual_memory().available
    with suppress(OSError, ValueError):  # there is no limit, or no cgroup
        used = int((_CGROUP / "memory.current").read_text())
        cached = dict(line.split() for line in (_CGROUP / "memory.stat").read_text().splitlines()).get(
            "inactive_file", 0
        )
        limit = int((_CGROUP / "memory.max").read_text())
        available = min(available, max(limit - used + int(cached), 0))
    return available


def require_video_memory(num_frames: int, width: int, height: int) -> None:
    """Refuse a video whose pixels alone do not fit into memory, as bytes and as the floats they are computed from."""
    needed, available = num_frames * height * width * 3 * (1 + 4), available_memory()
    if needed > available:
        raise SightlineError(
            f"{num_frames} frames of {width}x{height} need {needed / GIB:.1f} GiB of memory for their pixels alone and "
            f"{available / GIB:.1f} are free: expected a smaller size or fewer frames."
        )
