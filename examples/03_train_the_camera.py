"""Three optimizer steps on a model with a camera encoding, and the camera weights that they leave."""

from __future__ import annotations

from pathlib import Path

import torch
import tyro

import sightline as sl
from sightline.backbones.tiny import tiny_transformer


def main(output: Path = Path("outputs/training"), max_steps: int = 3) -> None:
    torch.manual_seed(0)
    base = tiny_transformer("ti2v-5b")
    model = sl.CameraWanTransformer3DModel.from_transformer(base, sl.Scope(gate_hidden=16)).train()
    new = sum(p.numel() for p in model.camera_parameters())
    print(f"{new} new parameters, added to {sum(p.numel() for p in base.parameters())}")

    # One clip: latents of 3 frames on 4 x 4 tokens, and the trajectory of its camera.
    clean, noise = torch.randn(2, 1, 48, 3, 8, 8)
    trajectory = sl.moves.truck(0.5, frames=9, width=128, height=128)
    tokens = sl.CameraTokens.from_trajectory(trajectory, grid=(3, 4, 4))
    text = torch.randn(1, 7, 32)

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(max_steps):
        sigma = torch.rand(())
        noisy = (1 - sigma) * clean + sigma * noise
        noisy[:, :, 0] = clean[:, :, 0]  # image-to-video: the first latent frame is known ...
        timestep = torch.full((1, 48), float(1000 * sigma))
        timestep[:, :16] = 0.0  # ... so its tokens are at time 0 ...
        predicted = model(noisy, timestep, text, attention_kwargs={"camera": tokens.augmented()}, return_dict=False)[0]
        loss = (predicted - (noise - clean))[:, :, 1:].square().mean()  # ... and it is left out of the loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step}: loss {loss.item():.3f}, alpha_q of layer 0 {model.encoding_layers[0].alpha_q.item():+.4f}")

    sl.save_camera(model, output / "camera.safetensors")
    loaded = sl.load_camera(base, output / "camera.safetensors")
    print(f"wrote {output / 'camera.safetensors'}; loaded back onto the base: {type(loaded).__name__}")


if __name__ == "__main__":
    tyro.cli(main)
