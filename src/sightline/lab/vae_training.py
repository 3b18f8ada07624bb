"""Trains the video autoencoder of the lab model on procedural worlds.

    sightline lab vae --seconds 400

Clips have their full length, because a VAE trained on short clips drifts in colour on long ones, and each is processed at once
(see whole_sequence). The convolution kernels are trained with Muon, which reaches in two minutes what AdamW does not reach in
ten. The learning rate decays linearly.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from diffusers import AutoencoderKLWan
from rich.console import Console
from rich.progress import Progress
from torch import Tensor, nn

from sightline.backbones import whole_sequence
from sightline.data.encode import frames_to_video
from sightline.errors import SightlineError
from sightline.files import atomic_folder, write_atomic
from sightline.lab.models import HELD_OUT_SEED, NUM_FRAMES, SIZE, lab_vae
from sightline.worlds import STYLES, WorldBatch, sample_batch
from sightline.worlds.batches import BATCH, map_in_processes, render_batches

KERNEL_LR, OTHER_LR = 0.02, 2e-3
LATENT_NOISE = 0.05  # added to latents, since those of a diffusion model keep a little noise
WARMUP_STEPS = 100


def train_vae(
    output: Path,
    *,
    seconds: float = 400.0,
    clips: int = 8_000,
    batch_size: int = 8,
    held_out: int = 64,
    num_frames: int = NUM_FRAMES,
    size: int = SIZE,
    seed: int = 0,
    device: str | torch.device | None = None,
) -> dict[str, Any]:
    """Train for this time, write the VAE with the statistics of its latents in diffusers' layout, and return measurements."""
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if not hasattr(torch.optim, "Muon"):
        raise SightlineError(
            f"torch is {torch.__version__}, which has no Muon: expected 2.9 or newer to train the VAE."
        )
    torch.manual_seed(seed)
    console = Console(stderr=True, highlight=False)
    per_style = max(clips // len(STYLES), 1)
    console.print(f"rendering {per_style} clips in each of {len(STYLES)} styles")
    began = time.perf_counter()
    pool = render_pool(range(per_style), num_frames, size, device)
    rendering_seconds = time.perf_counter() - began

    vae = whole_sequence.prepare(lab_vae(seed)).to(device).train()
    for parameter in vae.parameters():
        if parameter.ndim == 5:  # the memory format that tensor cores read
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last_3d)
    optimizers, matrices = make_optimizers(vae)
    loss_function = torch.compile(reconstruction_loss) if device.type == "cuda" else reconstruction_loss
    curve, step, generator = [], 0, torch.Generator(device).manual_seed(seed)
    began = time.perf_counter()
    with Progress(console=console) as progress:
        task = progress.add_task("training the VAE", total=seconds)
        while (spent := time.perf_counter() - began) < seconds or step == 0:
            lr_scale = min((step + 1) / WARMUP_STEPS, max(1 - spent / seconds, 0.0))
            video = sample_clips(pool, batch_size, generator)
            with autocast(device):
                loss, error = loss_function(vae, video)
            loss.backward()
            optimizer_step(optimizers, matrices, lr_scale)
            step += 1
            if step % 50 == 0:
                psnr = -10 * torch.log10(error.detach() / 4).item()  # the range of -1..1 is 2
                curve.append({"step": step, "seconds": round(spent, 1), "loss": loss.item(), "train_psnr": psnr})
                if not torch.isfinite(loss):
                    raise SightlineError(f"the VAE's loss is {loss.item()} at step {step}: expected a number.")
                progress.update(task, completed=spent, description=f"training the VAE, {psnr:.2f} dB")
    vae.eval()
    set_statistics(vae, pool)
    del pool
    measured = measure_vae(vae.to(torch.bfloat16), held_out, num_frames, size, device)  # in the dtype that ships
    measured |= {
        "steps": step,
        "batch_size": batch_size,
        "clips": per_style * len(STYLES),
        "seconds": seconds,
        "curve": curve,
    }
    measured |= {"rendering_seconds": round(rendering_seconds, 1), "device": device_name(device)}
    with atomic_folder(output, overwrite=True) as folder:
        for parameter in vae.parameters():
            parameter.data = parameter.data.contiguous()
        vae.save_pretrained(folder)
        write_atomic(folder / "measured.json", json.dumps(measured, indent=1))
    console.print(f"held out: {measured['psnr']:.2f} dB over {measured['held_out_clips']} clips; wrote {output}")
    return measured


def render_pool(seeds: range, num_frames: int, size: int, device: torch.device) -> Tensor:  # -> [4 N, T, H, W, 3] uint8
    """Clips of these seeds in all four styles, rendered on the device, one style after the other."""
    each = BATCH // len(STYLES)
    groups = [seeds[start : start + each] for start in range(0, len(seeds), each)]
    parts = [
        render_batches(batches, device)
        for batches in map_in_processes(partial(sample_styles, num_frames, size), groups)
    ]
    # [styles, N, T, H, W, 3]: each part holds its seeds style by style
    return torch.cat([part.unflatten(0, (len(STYLES), -1)) for part in parts], dim=1).flatten(0, 1)


