"""Makes the pictures of the docs: `python docs/images.py`."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

HERE = Path(__file__).parent / "images"
WORLDS = {"walkthrough": 16, "orbit": 0, "panorama": 24, "openworld": 8}  # style: first seed
FIRST_VIEW = ("orbit", 1_000_066, 512)  # style, seed and side of the picture that ships
MOVES = ("orbit:30", "dolly:0.6", "truck:0.4", "pedestal:0.3", "pan:25", "tilt:15")
SCENES = (0, 7, 10, 14)  # of sixteen held-out clips, one of each style
ONE_MOVE = "orbit:20"
SUBJECT = 2.0  # metres: the target_depth of the moves


def main() -> None:
    sightline("trajectory", "make", "orbit:30+zoom:28>50", "--plot", str(HERE / "path.png"))
    sources = [f"worlds:{style}?clips=100" for style in WORLDS]
    sightline("data", "stats", *sources, "--frames", "33", "--size", "128x128", "--plot", str(HERE / "moments.png"))
    worlds_sheet().save(HERE / "worlds.jpg", quality=82)
    first_frame()
    moving_pictures()


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

    from sightline.generation.first_frame import FIRST_FRAME
    from sightline.worlds import film

    style, seed, _ = FIRST_VIEW
    scene, lens, pose = first_view()
    shot = film(scene, lens.replace(camera_to_world=pose[None], unit="metre"))
    note = PngInfo()
    note.add_text("Description", shot.caption)
    note.add_text("Source", f"sightline worlds, style {style}, seed {seed}")
    Image.fromarray(shot.frames[0].numpy()).save(FIRST_FRAME, optimize=True, pnginfo=note)


def first_view() -> tuple[Any, Any, Any]:
    """The scene of the picture that ships, its lens, and where it was taken from."""
    from sightline.cameras import moves
    from sightline.worlds import sample_clip

    # Square and 28 mm across, the lens of the moves: fitted to any picture at least as wide as high, it stays 28 mm.
    style, seed, side = FIRST_VIEW
    clip = sample_clip(style, seed, 33, side, side)
    lens = moves.static(frames=1, width=side, height=side)
    return clip.scene, lens, level_view(clip.scene, clip.true.camera_to_world[0], lens)


def level_view(scene: Any, pose: Any, lens: Any) -> Any:  # [4, 4] -> [4, 4]
    """What `pose` looks at, seen from as far as a move expects its subject, and level: moves turn about the camera's own axes."""
    import torch

    from sightline.worlds import film

    centre = slice(lens.width * 2 // 5, lens.width * 3 // 5)
    depth = film(scene, lens.replace(camera_to_world=pose[None], unit="metre")).depth[0, centre, centre].median()
    subject = pose[:3, 3] + depth * pose[:3, 2]
    down = torch.tensor([0.0, 1.0, 0.0], dtype=pose.dtype)
    forward = torch.nn.functional.normalize(pose[:3, 2] - down * pose[1, 2], dim=0)
    level = torch.eye(4, dtype=pose.dtype)
    level[:3, :3] = torch.stack([torch.linalg.cross(down, forward), down, forward], dim=1)
    level[:3, 3] = subject - SUBJECT * forward - 0.25 * down
    return level


def moving_pictures() -> None:
    """What the lab model films: one first frame under six moves, four scenes under one move, true beside generated."""
    import sightline as sl
    from sightline.generation.facts import LAB
    from sightline.generation.first_frame import FIRST_FRAME
    from sightline.lab.measure import film_with, held_out_clips
    from sightline.pictures import side_by_side

    pipe = sl.load_pipeline()
    picture = Image.open(FIRST_FRAME)
    films = {move: sl.generate(pipe, picture, picture.info["Description"], path(move)) for move in MOVES}
    write_moving(HERE / "moves.webp", films, columns=3)
    compare_with_truth(films)
    held_out = held_out_clips(16)
    films = {}
    for clip in (held_out[place] for place in SCENES):
        label = f"{clip.style}: {ONE_MOVE}"
        films[label] = sl.generate(pipe, clip.frames[0], clip.caption, path(ONE_MOVE))
    write_moving(HERE / "scenes.webp", films, columns=4)
    films = {}
    for clip in (held_out[place] for place in SCENES):
        made = film_with(pipe, clip, clip.trajectory, steps=LAB.steps, guidance=LAB.cfg, seed=0)
        films[f"{clip.style}: true, generated"] = side_by_side(clip.frames, made)
    write_moving(HERE / "beside.webp", films, columns=2)


def compare_with_truth(films: dict[str, np.ndarray]) -> None:
    """Prints the PSNR of each move's film, and of the frozen first frame, to what a true camera would have seen."""
    from sightline.pictures import psnr
    from sightline.worlds import film

    scene, _, pose = first_view()
    for move, made in films.items():
        way = path(move)
        true = film(scene, way.replace(camera_to_world=pose @ way.camera_to_world, unit="metre")).frames.numpy()
        for name, video in {"generated": made, "first frame frozen": np.repeat(true[:1], len(true), axis=0)}.items():
            found = psnr(video, true)
            print(f"{move}, {name}: {found[1:].mean():.2f} dB, frame 16 {found[16]:.2f}, last {found[-1]:.2f}")


def path(move: str) -> Any:
    from sightline.cameras import moves
    from sightline.lab.models import FRAMES, SIZE

    return moves.parse(move, frames=FRAMES, width=SIZE, height=SIZE)


def write_moving(file: Path, films: dict[str, np.ndarray], columns: int) -> None:
    """A grid of labelled films that plays for ever, there and back."""
    cells = []
    for label, film in films.items():
        labelled = []
        for frame in film:
            cell = Image.new("RGB", (film.shape[2] + 4, film.shape[1] + 18), "white")
            cell.paste(Image.fromarray(frame), (2, 2))
            ImageDraw.Draw(cell).text((4, film.shape[1] + 4), label, fill=(34, 38, 43), font_size=10)
            labelled.append(np.asarray(cell))
        cells.append(np.stack(labelled))
    while len(cells) % columns:
        cells.append(np.full_like(cells[0], 255))
    rows = [np.concatenate(cells[start : start + columns], axis=2) for start in range(0, len(cells), columns)]
    grid = np.concatenate(rows, axis=1)  # [T, H, W, 3]
    frames = [Image.fromarray(frame) for frame in [*grid, *grid[-2:0:-1]]]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=1000 // 16, loop=0, quality=60, method=6)


def sightline(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sightline", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
