"""A fingerprint of a model's weights, to tell whether two models are the same."""

from __future__ import annotations

import hashlib

import torch

_VALUES_PER_TENSOR = 4096  # values of each tensor that enter the digest


def weights_digest(module: torch.nn.Module) -> str:
    """A hash of the names, the shapes and a sample of the values, which is quick even for a text encoder of 11 GB."""
    digest = hashlib.sha256()
    for name, tensor in sorted(module.state_dict().items()):
        flat = tensor.detach().flatten()
        step = max(len(flat) // _VALUES_PER_TENSOR, 1)
        digest.update(f"{name} {list(tensor.shape)}".encode())
        digest.update(flat[::step].float().cpu().numpy().tobytes())
    return digest.hexdigest()[:16]
