"""Where the kernels can run: on CUDA, or on a CPU in Triton's interpreter (which tests/conftest.py chooses)."""

from __future__ import annotations

import pytest
import torch

from sightline import kernels


@pytest.fixture
def device() -> torch.device:
    """A device on which the Triton kernels run."""
    if not kernels.HAS_TRITON:
        pytest.skip("triton is not installed")
    if torch.cuda.is_available():
        return torch.device("cuda")
    if not kernels.INTERPRETED:
        pytest.skip("no GPU, and Triton's interpreter is off (TRITON_INTERPRET=1)")
    return torch.device("cpu")
