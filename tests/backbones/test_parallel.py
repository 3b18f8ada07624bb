"""Two processes (gloo, CPU) against one: DDP, FSDP2 and context parallelism change nothing but rounding."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import Scope
from tests.conftest import model_inputs, random_trajectory, wake
from tests.processes import start_two

BATCH = 2


def trained_model():
    torch.manual_seed(0)  # the same start in every process
    return wake(CameraWanTransformer3DModel.from_transformer(tiny_transformer(), Scope())).train()


def two_clips():
    return CameraTokens.batch([CameraTokens.from_trajectory(random_trajectory(9, seed), (3, 4, 4)) for seed in (1, 2)])


def share_of(inputs, camera, rank):
    mine = slice(rank, rank + 1)
    return {name: value[mine] for name, value in inputs.items()}, CameraTokens(camera.rows[mine], camera.grid)


def backward(model, inputs, camera):
    output = model(**inputs, attention_kwargs={"camera": camera}, return_dict=False)[0]
    output.square().mean().backward()
    return output.detach()


def whole(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def ddp(model, rank):
    model = DistributedDataParallel(model)
    inputs, camera = share_of(model_inputs(model.module, batch=BATCH, per_token_time=True), two_clips(), rank)
    backward(model, inputs, camera)
    return {name: parameter.grad for name, parameter in model.module.named_parameters()}


def fsdp2(model, rank):
    for block in model.blocks:
        # The rays' own unit stays float32 whatever the policy of the rest; no inputs are rounded on the way in.
        fully_shard(block.attn1.camera_encoding, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
        fully_shard(block, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    fully_shard(model, mp_policy=MixedPrecisionPolicy(cast_forward_inputs=False))
    inputs, camera = share_of(model_inputs(model, batch=BATCH, per_token_time=True), two_clips(), rank)
    backward(model, inputs, camera)
    return {name: whole(parameter.grad) for name, parameter in model.named_parameters()}


def fsdp2_bf16(model, rank):
    """bf16 compute over float32 master weights: what reaches the rays and the clock must still be float32."""
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, cast_forward_inputs=False)
    exact = MixedPrecisionPolicy(cast_forward_inputs=False)
    seen = {}
    layer = model.blocks[0].attn1.camera_encoding
    layer.register_forward_pre_hook(lambda _m, args: seen.update(camera=args[4].dtype))
    model.rope.register_forward_hook(lambda _m, _i, out: seen.update(rope=out[0].dtype))
    model.condition_embedder.timesteps_proj.register_forward_pre_hook(lambda _m, args: seen.update(time=args[0]))
    for block in model.blocks:
        fully_shard(block.attn1.camera_encoding, mp_policy=exact)
        fully_shard(block, mp_policy=policy)
    fully_shard(model, mp_policy=exact)
    inputs, camera = share_of(model_inputs(model, batch=BATCH), two_clips(), rank)
    with torch.autocast("cpu", torch.bfloat16):
        backward(model, inputs, camera)
    assert whole(layer.alpha_q).dtype == torch.float32 and whole(layer.alpha_q.grad).isfinite().all()
    return seen


@torch.no_grad()
def context_parallel(model, rank, guided=True):
    from diffusers import ContextParallelConfig

    model.eval()
    torch.accelerator.device_count = lambda: 2  # diffusers counts accelerators before it builds its mesh
    model.enable_parallelism(config=ContextParallelConfig(ulysses_degree=2))
    inputs = model_inputs(model, batch=BATCH, per_token_time=True)
    with_camera = model(**inputs, attention_kwargs={"camera": two_clips()}, return_dict=False)[0]
    outputs = {"with camera": with_camera, "without": model(**inputs, return_dict=False)[0]}
    if guided:
        camera = {"camera": two_clips(), "camera_guidance_scale": 2.0}
        outputs["guided"] = model(**inputs, attention_kwargs=camera, return_dict=False)[0]
    return outputs


def every_case(_, rank):  # each of a model of its own, all in one pair of processes, whose start takes longer
    return {case.__name__: case(trained_model(), rank) for case in (ddp, fsdp2, fsdp2_bf16, context_parallel)}


def worker(rank, port, case, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=2)
    result = case(trained_model(), rank)
    if rank == 0:
        torch.save(result, Path(folder) / "result.pt")
    dist.barrier()
    dist.destroy_process_group()


def on_two_processes(case, folder):
    start_two(worker, case, str(folder))
    return torch.load(Path(folder) / "result.pt", weights_only=True)


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    return on_two_processes(every_case, tmp_path_factory.mktemp("two"))


@pytest.mark.parametrize("case", ["ddp", "fsdp2"])
def test_gradients_of_two_processes_are_those_of_one_with_both_clips(case, results):
    model = trained_model()
    backward(model, model_inputs(model, batch=BATCH, per_token_time=True), two_clips())
    gradients = results[case]
    assert set(gradients) == {name for name, _ in model.named_parameters()}
    for name, parameter in model.named_parameters():
        torch.testing.assert_close(gradients[name], parameter.grad, atol=1e-6, rtol=1e-4, msg=name)


def test_mixed_precision_sharding_keeps_rays_timesteps_and_rope_in_float32(results):
    seen = results["fsdp2_bf16"]
    assert seen["camera"] == seen["rope"] == seen["time"].dtype == torch.float32
    assert seen["time"].item() == torch.tensor(897.23).item()  # not 896, which bf16 would make of it


@torch.no_grad()
def test_context_parallel_gives_the_same_output_with_and_without_a_camera(results):
    model = trained_model().eval()
    inputs = model_inputs(model, batch=BATCH, per_token_time=True)
    result = results["context_parallel"]
    expected = model(**inputs, attention_kwargs={"camera": two_clips()}, return_dict=False)[0]
    torch.testing.assert_close(result["with camera"], expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(result["without"], model(**inputs, return_dict=False)[0], atol=1e-5, rtol=1e-4)
    guided = model(**inputs, attention_kwargs={"camera": two_clips(), "camera_guidance_scale": 2.0}, return_dict=False)[
        0
    ]
    torch.testing.assert_close(result["guided"], guided, atol=1e-5, rtol=1e-4)
