"""What tests of several files here need."""

from __future__ import annotations

import pytest


@pytest.fixture
def compiler_settings(tmp_path, monkeypatch):
    """For a test that calls compile_blocks: afterwards, the settings of the process that it changes are as before."""
    from torch._dynamo import config

    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    with config.patch(recompile_limit=config.recompile_limit):
        yield
