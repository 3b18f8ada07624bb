"""Every encoding on two processes (gloo, CPU) against one: FSDP2 gives the same gradients, context parallelism the same output."""

from __future__ import annotations

import pytest
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from tests.backbones.test_parallel import BATCH, backward, on_two_processes, share_of, two_clips, whole
from tests.conftest import model_inputs, wake
from tests.encodings.test_every_encoding import ROWS, retrofit

ABLATIONS_ALIKE = ("scope w/o flip", "scope w/o PE RMSNorm", "scope w/o log-scale augmentation", "scope w/o zero init")
CHOSEN = [row for row in ROWS if row not in ABLATIONS_ALIKE]  # those that run other code


def fsdp2(_, rank):
    found = {}
    for row in CHOSEN:
        model, policy = wake(retrofit(row)).train(), MixedPrecisionPolicy(cast_forward_inputs=False)
        for block in model.blocks:
            fully_shard(block.attn1.camera, mp_policy=policy)
            fully_shard(block, mp_policy=policy)
        fully_shard(model, mp_policy=policy)
        inputs, camera = share_of(model_inputs(model, batch=BATCH, per_token_time=True), two_clips(), rank)
        backward(model, inputs, camera)
        found |= {f"{row}: {name}": whole(parameter.grad) for name, parameter in model.named_parameters()}
        for layer in model.camera_layers:  # what validation reads, from whole weights
            found |= {f"{row}: {name}": torch.tensor(value) for name, value in layer("figures").items()}
    return found


@torch.no_grad()
def context_parallel(_, rank):
    from diffusers import ContextParallelConfig

    torch.accelerator.device_count = lambda: 2  # diffusers counts accelerators before it builds its mesh
    found = {}
    for row in CHOSEN:
        model = wake(retrofit(row)).eval()
        model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=2))
        inputs = model_inputs(model, batch=BATCH, per_token_time=True)
        found[row] = model(**inputs, attention_kwargs={"camera": two_clips()}, return_dict=False)[0]
    return found


def test_sharded_gradients_are_those_of_one_process(tmp_path):
    found = on_two_processes(fsdp2, tmp_path)
    for row in CHOSEN:
        model = wake(retrofit(row)).train()
        backward(model, model_inputs(model, batch=BATCH, per_token_time=True), two_clips())
        for name, parameter in model.named_parameters():
            torch.testing.assert_close(
                found[f"{row}: {name}"], parameter.grad, atol=1e-6, rtol=1e-3, msg=f"{row} {name}"
            )
    assert found["scope: alpha_q"].item() == pytest.approx(0.7)


@torch.no_grad()
def test_context_parallel_output_is_that_of_one_process(tmp_path):
    found = on_two_processes(context_parallel, tmp_path)
    for row in CHOSEN:
        model = wake(retrofit(row)).eval()
        inputs = model_inputs(model, batch=BATCH, per_token_time=True)
        expected = model(**inputs, attention_kwargs={"camera": two_clips()}, return_dict=False)[0]
        torch.testing.assert_close(found[row], expected, atol=1e-5, rtol=1e-4, msg=row)
