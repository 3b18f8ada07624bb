"""Contact sheets of videos, and videos side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sightline.errors import SightlineError
from sightline.images import as_frames

COLUMNS = 6
_MAX_WIDTH = 1600  # pixels; larger frames are scaled down until a row fits
_GAP, _TEXT, _FONT = 4, 18, 11
_PAPER, _INK = (250, 249, 246), (34, 38, 43)


def contact_sheet(videos: Sequence[Any], captions: Sequence[str]) -> Image.Image:
    """A row for each video: its frames from first to last, and its caption below. videos: each [T, H, W, 3]."""
    rows = [as_frames(video) for video in videos]
    height, width = rows[0].shape[1:3]
    columns = min(COLUMNS, max(len(frames) for frames in rows))
    scale = min(1.0, ((_MAX_WIDTH - _GAP) / columns - _GAP) / width)
    width, height = max(1, int(width * scale)), max(1, round(height * scale))
    sheet = Image.new("RGB", (columns * (width + _GAP) + _GAP, len(rows) * (height + _TEXT + _GAP) + _GAP), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT)
    for row, (frames, caption) in enumerate(zip(rows, captions, strict=True)):
        top = _GAP + row * (height + _TEXT + _GAP)
        shown = np.linspace(0, len(frames) - 1, min(columns, len(frames))).round().astype(int)
        for column, frame in enumerate(shown):
            image = Image.fromarray(frames[frame])
            if image.size != (width, height):
                image = image.resize((width, height), Image.Resampling.LANCZOS)
            sheet.paste(image, (_GAP + column * (width + _GAP), top))
        draw.text((_GAP, top + height + 2), _shorten(caption, font, sheet.width - 2 * _GAP), fill=_INK, font=font)
    return sheet


def side_by_side(*videos: Any) -> np.ndarray:  # [T, H, W, 3] each -> [T, H, sum of W, 3] uint8
    """Videos of equal length and height in one, left to right."""
    parts = [as_frames(video) for video in videos]
    if len({frames.shape[:2] for frames in parts}) != 1:
        raise SightlineError(
            f"videos have the shapes {[frames.shape for frames in parts]}: expected one length and height."
        )
    return np.concatenate(parts, axis=2)


def _shorten(text: str, font: Any, width: int) -> str:
    """The text on one line, cut to the width."""
    text = " ".join(text[: 4 * width].split())  # no letter is narrower than a quarter of a pixel
    text = text.encode("utf-8", "replace").decode()
    if font.getlength(text) <= width:
        return text
    fitting, too_long = 0, len(text)
    while too_long - fitting > 1:
        middle = (fitting + too_long) // 2
        fitting, too_long = (middle, too_long) if font.getlength(f"{text[:middle]}...") <= width else (fitting, middle)
    return f"{text[:fitting].rstrip()}..."
