"""Memory: the machine's or the container's, whichever is less, and videos that could never fit."""

from __future__ import annotations

from types import SimpleNamespace

import psutil
import pytest

from sightline import memory
from sightline.errors import SightlineError


def test_a_container_s_limit_counts(tmp_path, monkeypatch):
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=1000))
    monkeypatch.setattr(memory, "_CGROUP", tmp_path)
    assert memory.available_memory() == 1000
    for name, text in (
        ("memory.current", "700\n"),
        ("memory.stat", "anon 600\ninactive_file 50\n"),
        ("memory.max", "max\n"),
    ):
        (tmp_path / name).write_text(text)
    assert memory.available_memory() == 1000
    (tmp_path / "memory.max").write_text("900\n")
    assert memory.available_memory() == 250


def test_a_video_that_cannot_fit_is_refused(monkeypatch):
    monkeypatch.setattr(memory, "available_memory", lambda: 5 * 3 * 10 * 64 * 64)
    memory.require_video_memory(10, 64, 64)
    with pytest.raises(SightlineError, match=r"11 frames of 64x64 need 0\.0 GiB of memory for their pixels alone"):
        memory.require_video_memory(11, 64, 64)
