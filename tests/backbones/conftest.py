"""What tests of several files here need."""

from __future__ import annotations

import pytest
import torch


@pytest.fixture
def fresh_compiler(tmp_path, monkeypatch):
    """For a test that compiles. Models share the code of their blocks, of which torch compiles only a few variants: the test
    starts with none of them, and leaves none and no changed setting behind."""
    from torch._dynamo import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch.compiler.reset()
    with config.patch(recompile_limit=config.recompile_limit):
        yield
    torch.compiler.reset()
