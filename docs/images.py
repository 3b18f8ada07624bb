"""Makes the pictures of the docs: `python docs/images.py`.

`python docs/images.py --videos-only -o FOLDER --camera-guidance-scale 2` makes only what the model generates, in another folder.
docs/views.py says what the pictures show.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw
from views import LOOPS, MOVES, chosen_view, first_view, still, trajectory_of, true_video

HERE = Path(__file__).parent / "images"
WORLDS = {"walkthrough": 16, "orbit": 0, "panorama": 24, "openworld": 8}  # style: first seed
SCENES = (0, 7, 10, 14)  # of sixteen held-out clips, one of each style
ONE_MOVE = ("orbit:20", "orbit 20°")
ZOOM = 2  # animations are shown at this multiple of the model's own pixels
GAP = 2  # of the model's own pixels, between a true and a generated video


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder for the pictures")
    parser.add_argument("--videos-only", action="store_true", help="only the videos that the model generates")
    parser.add_argument("--model", default=None, help="another pipeline than the one that ships; with --camera")
    parser.add_argument("--camera", type=Path, default=None, help="its camera weights")
    parser.add_argument("--camera-guidance-scale", type=float, default=1.0)
    asked = parser.parse_args()
    asked.output.mkdir(parents=True, exist_ok=True)
    if not asked.videos_only:
        pictures_without_a_model(asked.output)
    videos = Videos(asked.output, asked.model, asked.camera, asked.camera_guidance_scale)
    videos.six_moves()
    videos.loops()
    videos.four_scenes()


def pictures_without_a_model(folder: Path) -> None:
    sources = [f"worlds:{style}?clips=100" for style in WORLDS]
    sightline(
        "data", "stats", *sources, "--num-frames", "33", "--size", "128x128", "--plot", str(folder / "moments.png")
    )
    worlds_sheet().save(folder / "worlds.jpg", quality=82)
    first_frame()


def worlds_sheet() -> Image.Image:
    """Four clips of each style, a style in each quarter."""
    from sightline.figures.preview import write_world_preview

    with tempfile.TemporaryDirectory() as folder:
        sheets = [
            Image.open(write_world_preview(style, seed, folder, clips=4)[0]).copy() for style, seed in WORLDS.items()
        ]
    width, height = (max(side) for side in zip(*(sheet.size for sheet in sheets), strict=True))
    combined = Image.new("RGB", (2 * width, 2 * height), "white")
    for number, sheet in enumerate(sheets):
        combined.paste(sheet, (number % 2 * width, number // 2 * height))
    return combined


def first_frame() -> None:
    """The picture that `sightline generate` starts from where none is given, its caption inside the file."""
    from PIL.PngImagePlugin import PngInfo

    from sightline.generation.first_frame import FIRST_FRAME

    style, seed = chosen_view()
    shot = still(*first_view(style, seed))
    note = PngInfo()
    note.add_text("Description", shot.caption)
    note.add_text("Source", f"sightline worlds, style {style}, seed {seed}")
    Image.fromarray(shot.frames[0].numpy()).save(FIRST_FRAME, optimize=True, pnginfo=note)


@dataclass
class Videos:
    """The videos that a model generates, into a folder."""

    folder: Path
    model: str | None  # None is the model that ships, with its camera weights
    camera: Path | None
    camera_guidance_scale: float

    @cached_property
    def pipe(self) -> Any:
        import sightline as sl

        return sl.load_pipeline(self.model, self.camera)

    def generate(self, view: tuple[str, int], move: str) -> np.ndarray:  # [T, H, W, 3] uint8
        """A video from the first frame of a view (style, seed)."""
        shot = still(*first_view(*view))
        return self.generate_from(shot.frames[0].numpy(), shot.caption, move)

    def generate_from(self, image: np.ndarray, caption: str, move: str) -> np.ndarray:
        import sightline as sl

        return sl.generate(
            self.pipe, image, caption, trajectory_of(move), camera_guidance_scale=self.camera_guidance_scale
        )

    def six_moves(self) -> None:
        """The first frame that ships under six moves; prints how close to the truth."""
        view = chosen_view()
        videos = {move: self.generate(view, move) for move in MOVES}
        write_animation(self.folder / "moves.webp", {MOVES[move]: video for move, video in videos.items()}, columns=3)
        for move, generated in videos.items():
            print(against_truth(view, move, generated))

    def loops(self) -> None:
        """Two loops from the same first frame, true beside generated; prints how close the last frame is to the first."""
        from sightline.images import psnr

        view, videos = chosen_view(), {}
        for move, label in LOOPS.items():
            generated = self.generate(view, move)
            videos[f"{label}: true, generated"] = beside(true_video(view, move), generated)
            middle, last = (psnr(generated[[index]], generated[:1])[0] for index in (len(generated) // 2, -1))
            print(against_truth(view, move, generated))
            print(f"{move}: to its own first frame, halfway {middle:.2f} dB, last {last:.2f} dB")
        write_animation(self.folder / "loop.webp", videos, columns=2, and_back=False)

    def four_scenes(self) -> None:
        """Four held-out scenes under one move, and true beside generated."""
        from sightline.backbones.model_info import LAB
        from sightline.evaluation.held_out import held_out_clips
        from sightline.evaluation.lab_psnr import generate_clip

        held_out = held_out_clips(16)
        clips = [held_out[index] for index in SCENES]
        move, label = ONE_MOVE
        videos = {f"{c.source}, {label}": self.generate_from(c.frames[0], c.caption, move) for c in clips}
        write_animation(self.folder / "scenes.webp", videos, columns=4)
        videos = {}
        for clip in clips:
            generated = generate_clip(
                self.pipe,
                clip,
                clip.trajectory,
                num_inference_steps=LAB.num_inference_steps,
                guidance_scale=LAB.guidance_scale,
                camera_guidance_scale=self.camera_guidance_scale,
                seed=0,
            )
            videos[f"{clip.source}: true, generated"] = beside(clip.frames, generated)
        write_animation(self.folder / "beside.webp", videos, columns=2)


def against_truth(view: tuple[str, int], move: str, generated: np.ndarray) -> str:
    """How close a video is to what a true camera would have seen, beside its frozen first frame (PSNR in dB)."""
    from sightline.images import psnr

    true = true_video(view, move)
    frozen = np.repeat(true[:1], len(true), axis=0)
    middle = true.shape[1] // 2
    parts = {
        "all": np.s_[1:],
        "last frame": np.s_[-1:],
        "upper half": np.s_[1:, :middle],
        "lower half": np.s_[1:, middle:],
    }
    found = {
        name: [psnr(video[part], true[part]).mean() for video in (generated, frozen)] for name, part in parts.items()
    }
    words = ", ".join(f"{name} {mine:.2f} dB (frozen {theirs:.2f})" for name, (mine, theirs) in found.items())
    return f"{view[0]} {view[1]}, {move}: {words}"


def beside(true: np.ndarray, generated: np.ndarray) -> np.ndarray:  # [T, H, W, 3] x2 -> [T, H, 2 W + GAP, 3]
    """The two videos with a white gap between them."""
    from sightline.figures import side_by_side

    return side_by_side(true, np.full_like(true[:, :, :GAP], 255), generated)


def write_animation(file: Path, videos: dict[str, np.ndarray], columns: int, and_back: bool = True) -> None:
    """Write a grid of labelled videos that plays in a loop: forwards, and backwards unless the videos themselves return."""
    cells = []
    for label, video in videos.items():
        width, height = ZOOM * video.shape[2], ZOOM * video.shape[1]
        labelled = []
        for frame in video:
            cell = Image.new("RGB", (width + 8, height + 36), "white")
            cell.paste(Image.fromarray(frame).resize((width, height), Image.Resampling.BICUBIC), (4, 4))
            ImageDraw.Draw(cell).text((6, height + 8), label, fill=(34, 38, 43), font_size=18)
            labelled.append(np.asarray(cell))
        cells.append(np.stack(labelled))
    while len(cells) % columns:
        cells.append(np.full_like(cells[0], 255))
    rows = [np.concatenate(cells[start : start + columns], axis=2) for start in range(0, len(cells), columns)]
    grid = np.concatenate(rows, axis=1)  # [T, H, W, 3]
    frames = [Image.fromarray(frame) for frame in [*grid, *(grid[-2:0:-1] if and_back else ())]]
    frames[0].save(file, save_all=True, append_images=frames[1:], duration=1000 // 16, loop=0, quality=45, method=6)


def sightline(*arguments: str) -> None:
    subprocess.run([sys.executable, "-m", "sightline", *arguments], check=True, stdout=subprocess.DEVNULL)


if __name__ == "__main__":
    main()
