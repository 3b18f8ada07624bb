"""The first frame that is used where none is given: square, seen through a 28 mm lens, rendered by docs/images.py."""

from __future__ import annotations

from pathlib import Path

from PIL import Image

FIRST_FRAME = Path(__file__).with_name("first_frame.png")


def shipped_caption() -> str:
    """The caption of that frame, which its file holds."""
    with Image.open(FIRST_FRAME) as picture:
        return str(picture.info["Description"])
