"""Score terms of a real video: its frames are encoded and noised as in training, and one attention layer is read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from sightline.backbones.families import LTX2, SKYREELS_V2, WAN, family_of
from sightline.backbones.inspect import score_terms
from sightline.backbones.stock import AnyPipeline, expert_at, experts
from sightline.checks import check_seed, number
from sightline.data.clip import Clip
from sightline.data.encode import MAX_SEQUENCE_LENGTH, ClipEncoder, pad_text
from sightline.data.latents import with_first_frame_mask
from sightline.errors import SightlineError
from sightline.generation.generate import camera_tokens

TERMS = {
    "A content": "content",
    "B content to ray": "content_to_ray",
    "C ray to content": "ray_to_content",
    "D ray to ray": "ray_to_ray",
}


@dataclass(frozen=True, eq=False)
class VideoScoreTerms:
    """terms: [t, rows, columns] of each of TERMS and of their sum, a mean over heads or one head.

    attention: [t, rows, columns], how the token divides its attention: the softmax of the sum, a mean over heads or one head.
    query: the latent frame, and where its token is in the picture, x and y as fractions. pictures: [t, H, W, 3], the frame that
    each latent frame's pose is of.
    """

    terms: dict[str, np.ndarray]
    attention: np.ndarray
    query: tuple[int, float, float]
    pictures: np.ndarray


@torch.no_grad()
def video_score_terms(
    pipe: AnyPipeline,
    clip: Clip,
    *,
    layer: int,
    frame: int,  # latent frame of the query
    at: tuple[float, float] = (0.5, 0.5),  # x, y in its picture, as fractions
    sigma: float = 0.5,
    head: int | None = None,
    component: str | None = None,
    seed: int = 0,
) -> VideoScoreTerms:
    """Terms A to D of the attention logits from one token to all tokens of a video.

    sigma: the noise level, 0 without noise and 1 for noise alone. The first frame stays clean, as in image-to-video. head: None
    takes the mean over heads. component: the expert of a model that has two; None takes the one that denoises at this level.
    """
    component = component or expert_at(pipe, sigma)
    if component not in experts(pipe):
        raise SightlineError(f"component is {component!r}: expected one of {', '.join(experts(pipe))}.")
    if not 0 <= number("sigma", sigma) <= 1:
        raise SightlineError(f"sigma is {sigma:g}: expected a noise level from 0 to 1.")
    if not all(0 <= number("at", value) < 1 for value in at):
        raise SightlineError(f"at is {at[0]:g},{at[1]:g}: expected fractions of the picture from 0 to below 1.")
    family = family_of(pipe)
    if family not in (WAN, SKYREELS_V2, LTX2):
        raise SightlineError(
            f"the model is a {family.transformer}: expected Wan, SkyReels V2 or LTX-2, whose scores can be split."
        )
    model = experts(pipe)[component]
    tokens = camera_tokens(pipe, clip.trajectory)
    grid = tokens.grid
    if not 0 <= frame < grid.frames:
        raise SightlineError(f"frame is {frame}: expected a latent frame from 0 to {grid.frames - 1}.")
    row, column = int(at[1] * grid.rows), int(at[0] * grid.columns)
    query = (frame * grid.rows + row) * grid.columns + column
    inputs = _model_inputs(pipe, clip, sigma, check_seed(seed), grid.tokens_per_frame)
    for name, value in inputs.items():
        if isinstance(value, torch.Tensor):  # times stay float32
            inputs[name] = value.to(model.device, model.dtype if "states" in name else None)
    camera = {"camera": tokens.to(model.device)}
    found = score_terms(model, [query], layer, **inputs, attention_kwargs=camera)
    terms = {}
    for name, attribute in {**TERMS, "sum": "total"}.items():
        logits = getattr(found, attribute)[0, :, 0]  # [heads, N]
        if head is not None and not 0 <= head < len(logits):
            raise SightlineError(f"head is {head}: expected one from 0 to {len(logits) - 1}.")
        values = logits.mean(0) if head is None else logits[head]
        terms[name] = values.reshape(grid.frames, grid.rows, grid.columns).float().cpu().numpy()
    shares = found.total[0, :, 0].softmax(-1)  # [heads, N]
    attention = (shares.mean(0) if head is None else shares[head]).reshape(terms["sum"].shape).float().cpu().numpy()
    centre = ((column + 0.5) / grid.columns, (row + 0.5) / grid.rows)
    return VideoScoreTerms(terms, attention, (frame, *centre), clip.frames[:: grid.temporal_stride(len(clip.frames))])


def _model_inputs(pipe: AnyPipeline, clip: Clip, sigma: float, seed: int, tokens_per_frame: int) -> dict[str, Any]:
    encoder = ClipEncoder(pipe)
    length = min(MAX_SEQUENCE_LENGTH, pipe.tokenizer.model_max_length)
    encoded = encoder.encode(clip, length)
    x0 = encoded["latents"][None]  # [1, C, t, h, w]
    noise = torch.randn(x0.shape, generator=torch.Generator().manual_seed(seed))
    noisy = (1 - sigma) * x0 + sigma * noise
    timestep = torch.tensor([1000.0 * sigma])
    conditioned: Any = encoded.get("condition")
    if conditioned is not None:  # I2V-A14B
        noisy = torch.cat([noisy, with_first_frame_mask(conditioned)[None]], dim=1)
    elif pipe.config.get("expand_timesteps") or encoder.family is LTX2:  # the clean first latent is at time 0
        noisy[:, :, 0] = x0[:, :, 0]
        by_frame = timestep.repeat(x0.shape[2])
        by_frame[0] = 0.0
        timestep = by_frame.repeat_interleave(tokens_per_frame)[None]
    text = pad_text(encoded["text"], length)[None]
    return encoder.io.inputs(pipe.transformer.config, noisy, timestep, text)
