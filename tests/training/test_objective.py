"""Flow matching against its definition, and per-clip randomness."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import pytest
import torch

from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.tokens import CameraTokens
from sightline.data.latents import LatentBatch
from sightline.encodings import Scope
from sightline.training.objective import draw, flow_matching_loss, sigma_of
from sightline.training.recipe import ObjectiveConfig, Recipe
from tests.conftest import random_trajectory, wake


def batch_of(numbers, condition=None, channels=48):
    latents = torch.stack(
        [torch.randn(channels, 3, 8, 8, generator=torch.Generator().manual_seed(n % 1000)) for n in numbers]
    )
    text = torch.stack([torch.randn(7, 32, generator=torch.Generator().manual_seed(n % 1000 + 1)) for n in numbers])
    cameras = [CameraTokens.from_trajectory(random_trajectory(9, seed=n % 1000), (3, 4, 4)) for n in numbers]
    return LatentBatch(latents, text, CameraTokens.batch(cameras), condition, list(numbers), torch.zeros(7, 32))


class Oracle:
    """A model that remembers what it was asked and answers zeros."""

    config: ClassVar = {"patch_size": (1, 2, 2)}

    def __init__(self, channels=48):
        self.channels = channels

    def __call__(self, hidden_states, timestep, encoder_hidden_states, return_dict, attention_kwargs=None):
        self.hidden, self.timestep, self.text = hidden_states, timestep, encoder_hidden_states
        self.kwargs = attention_kwargs
        return (torch.zeros_like(hidden_states[:, : self.channels]),)


def test_the_first_frame_is_pasted_at_time_0_and_out_of_the_loss():
    batch, oracle = batch_of([3, 4]), Oracle()
    drawn = draw(batch, ObjectiveConfig(image_to_video_prob=1.0), seed=0)
    loss = flow_matching_loss(oracle, batch, drawn)
    sigma = drawn.sigma[:, None, None, None]
    assert torch.equal(oracle.hidden[:, :, 0], batch.latents[:, :, 0])
    torch.testing.assert_close(
        oracle.hidden[:, :, 2], (1 - sigma) * batch.latents[:, :, 2] + sigma * drawn.noise[:, :, 2]
    )
    assert oracle.timestep.shape == (2, 48)
    assert torch.equal(oracle.timestep[:, :16], torch.zeros(2, 16))
    torch.testing.assert_close(oracle.timestep[:, 16:], (1000 * drawn.sigma)[:, None].expand(2, 32))
    expected = (drawn.noise - batch.latents)[:, :, 1:].square().mean(dim=(1, 2, 3, 4))
    torch.testing.assert_close(loss, expected)


def test_text_to_video_predicts_every_frame_at_one_time():
    batch, oracle = batch_of([3]), Oracle()
    drawn = draw(batch, ObjectiveConfig(image_to_video_prob=0.0), seed=0)
    loss = flow_matching_loss(oracle, batch, drawn)
    assert oracle.timestep.shape == (1,)
    torch.testing.assert_close(loss, (drawn.noise - batch.latents).square().mean(dim=(1, 2, 3, 4)))


def test_a_batch_may_mix_both():
    batch, oracle = batch_of(range(64)), Oracle()
    drawn = draw(batch, ObjectiveConfig(image_to_video_prob=0.5), seed=0)
    given = drawn.first_frame_given
    assert 16 < given.sum() < 48
    flow_matching_loss(oracle, batch, drawn)
    assert torch.equal(oracle.timestep[:, 0] == 0, given)


def test_image_conditions_ride_beside_the_noise():
    condition = torch.randn(1, 20, 3, 8, 8)
    batch, oracle = batch_of([5], condition=condition, channels=16), Oracle(channels=16)
    oracle_loss = flow_matching_loss(oracle, batch, draw(batch, ObjectiveConfig(), 0))
    assert oracle.hidden.shape[1] == 36 and torch.equal(oracle.hidden[:, 16:], condition)
    assert oracle.timestep.shape == (1,) and oracle_loss.shape == (1,)


def test_a_clip_s_randomness_is_its_own():
    objective = ObjectiveConfig(camera_dropout=0.3)
    together, alone = draw(batch_of([7, 8, 9]), objective, seed=1), draw(batch_of([8]), objective, seed=1)
    for field in dataclasses.fields(together):
        assert torch.equal(getattr(together, field.name)[1:2], getattr(alone, field.name)), field.name
    assert not torch.equal(draw(batch_of([8]), objective, seed=2).noise, alone.noise)
    assert not torch.equal(together.noise[0], together.noise[1])


def test_chance_keeps_the_stated_shares():
    objective = ObjectiveConfig(image_to_video_prob=0.8, text_dropout=0.1, camera_dropout=0.2)
    batch = LatentBatch(
        torch.zeros(4000, 1, 1, 1, 1), torch.zeros(4000, 1, 1), clip_indices=range(4000), empty_text=torch.zeros(1, 1)
    )
    drawn = draw(batch, objective, seed=0)
    for dropped, fraction in (
        (drawn.first_frame_given, 0.8),
        (drawn.text_dropped, 0.1),
        (drawn.camera_dropped, 0.2),
        (drawn.log_scale != 0, 0.3),
    ):
        assert abs(dropped.float().mean().item() - fraction) < 0.03
    moved = drawn.log_scale[drawn.log_scale != 0]
    assert moved.min() >= -1.2 and moved.max() <= 1.6
    assert abs(drawn.noise.std().item() - 1) < 0.05


@pytest.mark.parametrize("timesteps, median", [("uniform", 0.5), ("shifted_uniform", 5 / 6), ("logit_normal", 5 / 6)])
def test_timestep_distributions(timesteps, median):
    u = torch.linspace(0, 1, 1001)
    sigma = sigma_of(u, ObjectiveConfig(timestep_sampling=timesteps, shift=5.0))
    assert (sigma.diff() >= 0).all() and sigma.min() >= 0 and sigma.max() <= 1
    torch.testing.assert_close(sigma[500].item(), median, atol=1e-4, rtol=0)
    expert = sigma_of(u, ObjectiveConfig(timestep_sampling=timesteps, sigma_min=0.9))
    assert expert.min() >= 0.9


@pytest.mark.parametrize("timesteps", ["uniform", "shifted_uniform", "logit_normal"])
@pytest.mark.parametrize("low, high", [(0.9, 1.0), (0.0, 0.9), (0.4, 0.7)])
def test_an_expert_sees_its_part_of_the_whole_schedule(timesteps, low, high):
    u = (torch.arange(200_000, dtype=torch.float64) + 0.5) / 200_000
    whole = sigma_of(u, ObjectiveConfig(timestep_sampling=timesteps))
    expected = whole[(whole >= low) & (whole < high)]
    expert = sigma_of(u, ObjectiveConfig(timestep_sampling=timesteps, sigma_min=low, sigma_max=high))
    at = torch.tensor([0.05, 0.25, 0.5, 0.75, 0.95], dtype=torch.float64)
    torch.testing.assert_close(expert.quantile(at), expected.quantile(at), atol=1e-4, rtol=0)


@pytest.mark.parametrize("recipe, median", [("paper-14b-high", 0.958), ("paper-14b-low", 0.703)])
def test_the_medians_of_the_two_experts(recipe, median):
    objective = Recipe.from_yaml(recipe).objective
    assert sigma_of(torch.tensor([0.5]), objective).item() == pytest.approx(median, abs=5e-4)


def test_dropped_words_and_cameras_are_dropped_and_the_scale_reaches_the_gate_alone():
    batch, oracle = batch_of([1, 2]), Oracle()
    drawn = draw(batch, ObjectiveConfig(), seed=0)
    yes_no = torch.tensor([True, False])
    drawn = dataclasses.replace(drawn, text_dropped=yes_no, camera_dropped=yes_no, log_scale=torch.tensor([0.5, 0.7]))
    flow_matching_loss(oracle, batch, drawn)
    assert torch.equal(oracle.text[0], batch.empty_text) and torch.equal(oracle.text[1], batch.text[1])
    camera = oracle.kwargs["camera"]
    assert not camera.rows[0].any()
    assert torch.equal(camera.rows[1, :, :22], batch.camera_tokens.rows[1, :, :22])
    assert (camera.log_scale_offset[1] == torch.tensor(0.7)).all()


def test_the_loss_is_float32_and_reaches_every_camera_parameter():
    model = wake(CameraWanTransformer3DModel.from_transformer(tiny_transformer(), Scope()))
    batch = batch_of([1, 2])
    with torch.autocast("cpu", torch.bfloat16):
        loss = flow_matching_loss(model, batch, draw(batch, ObjectiveConfig(), 0))
    assert loss.dtype == torch.float32 and loss.shape == (2,)
    loss.mean().backward()
    assert all(p.grad.abs().sum() > 0 for layer in model.encoding_layers for p in layer.parameters())
