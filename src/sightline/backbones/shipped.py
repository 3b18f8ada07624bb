"""Paths of the weights that ship with the package: the lab model without a camera, and camera weights for it."""

from __future__ import annotations

from pathlib import Path

from sightline.errors import SightlineError

_WEIGHTS = Path(__file__).parent / "weights"


def base() -> Path:
    """The folder of the lab model without a camera, a complete pipeline in diffusers' layout."""
    return part("transformer").parent


def resolve(model: str | Path) -> str | Path:
    """The folder of the lab model for the name "lab"; any other model as it is."""
    return base() if model == "lab" else model


def part(name: str) -> Path:
    """The folder of one of its components, such as vae."""
    return _require_present(_WEIGHTS / "base" / name)


def camera(name: str = "scope") -> Path:
    """The camera weights of one encoding that was trained for it."""
    return _require_present(_WEIGHTS / f"{name}.safetensors")


def _require_present(path: Path) -> Path:
    if not path.exists():
        raise SightlineError(
            f"{path} is missing: expected the weights that ship with sightline; install it again, or see docs/lab.md."
        )
    return path