def sample_styles(num_frames: int, size: int, seeds: range) -> list[WorldBatch]:
    """The scenes of these seeds, one batch per style."""
    return [sample_batch(style, seeds, num_frames, size, size) for style in STYLES]


def sample_clips(pool: Tensor, batch_size: int, generator: torch.Generator) -> Tensor:  # -> [B, 3, T, H, W] in -1..1
    """Random clips of the pool; each is mirrored, and reversed in time, with probability 1/2."""
    chosen = torch.randint(len(pool), (batch_size,), generator=generator, device=pool.device)
    video = frames_to_video(pool[chosen])
    mirror, backwards = torch.rand(2, batch_size, generator=generator, device=pool.device) < 0.5
    video = torch.where(mirror[:, None, None, None, None], video.flip(4), video)
    return torch.where(backwards[:, None, None, None, None], video.flip(2), video)


def reconstruction_loss(vae: AutoencoderKLWan, video: Tensor) -> tuple[Tensor, Tensor]:
    """The loss, and its mean squared error."""
    latents = whole_sequence.encode(vae, video)
    noisy = latents + LATENT_NOISE * torch.randn_like(latents)
    difference = whole_sequence.decode(vae, noisy).float() - video
    squared = difference.square().mean()
    return 0.5 * difference.abs().mean() + 2.0 * squared + 1e-4 * latents.float().square().mean(), squared


def make_optimizers(vae: nn.Module) -> tuple[list[torch.optim.Optimizer], list[tuple[nn.Parameter, nn.Parameter]]]:
    """Muon for the convolution kernels and Adam for the other parameters. Muon takes only matrices, so that each kernel is
    paired with a matrix that mirrors it."""
    kernels = [p for p in vae.parameters() if p.ndim >= 4]
    others = [p for p in vae.parameters() if p.ndim < 4]
    matrices = [(kernel, nn.Parameter(kernel.detach().clone().flatten(1))) for kernel in kernels]
    muon = torch.optim.Muon([matrix for _, matrix in matrices], lr=KERNEL_LR, weight_decay=0.0, momentum=0.95)
    adam = torch.optim.Adam(others, lr=OTHER_LR, betas=(0.9, 0.99))
    return [muon, adam], matrices


@torch.no_grad()
def optimizer_step(
    optimizers: list[torch.optim.Optimizer], matrices: list[tuple[nn.Parameter, nn.Parameter]], lr_scale: float
) -> None:
    """One step at this fraction of the full learning rates."""
    for kernel, matrix in matrices:
        assert kernel.grad is not None
        matrix.grad = kernel.grad.flatten(1)
    for optimizer, learning_rate in zip(optimizers, (KERNEL_LR, OTHER_LR), strict=True):
        for group in optimizer.param_groups:
            group["lr"] = learning_rate * lr_scale
        optimizer.step()
    for kernel, matrix in matrices:
        kernel.copy_(matrix.view_as(kernel))
        kernel.grad = None
    optimizers[1].zero_grad(set_to_none=True)


@torch.no_grad()
def set_statistics(vae: AutoencoderKLWan, pool: Tensor) -> None:
    """Write the mean and standard deviation of each latent channel into the config, where the pipelines read them."""
    some = pool[:: max(len(pool) // 1024, 1)]
    total = torch.zeros(2, vae.config.z_dim, dtype=torch.float64, device=pool.device)
    for video in _batches(some):
        with autocast(pool.device):
            latents = whole_sequence.encode(vae, video).double()
        total += torch.stack([latents.mean((2, 3, 4)).sum(0), latents.square().mean((2, 3, 4)).sum(0)])
    mean, square = total / len(some)
    vae.register_to_config(latents_mean=mean.tolist(), latents_std=(square - mean.square()).sqrt().tolist())


@torch.no_grad()
def measure_vae(vae: AutoencoderKLWan, clips: int, num_frames: int, size: int, device: torch.device) -> dict[str, Any]:
    """PSNR of the stock encode and decode on held-out scenes: overall, by style, and by frame, which would show a drift."""
    each = max(clips // len(STYLES), 1)
    pool = render_pool(range(HELD_OUT_SEED, HELD_OUT_SEED + each), num_frames, size, device)
    errors = []  # [N, T]
    for video in _batches(pool):
        latents = vae.encode(video.to(vae.dtype)).latent_dist.mode()
        decoded = vae.decode(latents).sample.float()
        errors.append(F.mse_loss(decoded, video, reduction="none").mean((1, 3, 4)))
    psnr = -10 * torch.log10(torch.cat(errors) / 4)  # [N, T]
    return {
        "psnr": psnr.mean().item(),
        "psnr_by_style": {style: part.mean().item() for style, part in zip(STYLES, psnr.split(each), strict=True)},
        "psnr_by_frame": [round(value, 2) for value in psnr.mean(0).tolist()],
        "held_out_clips": len(psnr),
        "parameters": sum(p.numel() for p in vae.parameters()),
    }


def _batches(pool: Tensor) -> Iterator[Tensor]:
    return (frames_to_video(part) for part in pool.split(16))


def autocast(device: torch.device) -> AbstractContextManager[Any]:
    return torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext()


def device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
