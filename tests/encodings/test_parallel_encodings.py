"""Encodings on two processes (gloo, CPU) against one: FSDP2 gives the same gradients, context parallelism the same output."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tests.backbones.test_parallel import BATCH, backward, on_two_processes, share_of, two_clips, whole
from tests.conftest import model_inputs, wake
from tests.encodings.test_every_encoding import retrofit

# One of each way to touch a layer; test_every_encoding holds all the others to the same stages.
CHOSEN = [
    "scope w/o B and C",
    "scope with V transform",
    "cameractrl",
    "cameractrl in blocks",
    "recammaster",
    "prope",
    "gta",
    "ucpe",
    "rerope",
    "freqsplit plucker",
]


def both(_, rank):
    return fsdp2(rank) | context_parallel(rank)


def fsdp2(rank):
    results = {}
    for row in CHOSEN:
        model, policy = wake(retrofit(row)).train(), MixedPrecisionPolicy(cast_forward_inputs=False)
        for block in model.blocks:
            fully_shard(block.attn1.camera_encoding, mp_policy=policy)
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        inputs, camera = share_of(model_inputs(model, batch=BATCH, per_token_time=True), two_clips(), rank)
        backward(model, inputs, camera)
        results |= {f"{row}: {name}": whole(parameter.grad) for name, parameter in model.named_parameters()}
        for layer in model.encoding_layers:  # what validation reads, from whole weights
            results |= {f"{row}: {name}": torch.tensor(value) for name, value in layer("metrics").items()}
    return results


@torch.no_grad()
def context_parallel(rank):
    from diffusers import ContextParallelConfig

    torch.accelerator.device_count = lambda: 2  # diffusers counts accelerators before it builds its mesh
    results = {}
    for row in CHOSEN:
        model = wake(retrofit(row)).eval()
        model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=2))
        inputs = model_inputs(model, batch=BATCH, per_token_time=True)
        results[row] = model(**inputs, attention_kwargs={"camera": two_clips()}, return_dict=False)[0]
    return results


def test_two_processes_agree_with_one(tmp_path):
    results = on_two_processes(both, tmp_path)  # one pair of processes for all: starting them is what takes time
    assert results["scope w/o B and C: alpha_q"].item() == pytest.approx(0.7)
    for row in CHOSEN:
        model = wake(retrofit(row)).train()
        output = backward(model, model_inputs(model, batch=BATCH, per_token_time=True), two_clips())
        torch.testing.assert_close(results[row], output, atol=1e-5, rtol=1e-4, msg=row)
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                results[f"{row}: {name}"], parameter.grad, atol=1e-6, rtol=1e-3, msg=f"{row} {name}"
            )
