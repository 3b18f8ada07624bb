"""Makes the pictures of the docs: `python docs/images.py`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from PIL import Image

HERE = Path(__file__).parent / "images"
WORLDS = {"walkthrough": 16, "orbit": 0, "panorama": 24, "openworld": 8}  # style: first seed


def main() -> None:
    sightline("trajectory", "make", "orbit:30+zoom:28>50", "--plot", str(HERE / "path.png"))
    sources = [f"worlds:{style}?clips=100" for style in WORLDS]
    sightline("data", "stats", *sources, "--frames", "33", "--size", "128x128", "--plot", str(HERE / "moments.png"))
    worlds_sheet().save(HERE / "worlds.jpg", quality=82)


def worlds_sheet() -> Image.Image:
    """Four clips of each style, a style in each quarter."""
    from sightline.worlds.preview import write_preview

    with tempfile.TemporaryDirectory() as folder:
        sheets = [Image.open(write_preview(style, seed, folder, clips=4)[0]).copy() for style, seed in WORLDS.items()]
    width, height = (max(side) for side in zip(*(sheet.size for sheet in sheets), strict=True))
    whole = Image.new("RGB", (2 * width, 2 * height), "white")
    for number, sheet in enumerate(sheets):
        whole.paste(sheet, (number % 2 * width, number // 2 * height))
    return whole


def sightline(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sightline", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
