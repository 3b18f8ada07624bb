"""Muon for the matrices of the blocks and AdamW for everything else, as one optimizer.

Muon (https://kellerjordan.github.io/posts/muon) makes the momentum of a matrix orthogonal, so that every direction in it is
learned at the same speed. torch.optim.Muon computes the same, one matrix after the other; here matrices of one shape are
computed together, because a small model has many small ones.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_COEFFICIENTS, _ITERATIONS = (3.4445, -4.7750, 2.0315), 5  # of the Newton-Schulz iteration, as in torch.optim.Muon
_MOMENTUM = 0.95
# The root mean square of an update is then that of AdamW's updates, so one learning rate and weight decay fit both
# (https://arxiv.org/abs/2502.16982).
_ADAMW_RMS = 0.2


class MuonAdamW(torch.optim.AdamW):
    """AdamW, except that parameters in groups with `"muon": True`, all of them matrices, take Muon's steps."""

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> Any:
        for group in self.param_groups:
            if group["muon"]:
                by_shape = defaultdict(list)
                for parameter in group["params"]:
                    if parameter.grad is not None:
                        by_shape[parameter.shape].append(parameter)
                for parameters in by_shape.values():
                    self._muon_step(parameters, group["lr"], group["weight_decay"])
        return super().step(closure)  # skips the parameters that have no gradient any more

    def _muon_step(self, parameters: list[Tensor], learning_rate: float, weight_decay: float) -> None:
        """One step of matrices of one shape. Uses up their gradients."""
        for parameter in parameters:
            if "momentum_buffer" not in self.state[parameter]:
                self.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        buffers = [self.state[parameter]["momentum_buffer"] for parameter in parameters]
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(buffers, gradients, 1 - _MOMENTUM)
        updates = torch.stack(torch._foreach_lerp(gradients, buffers, _MOMENTUM))  # Nesterov's; [n, rows, columns]
        scale = _ADAMW_RMS * math.sqrt(max(updates.shape[1:]))
        torch._foreach_mul_(parameters, 1 - learning_rate * weight_decay)
        torch._foreach_add_(parameters, orthogonalize(updates).unbind(), alpha=-learning_rate * scale)
        for parameter in parameters:
            parameter.grad = None


def orthogonalize(matrices: Tensor) -> Tensor:  # [n, rows, columns] -> the same
    """Matrices with the same singular vectors and singular values near 1, computed in bfloat16."""
    a, b, c = _COEFFICIENTS
    x = matrices.bfloat16()
    is_tall = x.shape[1] > x.shape[2]
    x = x.mT if is_tall else x
    x = x / x.norm(dim=(1, 2), keepdim=True).clamp_min(1e-7)
    for _ in range(_ITERATIONS):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return (x.mT if is_tall else x).to(matrices.dtype)
