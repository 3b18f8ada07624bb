"""Looking at films: the contact sheet of the whole project, films side by side, and how far two are apart."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image, ImageDraw, ImageFont

from sightline.errors import SightlineError
from sightline.images import as_frames

COLUMNS = 6
_WIDEST = 1600  # pixels; larger frames are scaled down until a row fits
_GAP, _TEXT, _FONT = 4, 18, 11
_PAPER, _INK = (250, 249, 246), (34, 38, 43)


def contact_sheet(videos: Sequence[Any], captions: Sequence[str], columns: int = COLUMNS) -> Image.Image:
    """A row for each film, its frames from first to last, and its caption under them. videos: each [T, H, W, 3]."""
    films = [as_frames(video) for video in videos]
    height, width = films[0].shape[1:3]
    columns = min(columns, max(len(film) for film in films))
    share = min(1.0, ((_WIDEST - _GAP) / columns - _GAP) / width)
    width, height = max(1, int(width * share)), max(1, round(height * share))
    sheet = Image.new("RGB", (columns * (width + _GAP) + _GAP, len(films) * (height + _TEXT + _GAP) + _GAP), _PAPER)
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(_FONT)
    for row, (film, caption) in enumerate(zip(films, captions, strict=True)):
        top = _GAP + row * (height + _TEXT + _GAP)
        shown = np.linspace(0, len(film) - 1, min(columns, len(film))).round().astype(int)
        for column, frame in enumerate(shown):
            picture = Image.fromarray(film[frame])
            if picture.size != (width, height):
                picture = picture.resize((width, height), Image.Resampling.LANCZOS)
            sheet.paste(picture, (_GAP + column * (width + _GAP), top))
        draw.text((_GAP, top + height + 2), _shortened(caption, font, sheet.width - 2 * _GAP), fill=_INK, font=font)
    return sheet


def side_by_side(*videos: Any) -> np.ndarray:  # [T, H, W, 3] each -> [T, H, sum of W, 3] uint8
    """Films of equal length and height in one picture, left to right."""
    films = [as_frames(video) for video in videos]
    if len({film.shape[:2] for film in films}) != 1:
        raise SightlineError(
            f"videos have the shapes {[film.shape for film in films]}: expected one length and height."
        )
    return np.concatenate(films, axis=2)


def _shortened(text: str, font: Any, width: int) -> str:
    """The text on one line, cut where it would leave the sheet."""
    text = " ".join(text.split())
    if font.getlength(text) <= width:
        return text
    while text and font.getlength(f"{text}...") > width:
        text = text[:-1]
    return f"{text.rstrip()}..."
