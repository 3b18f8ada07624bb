"""Held-out losses of a model, clip by clip, at fixed noise: with the clip's own camera and with another clip's."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from sightline.cameras.tokens import CameraTokens
from sightline.errors import SightlineError
from sightline.study.study import Study
from sightline.training.feeds import Feed, count_held_out
from sightline.training.objective import flow_matching_loss
from sightline.training.recipe import Recipe
from sightline.training.validation import evenly_spaced, fixed_draw

LEVELS = 4  # noise levels at which the loss of each clip is measured


def split_held_out(feed: Feed, count: int) -> tuple[list[int], list[int]]:
    """The held-out clips that results are measured on, and others that learning rates are chosen on.

    Where there are no more than `count`, both are all of them (see require_clips_for_rates).
    """
    results = evenly_spaced(count, len(feed.held_out))
    others = sorted(set(range(len(feed.held_out))) - set(results))
    return results, [others[index] for index in evenly_spaced(count, len(others))] if others else results


def require_clips_for_rates(study: Study, tables: Sequence[str]) -> None:
    """Refuse a study whose learning rates would be chosen on the clips of its results."""
    count = study.measure.loss_clips
    if len(study.rates) < 2 or "loss" not in study.measure.groups:
        return
    for table in tables:
        try:
            held_out = count_held_out(study.shared_recipe(table).data)
        except SightlineError:
            continue  # a cache that is missing: its rows say so
        if held_out <= count:
            raise SightlineError(
                f"table {table} has {held_out} held-out clips: expected more than measure.loss_clips, {count}, as learning rates "
                "are chosen on other clips than results are measured on."
            )


def another_clip(feed: Feed, indices: Sequence[int]) -> list[int]:
    """For each clip, the next one of the same source; where there is none, the next one."""
    sources = [feed.held_out.names[index][0] for index in indices]
    others = []
    for position, source in enumerate(sources):
        later = [*range(position + 1, len(indices)), *range(position)]
        same = [other for other in later if sources[other] == source]
        others.append(indices[(same or later or [position])[0]])
    return others


@torch.no_grad()
def held_out_losses(
    model: Any,
    feed: Feed,
    recipe: Recipe,  # whose objective and seed decide the noise levels and the noise
    indices: Sequence[int],
    device: torch.device,
    batch_size: int,
    with_another: bool,
) -> dict[str, list[float]]:
    """The mean loss of each clip over the noise levels, in float32, by name of METRICS."""
    cameras = hasattr(model, "encoding_layers")
    others = another_clip(feed, indices) if with_another and cameras else []
    values: dict[str, list[float]] = {"loss": [], **({"loss_another_camera": []} if others else {})}
    for start in range(0, len(indices), batch_size):
        some = slice(start, start + batch_size)
        batch = feed.validation(indices[some], device)
        tokens: dict[str, CameraTokens | None] = {"loss": batch.camera_tokens if cameras else None}
        if others:
            tokens["loss_another_camera"] = feed.validation(others[some], device).camera_tokens
        sums: dict[str, Tensor] = {name: torch.zeros(len(batch.latents), device=device) for name in tokens}
        for level in range(LEVELS):
            drawn = fixed_draw(batch, recipe, (level + 0.5) / LEVELS)
            for name, camera in tokens.items():
                sums[name] += flow_matching_loss(model, dataclasses.replace(batch, camera_tokens=camera), drawn)
        for name, total in sums.items():
            values[name] += (total / LEVELS).tolist()
    return values
