"""Shared pieces: one tolerance table, random cameras, tiny models and their inputs."""

from __future__ import annotations

import itertools
import math
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, settings

if not torch.cuda.is_available():
    os.environ.setdefault("TRITON_INTERPRET", "1")  # read when Triton is imported: kernels then run on a CPU

from sightline.cameras import lens, se3
from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory

settings.register_profile(  # without a deadline and without the check of speed: no test depends on how busy the machine is
    "sightline", deadline=None, max_examples=50, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("sightline")

torch.set_num_threads(1)  # the suite runs on as many processes as there are cores

LONGEST = ("test_camera_helps.py", "test_trainer.py", "test_accelerate_parallel.py")

TOLERANCE = {torch.float64: 1e-10, torch.float32: 1e-5, torch.bfloat16: 2e-2}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest first, so that no process is left alone with them at the end."""
    items.sort(key=lambda item: item.path.name not in LONGEST)


def count_calls(work: Callable[[], object]) -> int:
    """The calls and returns of functions while work() runs in this thread."""
    events = itertools.count()
    sys.setprofile(lambda *_: next(events))
    try:
        work()
    finally:
        sys.setprofile(None)
    return next(events)


def kill_after_calls(number: int) -> None:
    """kill -9 this process after so many calls and returns: a moment that does not depend on the speed of the machine."""
    events = itertools.count()

    def count(*_: object) -> None:
        if next(events) >= number:
            os.kill(os.getpid(), signal.SIGKILL)

    sys.setprofile(count)


def random_poses(frames: int, seed: int = 0, scale: float = 1.0) -> torch.Tensor:
    """[T, 4, 4] poses with every rotation in SO(3) possible."""
    generator = torch.Generator().manual_seed(seed)
    rotation = se3.quaternion_to_rotation(torch.randn(frames, 4, generator=generator, dtype=torch.float64))
    return se3.from_parts(rotation, scale * torch.randn(frames, 3, generator=generator, dtype=torch.float64))


def random_trajectory(frames: int = 9, seed: int = 0, width: int = 64, height: int = 64, **fields: Any) -> Trajectory:
    """A path with arbitrary poses and a lens that changes from frame to frame."""
    generator = torch.Generator().manual_seed(seed + 1)
    focal = width * (0.6 + torch.rand(frames, 2, generator=generator, dtype=torch.float64))
    centre = torch.tensor([width, height]) * (
        0.4 + 0.2 * torch.rand(frames, 2, generator=generator, dtype=torch.float64)
    )
    intrinsics = lens.intrinsics_matrix(focal[:, 0], focal[:, 1], centre[:, 0], centre[:, 1])
    return Trajectory(random_poses(frames, seed), intrinsics, width, height, **fields)


def smooth_trajectory(frames: int = 9, width: int = 64, height: int = 64) -> Trajectory:
    """A gentle truck with a turn, as a camera would move."""
    at = torch.linspace(0, 1, frames, dtype=torch.float64)
    rotation = se3.axis_rotation("y", at * math.radians(20))
    poses = se3.from_parts(rotation, torch.stack([at, 0.1 * at, 0.3 * at], dim=-1))
    return Trajectory(poses, lens.intrinsics_from_fov(60, width, height), width, height)


def model_inputs(model: Any, seed: int = 0, batch: int = 1, per_token_time: bool = False) -> dict[str, torch.Tensor]:
    """Latents of 3 frames on a 4 x 4 token grid, a timestep (one per token for TI2V-5B) and a short prompt."""
    generator = torch.Generator().manual_seed(seed)
    dtype = model.patch_embedding.weight.dtype
    timestep = torch.full((batch,), 897.23)
    if per_token_time:
        timestep = torch.full((batch, 48), 897.23)
        timestep[:, :16] = 0.0
    return {
        "hidden_states": torch.randn(batch, model.config.in_channels, 3, 8, 8, generator=generator).to(dtype),
        "timestep": timestep,
        "encoder_hidden_states": torch.randn(batch, 7, model.config.text_dim, generator=generator).to(dtype),
    }


def check_gradient_checkpointing(model: Any, inputs: dict[str, Any], tokens: CameraTokens) -> None:
    """Gradient checkpointing gives a transformer with a camera the same gradients, and no layer's alpha has one of zero."""
    gradients: list[dict[str, torch.Tensor]] = []
    for checkpointing in (False, True):
        if checkpointing:
            model.enable_gradient_checkpointing()
        model.zero_grad()
        model(**inputs, attention_kwargs={"camera": tokens}, return_dict=False)[0].square().mean().backward()
        assert all(layer.alpha_q.grad.abs() > 0 for layer in model.encoding_layers)
        trained = {name: value.grad for name, value in model.named_parameters() if value.grad is not None}
        gradients.append({name: gradient.clone() for name, gradient in trained.items()})
    assert gradients[0].keys() == gradients[1].keys()
    for name, gradient in gradients[0].items():
        if "alpha_q" in name:
            assert torch.equal(gradients[1][name], gradient), name
        torch.testing.assert_close(gradients[1][name], gradient, atol=1e-6, rtol=1e-5, msg=name)


def wake(model: Any, alpha: float = 0.7, seed: int = 3) -> Any:
    """Give every camera layer weights as after training, so that the camera matters."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for layer in model.encoding_layers:
            for name, parameter in layer.named_parameters():
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator).to(parameter)
                if name.startswith("alpha"):
                    parameter.fill_(alpha)
    return model


@pytest.fixture
def tokens() -> CameraTokens:
    return CameraTokens.from_trajectory(smooth_trajectory(), (3, 4, 4))
