"""Inspect a trained model: the bilinear form of each head over two rays, the four terms of attention scores, alphas and gates."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from sightline.backbones.attention import CameraWanAttnProcessor
from sightline.backbones.camera_transformer import CameraTransformer
from sightline.backbones.fused import FusedWanAttnProcessor
from sightline.encodings.protocol import EncodingLayer
from sightline.encodings.scale_gate import GatedLayer
from sightline.encodings.scope import ScopeLayer
from sightline.errors import SightlineError
from sightline.kernels.scope_reference import scale_gate


@dataclass(frozen=True, eq=False)
class RayForm:
    """The bilinear form of term D, per layer and head.

    matrix: [L, H, 7, 7], M = E_q^T E_k over the features (d, m^, s) of the query and (m^, d, s) of the key; [L, H, 6, 6]
        over the raw rays where ngi is off.
    scale: [L, H], the c for which c I (without flip, c times the swap of the two halves) is nearest to M_6, the 6 x 6 ray block
        of M.
    distance: [L, H], |M_6 - c I| / |M_6| in the Frobenius norm: 0 for the reciprocal product, 1 for a form orthogonal to it.
    reciprocal: [6, 6], the reciprocal form itself: I, or the swap of the two halves without flip.
    """

    matrix: Tensor
    scale: Tensor
    distance: Tensor
    reciprocal: Tensor


@dataclass(frozen=True, eq=False)
class ScoreTerms:
    """The four parts of the attention logits <q, k> / sqrt(D), each [B, H, Q, N], in float32."""

    content: Tensor  # A: content and content, the pretrained score
    content_to_ray: Tensor  # B: the query's content against the key's ray
    ray_to_content: Tensor  # C: the query's ray against the key's content
    ray_to_ray: Tensor  # D: the two rays alone

    @property
    def total(self) -> Tensor:
        return self.content + self.content_to_ray + self.ray_to_content + self.ray_to_ray


@dataclass(frozen=True, eq=False)
class LayerStrengths:
    """How strongly each layer uses the camera.

    alpha: [L, 2], alpha_q and alpha_k. gate: [L, K], the mean over channels of the gate at each of `magnitudes`, the distances
    |m| of a ray from the first camera; None for an encoding without a gate.
    """

    alpha: Tensor
    magnitudes: tuple[float, ...]
    gate: Tensor | None


@torch.no_grad()
def ray_form(model: CameraTransformer) -> RayForm:
    """M = E_q^T E_k of every layer and head, and its distance from the reciprocal form. SCoPE with linear E only."""
    layers = [_scope_layer(model, index) for index in range(len(_layers(model)))]
    if layers[0].settings.projection != "linear":
        raise SightlineError("ray_form reads M = E_q^T E_k: expected SCoPE with projection='linear', found 'mlp'.")
    e_q = torch.stack([layer.project_q.float().unflatten(0, (layer.heads, -1)) for layer in layers])  # [L, H, D, 7]
    e_k = torch.stack([layer.project_k.float().unflatten(0, (layer.heads, -1)) for layer in layers])
    matrix = e_q.transpose(-1, -2) @ e_k
    reciprocal = torch.eye(6, device=matrix.device)
    if not layers[0].settings.flip:
        reciprocal = reciprocal.roll(3, dims=0)  # keys (d, m^): the reciprocal product is in the off-diagonal blocks
    rays = matrix[..., :6, :6]
    scale = (rays * reciprocal).sum(dim=(-1, -2)) / 6
    residual = rays - scale[..., None, None] * reciprocal
    distance = residual.norm(dim=(-1, -2)) / rays.norm(dim=(-1, -2)).clamp_min(1e-30)
    return RayForm(matrix, scale, distance, reciprocal)


@torch.no_grad()
def score_terms(
    model: CameraTransformer,
    queries: Sequence[int],  # token indices, (t * rows + y) * columns + x
    layer: int,
    **inputs: Any,  # the model's inputs, with attention_kwargs={"camera": ...}
) -> ScoreTerms:
    """Run the model and split one layer's attention logits, from the chosen query tokens to all tokens, into A, B, C, D.

    For every encoding that adds something to query and key: SCoPE and Sweep.
    """
    encoding = _additive_layer(model, layer)
    try:
        indices = [operator.index(query) for query in queries]
    except TypeError:
        raise SightlineError(f"queries are {queries!r}: expected a list of token numbers.") from None
    calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def remember(_: Any, args: tuple[Any, ...]) -> None:
        if args[0] in encoding.stages - {"embed"}:
            _, query, key, *_, camera_rows = args
            calls.append((query.float(), key.float(), camera_rows))

    handle = encoding.register_forward_pre_hook(remember)
    try:
        with _eager_attention(model, layer):
            model(**inputs)
    finally:
        handle.remove()
    if not calls:
        raise SightlineError(
            "the model ran without a camera: expected attention_kwargs={'camera': tokens} in the inputs."
        )
    content_q, content_k, camera_rows = calls[0]  # [B, N, H, D]
    tokens = content_q.shape[1]
    if not indices or not all(0 <= query < tokens for query in indices):
        raise SightlineError(f"queries are {indices}: expected token numbers from 0 to {tokens - 1}.")
    ray_q, ray_k = encoding.encode(camera_rows)
    picked = torch.tensor(indices, device=content_q.device)
    content_q, ray_q = content_q[:, picked], ray_q[:, picked]

    ray_q, ray_k = (
        ray.expand(content_k.shape[0], -1, -1, -1) for ray in (ray_q, ray_k)
    )  # one camera may serve the whole batch

    def logits(query: Tensor, key: Tensor) -> Tensor:  # -> [B, H, Q, N]
        return torch.einsum("bqhd,bnhd->bhqn", query, key) / query.shape[-1] ** 0.5

    pairs = {"a": (content_q, content_k), "b": (content_q, ray_k), "c": (ray_q, content_k), "d": (ray_q, ray_k)}
    terms = {term: logits(*pair) for term, pair in pairs.items()}
    kept = encoding.settings.terms if isinstance(encoding, ScopeLayer) else "abcd"
    return ScoreTerms(*(terms[term] if term in kept else torch.zeros_like(terms[term]) for term in "abcd"))


@contextmanager
def _eager_attention(model: Any, layer: int) -> Iterator[None]:
    """One layer's attention on the eager path, in which query and key can be seen, whatever the model's speed."""
    attn = model.camera_blocks[layer].attn1
    processor = attn.processor
    if isinstance(processor, FusedWanAttnProcessor):
        eager: Any = CameraWanAttnProcessor()
        vars(eager).update(vars(processor))
        attn.set_processor(eager)
    cached = model.cache_context("inspect") if getattr(model, "is_cache_enabled", False) else nullcontext()
    try:
        with torch.compiler.set_stance("force_eager"), cached:
            yield
    finally:
        attn.set_processor(processor)


@torch.no_grad()
def layer_strengths(
    model: CameraTransformer, magnitudes: Sequence[float] = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
) -> LayerStrengths:
    """The alphas of every layer, 1 for an encoding that has none, and its mean gate at some |m|."""
    layers = [_additive_layer(model, index) for index in range(len(_layers(model)))]
    alpha = torch.tensor([[float(getattr(layer, f"alpha_{side}", 1.0)) for side in "qk"] for layer in layers])
    if not all(isinstance(layer, GatedLayer) and hasattr(layer, "gate_in") for layer in layers):
        return LayerStrengths(alpha, tuple(magnitudes), None)
    gates = []
    for layer in layers:
        log_magnitude = torch.tensor(magnitudes, device=layer.gate_in.device).log()[:, None]
        gates.append(scale_gate(log_magnitude, layer.gate_weights).mean(-1).cpu())
    return LayerStrengths(alpha, tuple(magnitudes), torch.stack(gates))


def _additive_layer(model: CameraTransformer, index: int) -> Any:
    layer = _layer(model, index)
    if not layer.is_additive:
        raise SightlineError(
            f"the model carries {model.config.encoding['name']!r}, which adds nothing to queries and keys: expected 'scope' or "
            "another additive encoding."
        )
    return layer


def _scope_layer(model: CameraTransformer, index: int) -> ScopeLayer:
    layer = _layer(model, index)
    if not isinstance(layer, ScopeLayer):
        raise SightlineError(f"the model carries {model.config.encoding['name']!r}: expected the encoding 'scope'.")
    return layer


def _layer(model: CameraTransformer, index: int) -> EncodingLayer:
    layers = _layers(model)
    if not 0 <= index < len(layers):
        raise SightlineError(f"layer is {index}: expected a layer from 0 to {len(layers) - 1}.")
    return layers[index]


def _layers(model: CameraTransformer) -> list[EncodingLayer]:
    if not isinstance(model, CameraTransformer):
        raise SightlineError(
            f"model is a {type(model).__name__}: expected a model with a camera, such as a CameraWanTransformer3DModel."
        )
    return model.encoding_layers
