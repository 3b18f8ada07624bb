"""Camera weights on ComfyUI's own Wan model, by its ModelPatcher alone.

A wrapper around the diffusion model computes the camera rows from the latents' size and hands them on in transformer_options. A
patch of each block's self-attention sets, for that call alone, an attention override that runs the layer's `inject` stage on
query, key and value, and then calls the override that was there before, or the attention itself.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import comfy.patcher_extension
import torch
from comfy.ldm.wan.model import WanModel, WanSelfAttention
from comfy.model_patcher import ModelPatcher
from comfy.weight_adapter import LoRAAdapter
from torch import Tensor

from sightline.backbones.camera_weights import load_camera_layers
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.encodings.protocol import EncodingLayer
from sightline.errors import SightlineError

from .weight_names import comfy_name

KEY = "sightline_camera"
OVERRIDE = "optimized_attention_override"


def apply_camera(
    model: ModelPatcher,
    weights: Path,
    trajectory: Trajectory,
    strength: float = 1.0,
    start_percent: float = 0.0,
    end_percent: float = 1.0,
) -> ModelPatcher:
    """A clone of the model that follows the trajectory in the steps from start to end; strength multiplies the alphas."""
    wan = _require_wan(model)
    patched = model.clone()
    kind = comfy.patcher_extension.WrappersMP.DIFFUSION_MODEL
    if patched.get_wrappers(kind, KEY):
        raise SightlineError("the model has a camera already: expected one Apply Camera per model.")
    if not 0 <= start_percent <= end_percent <= 1:
        raise SightlineError(
            f"start_percent is {start_percent:g} and end_percent {end_percent:g}: expected 0 <= start <= end <= 1."
        )
    layers, lora = load_camera_layers(weights, _backbone(wan))
    _prepare(layers, weights, strength)
    _add_lora(patched, weights, lora, strength)
    sampling = patched.get_model_object("model_sampling")
    sigmas = sampling.percent_to_sigma(start_percent), sampling.percent_to_sigma(end_percent)
    patched.add_wrapper_with_key(kind, KEY, _diffusion_model_wrapper(wan, layers, trajectory, sigmas))
    for index, layer in enumerate(layers):
        name = f"diffusion_model.blocks.{index}.self_attn.forward"
        patched.add_object_patch(name, _self_attention(patched.get_model_object(name), layer))
    return patched


def _require_wan(model: ModelPatcher) -> WanModel:
    wan = model.model.diffusion_model
    if not isinstance(wan, WanModel) or type(wan.blocks[0].self_attn) is not WanSelfAttention:
        raise SightlineError(f"the model is a {type(wan).__name__}: expected one of ComfyUI's Wan models.")
    return wan


def _backbone(wan: WanModel) -> dict[str, Any]:
    return {
        "num_layers": len(wan.blocks),
        "num_attention_heads": wan.num_heads,
        "attention_head_dim": wan.dim // wan.num_heads,
        "in_channels": wan.in_dim,
        "out_channels": wan.out_dim,
        "patch_size": list(wan.patch_size),
    }


def _prepare(layers: list[EncodingLayer], weights: Path, strength: float) -> None:
    for layer in layers:
        if not layer.stages <= {"embed", "inject"} or "inject" not in layer.stages:
            raise SightlineError(
                f"{weights} holds an encoding with the stages {sorted(layer.stages)}: expected one that only adds to queries "
                "and keys, as scope and sweep do."
            )
        for name, parameter in layer.named_parameters():
            parameter.requires_grad_(False)
            if name.startswith("alpha_"):
                parameter *= strength


def _add_lora(patched: ModelPatcher, weights: Path, lora: dict[str, tuple[Tensor, Tensor]], strength: float) -> None:
    """ComfyUI's own patches of weights, which hold in all steps: A [rank, in] and B [out, rank] by diffusers' layer names."""
    known, patches = patched.model_state_dict(), {}
    for layer, (a, b) in lora.items():
        name = f"diffusion_model.{comfy_name(layer)}.weight"
        if name not in known or tuple(known[name].shape) != (b.shape[0], a.shape[1]):
            raise SightlineError(
                f"{weights}: the LoRA weights of {layer} fit no layer of this model, expected its shape."
            )
        patches[name] = LoRAAdapter(set(), (b.float(), a.float(), None, None, None, None))
    patched.add_patches(patches, strength)


def _diffusion_model_wrapper(
    wan: WanModel, layers: list[EncodingLayer], trajectory: Trajectory, sigmas: tuple[float, float]
) -> Callable[..., Tensor]:
    computed: dict[TokenGrid, Tensor] = {}  # the rows are those of every step

    def wrapper(
        executor: Any,
        x: Tensor,  # [B, C, t, h, w] latents
        timestep: Tensor,
        context: Tensor,
        clip_fea: Tensor | None = None,
        time_dim_concat: Tensor | None = None,
        transformer_options: dict[str, Any] | None = None,
        **others: Any,
    ) -> Tensor:
        options = dict(transformer_options or {})
        start, end = sigmas
        sigma = options.get("sigmas")
        if sigma is None or end <= float(sigma.max()) <= start:
            grid = TokenGrid(*(-(-size // patch) for size, patch in zip(x.shape[2:], wan.patch_size, strict=True)))
            if grid not in computed:
                computed[grid] = _camera_rows(layers, trajectory, grid)
            options[KEY] = computed[grid].to(x.device)
            for layer in layers:
                layer.to(x.device)
        return executor(x, timestep, context, clip_fea, time_dim_concat, options, **others)

    return wrapper


def _camera_rows(
    layers: list[EncodingLayer], trajectory: Trajectory, grid: TokenGrid
) -> Tensor:  # -> [1, N, 90 or more]
    # Rows do not depend on the number of pixels, only on the shape of the picture.
    aspect, expected = grid.columns / grid.rows, trajectory.width / trajectory.height
    if not (grid.columns - 1) / grid.rows < expected < (grid.columns + 1) / grid.rows:
        raise SightlineError(
            f"the camera path is for {trajectory.width}x{trajectory.height}, {expected:.3g} to 1, and the latents are "
            f"{aspect:.3g} to 1: expected the width and height of the latents in Camera Path."
        )
    rows = CameraTokens.from_trajectory(trajectory, grid).rows
    if "embed" in layers[0].stages:
        added, rows = layers[0].cpu()("embed", rows, grid)
        assert added is None, "only encodings that add to queries and keys get here"
    return rows


def _self_attention(forward: Callable[..., Tensor], layer: EncodingLayer) -> Callable[..., Tensor]:
    """The self-attention's forward, with the camera where the call has camera rows."""

    def with_camera(*args: Any, transformer_options: dict[str, Any] | None = None, **others: Any) -> Tensor:
        given = {} if transformer_options is None else transformer_options
        if given.get(KEY) is None:
            return forward(*args, transformer_options=given, **others)
        options = {**given, OVERRIDE: _override(layer, given)}
        return forward(*args, transformer_options=options, **others)

    return with_camera


