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
    first_frame()


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


def first_frame() -> None:
    """The picture that `sightline generate` starts from where none is given, its caption inside the file."""
    from PIL.PngImagePlugin import PngInfo

    from sightline.cameras import moves
    from sightline.generation.plan import FIRST_FRAME
    from sightline.worlds import film, sample_clip

    # Square and 28 mm across, the lens of the moves: fitted to any picture at least as wide as high, it stays 28 mm.
    style, seed, side = "orbit", 1_000_015, 512
    clip = sample_clip(style, seed, 33, side, side)
    lens = moves.static(frames=1, width=side, height=side)
    shot = film(clip.scene, lens.replace(camera_to_world=clip.true.camera_to_world[:1], unit="metre"))
    note = PngInfo()
    note.add_text("Description", shot.caption)
    note.add_text("Source", f"sightline worlds, style {style}, seed {seed}")
    Image.fromarray(shot.frames[0].numpy()).save(FIRST_FRAME, optimize=True, pnginfo=note)


def sightline(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sightline", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
