"""Where the weights lie that ship with the package: a camera-free base in diffusers' layout, and camera files for it."""

from __future__ import annotations

from pathlib import Path

from sightline.errors import SightlineError

_WEIGHTS = Path(__file__).parent / "weights"


def base() -> Path:
    """The camera-blind lab model, a whole pipeline."""
    return part("transformer").parent


def part(name: str) -> Path:
    """One part of it, such as vae."""
    return _present(_WEIGHTS / "base" / name)


def camera(name: str = "scope") -> Path:
    """A camera trained for it."""
    return _present(_WEIGHTS / f"{name}.safetensors")


def _present(path: Path) -> Path:
    if not path.exists():
        raise SightlineError(
            f"{path} is missing: expected the weights that ship with sightline; install it again, or see docs/lab.md."
        )
    return path
