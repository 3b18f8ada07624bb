"""The VAE over a whole clip: the stock one's results, from the stock one's weights."""

from __future__ import annotations

import pytest
import torch

from sightline.backbones import whole_sequence
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


def test_gradients_reach_every_weight():
    vae = whole_sequence.prepare(disturbed(lab_vae()))
    video = torch.rand(1, 3, 5, 32, 32) * 2 - 1
    whole_sequence.decode(vae, whole_sequence.encode(vae, video)).square().mean().backward()
    without = [name for name, p in vae.named_parameters() if p.grad is None or not p.grad.abs().sum() > 0]
    # The second half of quant_conv makes the posterior's spread, which nothing here uses.
    assert without == []
