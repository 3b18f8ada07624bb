"""The lab model's numbers: does a generated video show what a true camera on the same path would have seen?

    sightline lab measure --model base|scope|MODEL

Held-out scenes of all four styles, image-to-video: the first frame, the caption and (for a model with a camera) the true
path go in; the PSNR of each frame to the true view comes out. Frames whose true view still looks like the first frame say
little, so the mark is the mean over those where it has moved.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sightline.backbones.model_info import LAB
from sightline.backbones.stock import AnyWanPipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.images import psnr
from sightline.lab.models import FRAMES, HELD_OUT_SEED, SIZE
from sightline.worlds import STYLES, sample_batch
from sightline.worlds.batches import render_batches

MOVED_BELOW = 18.0  # dB: a true frame this unlike the first one counts as moved


@dataclass(frozen=True, eq=False)
class HeldOutClip:
    """A scene that no stage has seen, filmed."""

    style: str
    frames: np.ndarray  # [T, H, W, 3] uint8
    trajectory: Trajectory  # the true one, in metres, anchored at the first frame
    caption: str


def held_out_clips(count: int, device: torch.device | str = "cpu") -> list[HeldOutClip]:
    """`count` clips, as many of each style as of the others."""
    if count % len(STYLES) or count < 1:
        raise SightlineError(f"clips is {count}: expected a multiple of {len(STYLES)}.")
    each, found = count // len(STYLES), []
    batches = [sample_batch(style, range(HELD_OUT_SEED, HELD_OUT_SEED + each), FRAMES, SIZE, SIZE) for style in STYLES]
    filmed = render_batches(batches, device).cpu().numpy()
    for number, batch in enumerate(batches):
        for clip in range(each):
            path = batch.true_trajectory(clip).anchored()
            found.append(HeldOutClip(batch.style, filmed[number * each + clip], path, batch.captions[clip]))
    return found


def film_with(
    pipe: AnyWanPipeline, clip: HeldOutClip, path: Trajectory | None, *, steps: int, guidance: float, seed: int
) -> np.ndarray:  # [T, H, W, 3] uint8
    """What the model makes of the clip's first frame and caption; along `path`, or not told any."""
    pipe.set_progress_bar_config(disable=True)
    along = clip.trajectory if path is None else path
    return generate(
        pipe,
        clip.frames[0],
        clip.caption,
        along,
        num_inference_steps=steps,
        guidance_scale=guidance,
        seed=seed,
        blind=path is None,
    )


def measure(
    pipe: AnyWanPipeline,
    clips: list[HeldOutClip],
    *,
    steps: int = LAB.num_inference_steps,
    guidance: float = LAB.guidance_scale,
    seed: int = 0,
    progress: Any = iter,
) -> dict[str, Any]:
    """PSNR to the true view: with the true path and with another clip's (a model with a camera), or without one."""
    if len({clip.style for clip in clips}) * 2 > len(clips):
        raise SightlineError(f"clips has {len(clips)}: expected two of each style or more, for another clip's path.")
    takes_camera = isinstance(pipe.transformer, CameraWanTransformer3DModel)
    rows: dict[str, list[float]] = {}
    by_frame: dict[str, list[np.ndarray]] = {}
    for number in progress(range(len(clips))):
        clip = clips[number]
        other = next(c for c in clips[number + 1 :] + clips if c.style == clip.style and c is not clip)
        frozen = psnr(np.repeat(clip.frames[:1], len(clip.frames), axis=0), clip.frames)
        moved = frozen < MOVED_BELOW
        paths = (
            {"true path": clip.trajectory, "another clip's path": other.trajectory}
            if takes_camera
            else {"no path": None}
        )
        found = {"first frame frozen": frozen}
        for name, path in paths.items():
            video = film_with(pipe, clip, path, steps=steps, guidance=guidance, seed=seed + number)
            found[name] = psnr(video, clip.frames)
        for name, decibels in found.items():
            by_frame.setdefault(name, []).append(decibels)
            if moved.any():
                rows.setdefault(name, []).append(float(decibels[moved].mean()))
                rows.setdefault(f"{name}, {clip.style}", []).append(float(decibels[moved].mean()))
    return {
        "psnr_where_moved": {name: sum(values) / len(values) for name, values in rows.items()},
        "psnr_by_clip": {name: [round(value, 2) for value in rows[name]] for name in by_frame},  # those with motion
        "clips_with_motion": len(rows["first frame frozen"]),
        "clips": len(clips),
        "psnr_by_frame": {name: np.mean(v, axis=0).round(2).tolist() for name, v in by_frame.items()},
        "steps": steps,
        "guidance": guidance,
        "seed": seed,
        "moved": f"frames whose true view has a PSNR under {MOVED_BELOW} dB to the first frame",
    }
