"""A transformer as it was loaded, with nothing turned on that a copy of its weights would not have."""

from __future__ import annotations

from typing import Any

from torch import nn

from sightline.errors import SightlineError


def require_plain(model: Any) -> None:
    """Refuse a model with what another model that takes over its weights would lack without a word."""
    layers = [model, *model.modules()]
    if hasattr(model, "_orig_mod") or any(layer._compiled_call_impl is not None for layer in layers):
        found = "is compiled"
    elif getattr(model, "_sightline_speed", None) is not None:
        found = f"runs at the speed {model._sightline_speed.speed!r}"
    elif any(hasattr(layer, "_hf_hook") or _has_hooks(layer) for layer in layers):
        found = "has hooks, such as those of offloading, layerwise casting and caches"
    else:
        return
    raise SightlineError(f"the transformer {found}: expected one as it was loaded; add the camera first.")


def _has_hooks(layer: nn.Module) -> bool:
    registry = getattr(layer, "_diffusers_hook", None)
    return registry is not None and bool(registry.hooks)
