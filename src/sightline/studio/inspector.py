"""The inspector: the score terms of one token of a film, the attention, and what the weights of each layer have learned.

The views are plain arrays that travel from the process of the model to the page as JSON, and become figures here.
"""

from __future__ import annotations

import base64
import io
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from sightline.errors import SightlineError
from sightline.generation.model import Model

if TYPE_CHECKING:
    from sightline.backbones.stock import AnyPipeline

View = TypeVar("View", bound="_Packed")
NO_FORM = "This model's encoding, {name}, has no matrix M over two rays: only SCoPE with a linear E has one."


@dataclass(frozen=True)
class TokenQuery:
    """Which token of which film, and where in the model. head: None is the mean over heads. sigma: also chooses the expert of a
    model that has two, as when it denoises."""

    folder: str
    frame: int
    x: float
    y: float
    layer: int
    head: int | None = None
    sigma: float = 0.5


class _Packed:
    """Arrays and plain values, packed for JSON: an array becomes the text of its .npy file."""

    def packed(self) -> dict[str, Any]:
        return {field.name: pack(getattr(self, field.name)) for field in fields(self)}  # type: ignore[arg-type]

    @classmethod
    def unpacked(cls: type[View], content: dict[str, Any]) -> View:
        return cls(**{name: unpack(value) for name, value in content.items()})


@dataclass(frozen=True, eq=False)
class TokenView(_Packed):
    """terms: [t, rows, columns] of A, B, C, D and their sum. attention: [t, rows, columns].

    pictures: [t, H, W, 3] uint8 of the latent frames. lines: the epipolar line in each of them, [K, 2] pixels.
    query: the latent frame, and where its token is in the picture, x and y as fractions.
    """

    terms: dict[str, np.ndarray]
    attention: np.ndarray
    pictures: np.ndarray
    lines: list[np.ndarray]
    query: tuple[int, float, float]


@dataclass(frozen=True, eq=False)
class LayersView(_Packed):
    """What one expert has learned. from_sigma: the lowest noise level at which it denoises.

    alpha: [L, 2]. gate: [L, K] at `magnitudes`. matrix: [L, H, F, F], scale and distance: [L, H]. reciprocal: [6, 6].
    What the encoding does not have is None, and `note` says so in a sentence.
    """

    from_sigma: float
    encoding: str
    layers: int
    heads: int
    alpha: np.ndarray | None
    magnitudes: list[float]
    gate: np.ndarray | None
    matrix: np.ndarray | None
    scale: np.ndarray | None
    distance: np.ndarray | None
    reciprocal: np.ndarray | None
    note: str


def score_film(model: Model, query: TokenQuery) -> TokenView:
    """The terms of a token of a film, over all of its latent frames."""
    from sightline.documents import read_json
    from sightline.generation.video_files import find_video, read_clip
    from sightline.generation.video_scores import video_score_terms
    from sightline.studio.epipolar import epipolar_line

    folder = Path(query.folder)
    video, cameras = find_video(folder)
    made = read_json(folder / "settings.json", "the settings of a video")["generated"]
    clip = read_clip(video, cameras, made["num_frames"], made["width"], made["height"], made["prompt"] or "a video")
    found = video_score_terms(
        model.pipe, clip, layer=query.layer, frame=query.frame, at=(query.x, query.y), sigma=query.sigma, head=query.head,
    )  # fmt: skip
    frame, x, y = found.query
    stride = model.info.stride.frames
    lines = [
        epipolar_line(clip.trajectory, frame * stride, (x, y), other * stride).numpy()
        for other in range(len(found.pictures))
    ]
    return TokenView(found.terms, found.attention, found.pictures, lines, found.query)


def read_layers(model: Model) -> list[LayersView]:
    """What every layer of every expert has learned, the expert of the highest noise levels first."""
    from sightline.backbones.stock import experts

    with_camera = [name for name, expert in experts(model.pipe).items() if "encoding" in expert.config]
    if not with_camera:
        raise SightlineError("the model takes no camera: expected one with camera weights.")
    return [_read_expert(model.pipe, name) for name in with_camera]


def _read_expert(pipe: AnyPipeline, component: str) -> LayersView:
    """What every layer of an expert has learned; for an encoding without M, everything else."""
    from sightline.backbones.inspect import layer_strengths, ray_form
    from sightline.backbones.stock import EXPERTS, experts, lowest_sigma

    expert = experts(pipe)[component]
    name, from_sigma, notes = expert.config.encoding["name"], lowest_sigma(pipe, component), []
    if len(experts(pipe)) > 1:
        levels = f"{'from' if from_sigma else 'below'} {lowest_sigma(pipe, EXPERTS[0]):g}"
        notes.append(f"These are the layers of {component}, the expert of the noise levels {levels}.")
    alpha = gate = matrix = scale = distance = reciprocal = None
    magnitudes: list[float] = []
    try:
        strengths = layer_strengths(expert)
        alpha, magnitudes = strengths.alpha.numpy(), list(strengths.magnitudes)
        gate = None if strengths.gate is None else strengths.gate.numpy()
    except SightlineError as error:
        notes.append(str(error))
    try:
        form = ray_form(expert)
        parts = (form.matrix, form.scale, form.distance, form.reciprocal)
        matrix, scale, distance, reciprocal = (values.cpu().numpy() for values in parts)
    except SightlineError:
        notes.append(NO_FORM.format(name=name))
    heads = expert.config.num_attention_heads
    return LayersView(
        from_sigma,
        name,
        len(expert.encoding_layers),
        heads,
        alpha,
        magnitudes,
        gate,
        matrix,
        scale,
        distance,
        reciprocal,
        " ".join(notes),
    )


def pack(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        buffer = io.BytesIO()
        np.save(buffer, value, allow_pickle=False)
        return {"npy": base64.b64encode(buffer.getvalue()).decode()}
    if isinstance(value, dict):
        return {"dict": {name: pack(one) for name, one in value.items()}}
    if isinstance(value, list | tuple):
        return [pack(one) for one in value]
    return value


def unpack(value: Any) -> Any:
    if isinstance(value, dict) and "npy" in value:
        return np.load(io.BytesIO(base64.b64decode(value["npy"])), allow_pickle=False)
    if isinstance(value, dict):
        return {name: unpack(one) for name, one in value["dict"].items()}
    return [unpack(one) for one in value] if isinstance(value, list) else value
