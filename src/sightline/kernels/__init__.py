"""Fused operations, each beside a plain-torch twin of the same name and signature.

    reference.py              the twins: what each operation means, its gradient, and what runs where there is no Triton
    ops.py                    the operations as torch custom ops, which compile, checkpoint and shard like torch's own
    qk_triton.py              the Triton kernel of `qk`: QKNorm, RoPE and SCoPE's addition
    qk_backward_triton.py     its gradient through QKNorm and RoPE
    scope_backward_triton.py  and that of SCoPE's parameters
    qk_common_triton.py       what these share
    modulation_triton.py      those of `modulate` and `add_gated`: norms and residuals by a table of few timesteps
    tiles_triton.py           how all of them cut their work

Nothing here is used unless `sightline.accelerate` is called: the eager path is the pretrained model bit for bit.
"""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

DTYPES = (torch.bfloat16, torch.float16, torch.float32)
HAS_TRITON = importlib.util.find_spec("triton") is not None
# Whether Triton runs its kernels in Python on a CPU, as the tests do.
INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"


def usable(x: Tensor) -> bool:
    """Whether the kernels can take this tensor. Plain enough for a compiler to look through."""
    return HAS_TRITON and (x.is_cuda or INTERPRETED) and x.dtype in DTYPES and not torch.version.hip


def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the kernels cannot run there, in a few words, or None when they can."""
    if not HAS_TRITON:
        return "triton is not installed"
    if torch.version.hip:
        return "torch is built for ROCm, and the kernels are for CUDA"
    if device.type != "cuda" and not INTERPRETED:
        return f"the model is on {device.type}, and the kernels are for CUDA"
    if dtype not in DTYPES:
        return f"the model computes in {dtype}, and the kernels in bfloat16, float16 or float32"
    return None