def _override(layer: EncodingLayer, given: dict[str, Any]) -> Callable[..., Tensor]:
    rows, previous = given[KEY], given.get(OVERRIDE)

    def override(
        attention: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, heads: int, **options: Any
    ) -> Tensor:
        if query.ndim != 3 or query.shape[1] != rows.shape[1]:
            raise SightlineError(
                f"self-attention has queries of the shape {list(query.shape)}: expected {rows.shape[1]} tokens, those of the "
                "latents alone (a reference frame beside them has no camera)."
            )
        split = (x.unflatten(2, (heads, -1)) for x in (query, key, value))  # [B, N, H, D]
        query, key, value = (x.flatten(2) for x in layer("inject", *split, rows))
        options["transformer_options"] = given  # without this override
        if previous is not None:
            return previous(attention, query, key, value, heads, **options)
        return attention(query, key, value, heads, **options)

    return override


def fun_camera_embedding(trajectory: Trajectory) -> Tensor:
    """ComfyUI's WAN_CAMERA_EMBEDDING, [1, 24, t, H, W] float32: (o x d, d) of every pixel, four frames side by side.

    The poses are relative to the first camera; the first frame is repeated three times, as Wan's VAE groups frames by four.
    """
    from sightline.cameras.lens import grid_centres, pixel_rays

    if trajectory.xi:
        raise SightlineError(f"xi is {trajectory.xi:g}: expected 0, as Fun-Camera knows pinholes only.")
    if len(trajectory) % 4 != 1:
        raise SightlineError(f"the camera path has {len(trajectory)} frames: expected 4n + 1.")
    anchored = trajectory.anchored()
    width, height = trajectory.width, trajectory.height
    centres = grid_centres(width, height, width, height)  # [H, W, 2]
    frames = []
    for pose, lens in zip(anchored.camera_to_world, anchored.intrinsics, strict=True):
        direction = pixel_rays(lens, centres.double()) @ pose[:3, :3].T  # [H, W, 3]
        moment = torch.linalg.cross(pose[:3, 3].expand_as(direction), direction)
        frames.append(torch.cat([moment, direction], dim=-1).float().permute(2, 0, 1))  # [6, H, W]
    video = torch.stack([frames[0]] * 3 + frames)  # [4t, 6, H, W]
    return video.unflatten(0, (-1, 4)).transpose(1, 2).flatten(1, 2).transpose(0, 1)[None]
