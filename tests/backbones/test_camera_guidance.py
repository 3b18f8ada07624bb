"""Guidance on the camera: two passes in one batch, and nothing at all at 1."""

from __future__ import annotations

import pytest
import torch

from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import Scope
from sightline.errors import SightlineError
from tests.conftest import TOLERANCE, model_inputs, wake


@pytest.fixture(scope="module")
def model():
    return wake(CameraWanTransformer3DModel.from_transformer(tiny_transformer(), Scope()))


@torch.no_grad()
def predict(model, inputs, **camera):
    return model(**inputs, attention_kwargs=camera, return_dict=False)[0]


@pytest.mark.parametrize("batch", [1, 2])
def test_guidance_goes_w_times_the_way_from_blind_to_seen(model, tokens, batch):
    inputs = model_inputs(model, batch=batch, per_token_time=True)
    seen, blind = predict(model, inputs, camera=tokens), predict(model, inputs, camera=CameraTokens.absent(tokens.grid))
    assert not torch.allclose(seen, blind)
    for w in (0.0, 0.5, 2.5):
        guided = predict(model, inputs, camera=tokens, camera_guidance_scale=w)
        torch.testing.assert_close(guided, blind + w * (seen - blind), atol=TOLERANCE[torch.float32], rtol=1e-4)
    sample = model(**inputs, attention_kwargs={"camera": tokens, "camera_guidance_scale": 2.5}).sample
    assert torch.equal(sample, predict(model, inputs, camera=tokens, camera_guidance_scale=2.5))


def test_guidance_of_one_is_no_guidance_bit_for_bit_and_at_no_cost(model, tokens):
    inputs, calls = model_inputs(model), []
    hook = model.blocks[0].register_forward_pre_hook(lambda _, arguments: calls.append(len(arguments[0])))
    one = predict(model, inputs, camera=tokens, camera_guidance_scale=1.0)
    assert torch.equal(one, predict(model, inputs, camera=tokens))
    assert torch.equal(predict(model, inputs, camera_guidance_scale=3.0), predict(model, inputs))  # nothing to guide on
    hook.remove()
    assert calls == [1] * 4


def test_guided_calls_compile_whole(model, tokens, fresh_compiler):
    inputs = model_inputs(model)
    expected = predict(model, inputs, camera=tokens, camera_guidance_scale=2.0)
    copied = CameraWanTransformer3DModel.from_config(model.config)
    copied.load_state_dict(model.state_dict())
    copied.compile_repeated_blocks(fullgraph=True, backend="eager")
    torch.testing.assert_close(predict(copied, inputs, camera=tokens, camera_guidance_scale=2.0), expected)


def test_a_misspelt_guidance_is_refused(model, tokens):
    with pytest.raises(SightlineError, match="attention_kwargs has 'camera_cfg'"):
        predict(model, model_inputs(model), camera=tokens, camera_cfg=2.0)
