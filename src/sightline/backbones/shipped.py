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


def camera() -> Path:
    """The camera weights that were trained for it: the one file beside its folder, named after its encoding."""
    files = sorted(_WEIGHTS.glob("*.safetensors"))
    if len(files) > 1:
        raise SightlineError(
            f"{_WEIGHTS} holds {', '.join(file.name for file in files)}: expected one file of camera weights."
        )
    return _require_present(files[0] if files else _WEIGHTS / "ENCODING.safetensors")


def _require_present(path: Path) -> Path:
    if not path.exists():
        raise SightlineError(
            f"{path} is missing: expected the weights that ship with sightline; install it again, or see docs/lab.md."
        )
    return path
