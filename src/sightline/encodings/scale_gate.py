"""The scale gate that SCoPE and Sweep share: the parameters of g = sigmoid(G(s)), a two-layer MLP from log scale to channels."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from sightline.encodings.protocol import EncodingLayer
from sightline.kernels.scope_reference import GateWeights, scale_gate


class GatedLayer(EncodingLayer):
    """An encoding layer with a scale gate. `kernels.scope_reference.scale_gate` computes it from `gate_weights`."""

    gate_in: Tensor  # [hidden, 1]
    gate_in_bias: Tensor  # [hidden]
    gate_out: Tensor  # [dim, hidden]
    gate_out_bias: Tensor  # [dim]

    def add_gate(self, dim: int, hidden: int) -> None:
        self.add_parameter("gate_in", hidden, 1)
        self.add_parameter("gate_in_bias", hidden)
        self.add_parameter("gate_out", dim, hidden)
        self.add_parameter("gate_out_bias", dim)

    def init_gate(self) -> None:
        for weight in (self.gate_in, self.gate_out):
            nn.init.kaiming_uniform_(weight, a=math.sqrt(5))  # what nn.Linear does
        for bias in (self.gate_in_bias, self.gate_out_bias):
            bias.zero_()  # so that the gate is exactly 1/2 at s = 0

    @property
    def gate_weights(self) -> GateWeights:
        return GateWeights(self.gate_in, self.gate_in_bias, self.gate_out, self.gate_out_bias)

    @torch.no_grad()
    def gate_metrics(self) -> dict[str, float]:
        """The gate at |m| = 0.1, 1 and 10, in the mean over the channels."""
        metrics = {}
        for magnitude in (0.1, 1.0, 10.0):
            log_magnitude = torch.full((1, 1), math.log(magnitude), device=self.gate_in.device)
            metrics[f"gate_at_{magnitude:g}"] = scale_gate(log_magnitude, self.gate_weights).mean().item()
        return metrics
