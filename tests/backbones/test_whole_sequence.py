"""The VAE over a whole clip: the stock one's results, from the stock one's weights."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from sightline.backbones import whole_sequence
from sightline.backbones.fast_vae import WholeClipEncoder
from sightline.backbones.tiny import tiny_vae
from sightline.lab.models import lab_vae


def disturbed(vae):
    """No weight at zero: a layer that starts as the identity would hide what it does."""
    torch.manual_seed(1)
    with torch.no_grad():
        for parameter in vae.parameters():
            parameter.add_(0.02 * torch.randn_like(parameter))
    return vae.eval()


@pytest.mark.parametrize("make", [lab_vae, lambda: tiny_vae("ti2v-5b"), lambda: tiny_vae("i2v-a14b")])
@pytest.mark.parametrize("frames", [1, 5, 13])
def test_equals_the_stock_chunks(make, frames):
    vae = whole_sequence.prepare(disturbed(make()))
    video = torch.rand(2, 3, frames, 32, 32) * 2 - 1
    with torch.no_grad():
        latents = vae.encode(video).latent_dist.mode()
        torch.testing.assert_close(whole_sequence.encode(vae, video), latents, atol=5e-6, rtol=1e-4)
        decoded = whole_sequence.decode(vae, latents).clamp(-1, 1)
        torch.testing.assert_close(decoded, vae.decode(latents).sample, atol=2e-5, rtol=1e-4)


@pytest.mark.parametrize("make", [lab_vae, lambda: tiny_vae("ti2v-5b"), lambda: tiny_vae("i2v-a14b")])
def test_a_copy_encodes_whole_clips_and_leaves_the_vae_alone(make):
    vae = disturbed(make())
    video = torch.rand(2, 3, 9, 32, 32) * 2 - 1
    with torch.no_grad():
        latents = vae.encode(video).latent_dist.mode()
    torch.testing.assert_close(WholeClipEncoder(vae, torch.float32)(video), latents, atol=5e-6, rtol=1e-4)
    fast = WholeClipEncoder(vae, torch.bfloat16)(video)
    assert fast.dtype == torch.float32
    assert 0 < (fast - latents).square().mean().sqrt() < 0.02 * latents.std()
    assert {parameter.dtype for parameter in vae.parameters()} == {torch.float32}
    with torch.no_grad():
        assert torch.equal(vae.encode(video).latent_dist.mode(), latents)


def test_convolutions_of_a_copy_in_bfloat16_get_channels_last():
    encode, others = WholeClipEncoder(disturbed(lab_vae()), torch.bfloat16), []  # layers whose input must be reordered

    def note(layer: nn.Module, inputs: tuple) -> None:
        layout = torch.channels_last_3d if inputs[0].ndim == 5 else torch.channels_last
        if not inputs[0].is_contiguous(memory_format=layout):
            others.append(layer)

    for layer in encode.encoder.modules():
        if isinstance(layer, (nn.Conv2d, nn.Conv3d)):
            layer.register_forward_pre_hook(note)
    encode(torch.rand(2, 3, 9, 32, 32) * 2 - 1)
    assert others == [encode.encoder.conv_in]  # the video itself, with few channels


def test_gradients_reach_every_weight():
    vae = whole_sequence.prepare(disturbed(lab_vae()))
    video = torch.rand(1, 3, 5, 32, 32) * 2 - 1
    whole_sequence.decode(vae, whole_sequence.encode(vae, video)).square().mean().backward()
    without = [name for name, p in vae.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # The second half of quant_conv makes the posterior's spread, which nothing here uses.
    assert without == []
