"""The picture that films start from where none is given: square, 28 mm across, made by docs/images.py."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

FIRST_FRAME = Path(__file__).with_name("first_frame.png")


def shipped_caption() -> str:
    """What it shows."""
    with Image.open(FIRST_FRAME) as picture:
        return str(picture.info["Description"])
