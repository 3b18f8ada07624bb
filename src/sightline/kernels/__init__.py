"""Fused operations, each with a plain-torch reference of the same name and signature.

    scope_reference.py        SCoPE's equation in plain torch, and its gradient
    sweep_reference.py        Sweep's
    reference.py              the other references: QKNorm and RoPE with a camera (`qk`), modulation, and their gradients
    ops.py                    the operations as torch custom ops, which compile, checkpoint and shard like torch's own
    qk_triton.py              the Triton kernel of `qk`: QKNorm, RoPE and the addition of SCoPE or Sweep
    camera_tokens_triton.py   what it needs beforehand: packed weights, and a table of the tokens' features
    qk_backward_triton.py     its gradient through QKNorm and RoPE
    camera_backward_triton.py its gradient of the weights of SCoPE or Sweep
    qk_common_triton.py       code that these share
    modulation_triton.py      kernels of `modulate` and `add_gated`: norms and residuals modulated by timestep
    quantize_triton.py        the kernel of `quantize_rows`: numbers in FP8 with a scale for each row
    tiles_triton.py           how all kernels divide their work into tiles and runs

The fused operations run only after `sightline.accelerate` or `sightline.set_speed` was called. The eager path is the pretrained
model bit for bit.
"""

from __future__ import annotations

import importlib.util
import os

import torch
from torch import Tensor

MAX_FEATURES = 64  # of Sweep; with more, the kernels need more shared memory than many GPUs have
DTYPES = (torch.bfloat16, torch.float16, torch.float32)
HAS_TRITON = importlib.util.find_spec("triton") is not None
# Whether Triton interprets its kernels in Python on a CPU, as in the tests.
INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"


def usable(x: Tensor) -> bool:
    """Whether the kernels can take this tensor. A compiler can trace this function."""
    return HAS_TRITON and (x.is_cuda or INTERPRETED) and x.dtype in DTYPES and not torch.version.hip


def why_not(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why the kernels cannot run on this device in this dtype, in a few words, or None if they can."""
    if not HAS_TRITON:
        return "triton is not installed"
    if torch.version.hip:
        return "torch is built for ROCm, and the kernels are for CUDA"
    if device.type != "cuda" and not INTERPRETED:
        return f"the model is on {device.type}, and the kernels are for CUDA"
    if dtype not in DTYPES:
        return f"the model computes in {dtype}, and the kernels in bfloat16, float16 or float32"
    return None


def why_no_fp8(device: torch.device) -> str | None:
    """Why matrix products cannot run in FP8 on this device, in a few words, or None if they can."""
    if device.type != "cuda" or torch.version.hip:
        return "FP8 needs an NVIDIA GPU"
    if torch.cuda.get_device_capability(device) < (9, 0):
        return "FP8 with a scale for each row needs a GPU of compute capability 9.0 or newer"
    return None
