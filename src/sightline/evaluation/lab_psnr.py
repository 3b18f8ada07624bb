"""PSNR of the lab model on held-out scenes: does a generated video show what a camera on the same trajectory would have seen?

    sightline lab measure --model base|scope|MODEL

Image-to-video: the model gets the first frame, the caption and, if it takes a camera, the true trajectory. Each generated frame
is compared with the true view. Frames whose true view still resembles the first frame say little, so the score is the mean over
the frames where the view has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from sightline.backbones.model_info import LAB
from sightline.backbones.stock import AnyWanPipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.images import psnr

MOVED_BELOW = 18.0  # dB: a true frame with a lower PSNR to the first frame counts as moved


@dataclass(frozen=True)
class PsnrResults:
    """By condition (the trajectory that the model was given, or the first frame frozen).

    where_moved: mean over clips of each clip's mean over moved frames. by_style: the same, by style of the scenes.
    by_clip: of each clip with motion. by_frame: mean over all clips.
    """

    where_moved: dict[str, float]
    by_style: dict[str, dict[str, float]]
    by_clip: dict[str, list[float]]
    by_frame: dict[str, list[float]]
    clips: int
    clips_with_motion: int
    num_inference_steps: int
    guidance_scale: float
    seed: int
    moved_below: float = MOVED_BELOW


def generate_clip(
    pipe: AnyWanPipeline,
    clip: Clip,
    trajectory: Trajectory | None,
    *,
    num_inference_steps: int,
    guidance_scale: float,
    seed: int,
) -> np.ndarray:  # [T, H, W, 3] uint8
    """A video from the clip's first frame and caption, along `trajectory`; None does not condition on one."""
    pipe.set_progress_bar_config(disable=True)
    return generate(
        pipe, clip.frames[0], clip.caption, clip.trajectory if trajectory is None else trajectory,
        num_inference_steps=num_inference_steps, guidance_scale=guidance_scale, seed=seed, blind=trajectory is None,
    )  # fmt: skip


def measure_psnr(
    pipe: AnyWanPipeline,
    clips: Sequence[Clip],
    *,
    num_inference_steps: int = LAB.num_inference_steps,
    guidance_scale: float = LAB.guidance_scale,
    seed: int = 0,
    progress: Callable[[Sequence[int]], Iterable[int]] = lambda indices: indices,
) -> PsnrResults:
    """PSNR to the true views: with the true trajectory and with another clip's for a model with a camera, otherwise without one.

    clips: two or more of each source (see `held_out_clips`). The other clip is the next one of the same source.
    """
    if len({clip.source for clip in clips}) * 2 > len(clips):
        raise SightlineError(
            f"clips has {len(clips)}: expected two of each style or more, for another clip's trajectory."
        )
    by_clip: dict[str, list[float]] = {}
    by_style: dict[str, dict[str, list[float]]] = {}
    by_frame: dict[str, list[np.ndarray]] = {}
    with_motion = 0
    for index in progress(range(len(clips))):
        clip = clips[index]
        frozen = psnr(np.repeat(clip.frames[:1], len(clip.frames), axis=0), clip.frames)
        moved = frozen < MOVED_BELOW
        with_motion += bool(moved.any())
        decibels = {"first frame frozen": frozen}
        for name, trajectory in _conditions(pipe, clips, index).items():
            video = generate_clip(
                pipe, clip, trajectory, num_inference_steps=num_inference_steps, guidance_scale=guidance_scale,
                seed=seed + index,
            )  # fmt: skip
            decibels[name] = psnr(video, clip.frames)
        for name, values in decibels.items():
            by_frame.setdefault(name, []).append(values)
            if moved.any():
                by_clip.setdefault(name, []).append(float(values[moved].mean()))
                by_style.setdefault(name, {}).setdefault(clip.source, []).append(float(values[moved].mean()))
    return PsnrResults(
        where_moved={name: _mean(values) for name, values in by_clip.items()},
        by_style={name: {style: _mean(v) for style, v in styles.items()} for name, styles in by_style.items()},
        by_clip={name: [round(value, 2) for value in values] for name, values in by_clip.items()},
        by_frame={name: np.mean(values, axis=0).round(2).tolist() for name, values in by_frame.items()},
        clips=len(clips),
        clips_with_motion=with_motion,
        num_inference_steps=num_inference_steps,
        guidance_scale=guidance_scale,
        seed=seed,
    )


def _conditions(pipe: AnyWanPipeline, clips: Sequence[Clip], index: int) -> dict[str, Trajectory | None]:
    """The trajectories that the model is conditioned on, by name."""
    if not isinstance(pipe.transformer, CameraWanTransformer3DModel):
        return {"no trajectory": None}
    clip = clips[index]
    others = [*clips[index + 1 :], *clips]
    other = next(other for other in others if other.source == clip.source and other is not clip)
    return {"true trajectory": clip.trajectory, "another clip's trajectory": other.trajectory}


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
