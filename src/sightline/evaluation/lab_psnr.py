"""PSNR of the lab model on held-out scenes: does a generated video show what a camera on the same trajectory would have seen?

    sightline lab measure --model camera|base|MODEL

Image-to-video: the model gets the first frame, the caption and, if it takes a camera, the true trajectory. Each generated frame
is compared with the true view. Frames whose true view still resembles the first frame say little, so the score is the mean over
the frames where the view has moved.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.model_info import LAB
from sightline.backbones.stock import AnyPipeline
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.images import psnr

MOVED_BELOW = 18.0  # dB: a true frame with a lower PSNR to the first frame counts as moved

Condition = Literal["true", "another", "none", "static"]
CONDITIONS: tuple[Condition, ...] = get_args(Condition)
_LABELS = {"true": "true trajectory", "another": "another clip's trajectory", "none": "no trajectory"}


@dataclass(frozen=True)
class PsnrResults:
    """By condition (the trajectory that the model was given, or the first frame frozen).

    where_moved: mean over clips of each clip's mean over moved frames. by_style: the same, by style of the scenes.
    by_clip: of each clip with motion. by_frame: mean over all clips.
    static: of a camera that stands still, the last generated frame against the first, by style and over all clips.
    """

    where_moved: dict[str, float]
    by_style: dict[str, dict[str, float]]
    by_clip: dict[str, list[float]]
    by_frame: dict[str, list[float]]
    static: dict[str, float]
    clips: int
    clips_with_motion: int
    num_inference_steps: int
    guidance_scale: float
    camera_guidance_scale: float
    seed: int
    moved_below: float = MOVED_BELOW


def generate_clip(
    pipe: AnyPipeline,
    clip: Clip,
    trajectory: Trajectory | None,
    *,
    num_inference_steps: int,
    guidance_scale: float,
    camera_guidance_scale: float = 1.0,
    seed: int,
) -> np.ndarray:  # [T, H, W, 3] uint8
    """A video from the clip's first frame and caption, along `trajectory`; None does not condition on one."""
    pipe.set_progress_bar_config(disable=True)
    blind = trajectory is None
    return generate(
        pipe, clip.frames[0], clip.caption, clip.trajectory if trajectory is None else trajectory,
        num_inference_steps=num_inference_steps, guidance_scale=guidance_scale,
        camera_guidance_scale=1.0 if blind else camera_guidance_scale, seed=seed, blind=blind,
    )  # fmt: skip


def measure_psnr(
    pipe: AnyPipeline,
    clips: Sequence[Clip],
    *,
    conditions: Sequence[Condition] = CONDITIONS,
    num_inference_steps: int = LAB.num_inference_steps,
    guidance_scale: float = LAB.guidance_scale,
    camera_guidance_scale: float = 1.0,
    seed: int = 0,
    progress: Callable[[Sequence[int]], Iterable[int]] = lambda indices: indices,
) -> PsnrResults:
    """PSNR to the true views, with each trajectory of `conditions` for a model with a camera, otherwise with none.

    clips: two or more of each source (see `held_out_clips`). The other clip is the next one of the same source.
    """
    if len({clip.source for clip in clips}) * 2 > len(clips):
        raise SightlineError(
            f"clips has {len(clips)}: expected two of each style or more, for another clip's trajectory."
        )
    if not isinstance(pipe.transformer, CameraTransformer):
        conditions = ("none",)
    by_clip: dict[str, list[float]] = {}
    by_style: dict[str, dict[str, list[float]]] = {}
    by_frame: dict[str, list[np.ndarray]] = {}
    static: dict[str, list[float]] = {}
    with_motion = 0
    for index in progress(range(len(clips))):
        clip = clips[index]
        frozen = psnr(np.repeat(clip.frames[:1], len(clip.frames), axis=0), clip.frames)
        moved = frozen < MOVED_BELOW
        with_motion += bool(moved.any())
        decibels = {"first frame frozen": frozen}
        for condition in conditions:
            video = generate_clip(
                pipe, clip, _trajectory(clips, index, condition), num_inference_steps=num_inference_steps,
                guidance_scale=guidance_scale, camera_guidance_scale=camera_guidance_scale, seed=seed + index,
            )  # fmt: skip
            if condition == "static":
                last = float(psnr(video[-1:], video[:1])[0])
                for name in ("all", clip.source):
                    static.setdefault(name, []).append(last)
            else:
                decibels[_LABELS[condition]] = psnr(video, clip.frames)
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
        static={name: _mean(values) for name, values in static.items()},
        clips=len(clips),
        clips_with_motion=with_motion,
        num_inference_steps=num_inference_steps,
        guidance_scale=guidance_scale,
        camera_guidance_scale=camera_guidance_scale,
        seed=seed,
    )


def _trajectory(clips: Sequence[Clip], index: int, condition: Condition) -> Trajectory | None:
    """The trajectory that the model is conditioned on."""
    clip = clips[index]
    if condition == "true":
        return clip.trajectory
    if condition == "none":
        return None
    if condition == "static":
        first, frames = clip.trajectory, len(clip.trajectory)
        still = {"camera_to_world": first.camera_to_world[:1], "intrinsics": first.intrinsics[:1]}
        return first.replace(**{name: part.expand(frames, -1, -1) for name, part in still.items()})
    others = [*clips[index + 1 :], *clips]
    return next(other for other in others if other.source == clip.source and other is not clip).trajectory


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
