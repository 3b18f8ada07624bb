"""Fused paths on two processes (gloo, CPU) against the eager path on one: sharding and splitting leave rounding only."""

from __future__ import annotations

import copy

import pytest
import torch

import sightline as sl
from sightline import kernels
from tests.backbones.test_parallel import (
    BATCH,
    backward,
    context_parallel,
    fsdp2,
    on_two_processes,
    trained_model,
    two_clips,
)
from tests.conftest import model_inputs

pytestmark = pytest.mark.skipif(not kernels.HAS_TRITON, reason="triton is not installed")


def sharded_and_split(model, rank):
    return {
        "gradients": fsdp2(sl.accelerate(copy.deepcopy(model)), rank),
        **context_parallel(sl.accelerate(model), rank, guided=False),
    }


def test_sharding_and_context_parallelism(tmp_path):
    result, model = on_two_processes(sharded_and_split, tmp_path), trained_model()
    inputs = model_inputs(model, batch=BATCH, per_token_time=True)
    expected = backward(model, inputs, two_clips())
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(result["gradients"][name], parameter.grad, atol=2e-6, rtol=1e-3, msg=name)
    torch.testing.assert_close(result["with camera"], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(result["without"], model(**inputs, return_dict=False)[0], atol=1e-5, rtol=1e-4)
