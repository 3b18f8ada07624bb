"""Makes the pictures of the docs: `python docs/images.py`.

`python docs/images.py --candidates 80` looks for a first frame to ship: see `try_first_views`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import cache, partial
from itertools import count, islice
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

HERE = Path(__file__).parent / "images"
WORLDS = {"walkthrough": 16, "orbit": 0, "panorama": 24, "openworld": 8}  # style: first seed
FIRST_VIEW = ("orbit", 1_000_039)  # style and seed of the picture that ships
SIDE = 512  # pixels of it, across and down
MOVES = ("orbit:30", "dolly:0.6", "truck:0.4", "pedestal:0.3", "pan:25", "tilt:15")
SCENES = (0, 7, 10, 14)  # of sixteen held-out clips, one of each style
ONE_MOVE = "orbit:20"
SUBJECT = 2.0  # metres: the target_depth of the moves


def main() -> None:
    sources = [f"worlds:{style}?clips=100" for style in WORLDS]
    sightline("data", "stats", *sources, "--num-frames", "33", "--size", "128x128", "--plot", str(HERE / "moments.png"))
    worlds_sheet().save(HERE / "worlds.jpg", quality=82)
    first_frame()
    six_moves()
    four_scenes()


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

    style, seed = FIRST_VIEW
    shot = still(*first_view(style, seed))
    note = PngInfo()
    note.add_text("Description", shot.caption)
    note.add_text("Source", f"sightline worlds, style {style}, seed {seed}")
    Image.fromarray(shot.frames[0].numpy()).save(FIRST_FRAME, optimize=True, pnginfo=note)


@cache
def first_view(style: str, seed: int, side: int = SIDE) -> tuple[Any, Any, Any]:
    """A scene, the lens of a first frame of it, and where that is taken from."""
    from sightline.cameras import moves
    from sightline.worlds import sample_clip

    # Square and 28 mm across, the lens of the moves: fitted to any picture at least as wide as high, it stays 28 mm.
    clip = sample_clip(style, seed, 33, side, side)
    lens = moves.static(frames=1, width=side, height=side)
    return clip.scene, lens, level_view(clip.scene, clip.true_trajectory.camera_to_world[0], lens)


def still(scene: Any, lens: Any, pose: Any) -> Any:  # a video of one frame
    from sightline.worlds import render_clip

    return render_clip(scene, lens.replace(camera_to_world=pose[None], unit="metre"))


def level_view(scene: Any, pose: Any, lens: Any) -> Any:  # [4, 4] -> [4, 4]
    """What `pose` looks at, seen from as far as a move expects its subject, and level: moves turn about the camera's own axes."""
    import torch

    centre = slice(lens.width * 2 // 5, lens.width * 3 // 5)
    depth = still(scene, lens, pose).depth[0, centre, centre].median()
    subject = pose[:3, 3] + depth * pose[:3, 2]
    down = torch.tensor([0.0, 1.0, 0.0], dtype=pose.dtype)
    forward = torch.nn.functional.normalize(pose[:3, 2] - down * pose[1, 2], dim=0)
    level = torch.eye(4, dtype=pose.dtype)
    level[:3, :3] = torch.stack([torch.linalg.cross(down, forward), down, forward], dim=1)
    level[:3, 3] = subject - SUBJECT * forward - 0.25 * down
    return level


def six_moves() -> None:
    """Six videos that the lab model generates from the shipped first frame, one per move; prints their PSNR to the true view."""
    videos = {move: generate_from(FIRST_VIEW, move) for move in MOVES}
    write_animation(HERE / "moves.webp", videos, columns=3)
    for move, generated in videos.items():
        print(against_truth(FIRST_VIEW, move, generated)[1])


def four_scenes() -> None:
    """Four held-out scenes with one move, and the true video beside the generated one."""
    import sightline as sl
    from sightline.backbones.model_info import LAB
    from sightline.evaluation.held_out import held_out_clips
    from sightline.evaluation.lab_psnr import generate_clip
    from sightline.figures import side_by_side

    pipe = shipped_pipeline()
    held_out = held_out_clips(16)
    videos = {}
    for clip in (held_out[index] for index in SCENES):
        label = f"{clip.source}: {ONE_MOVE}"
        videos[label] = sl.generate(pipe, clip.frames[0], clip.caption, trajectory_of(ONE_MOVE))
    write_animation(HERE / "scenes.webp", videos, columns=4)
    videos = {}
    for clip in (held_out[index] for index in SCENES):
        generated = generate_clip(
            pipe,
            clip,
            clip.trajectory,
            num_inference_steps=LAB.num_inference_steps,
            guidance_scale=LAB.guidance_scale,
            seed=0,
        )
        videos[f"{clip.source}: true, generated"] = side_by_side(clip.frames, generated)
    write_animation(HERE / "beside.webp", videos, columns=2)


def generate_from(view: tuple[str, int], move: str, **options: Any) -> np.ndarray:  # [T, H, W, 3] uint8
    """The video that the lab model generates from the first frame of a view (style, seed)."""
    import sightline as sl

    shot = still(*first_view(*view))
    return sl.generate(shipped_pipeline(), shot.frames[0].numpy(), shot.caption, trajectory_of(move), **options)


def against_truth(view: tuple[str, int], move: str, generated: np.ndarray) -> tuple[float, str]:
    """PSNR of a video to the true view, in dB above that of its first frame repeated; and a line of text with details."""
    from sightline.images import psnr
    from sightline.worlds import render_clip

    scene, _, pose = first_view(*view)
    trajectory = trajectory_of(move)
    poses = pose @ trajectory.camera_to_world
    true = render_clip(scene, trajectory.replace(camera_to_world=poses, unit="metre")).frames.numpy()
    frozen = np.repeat(true[:1], len(true), axis=0)
    middle = trajectory.height // 2
    parts = {
        "all": np.s_[1:],
        "last frame": np.s_[-1:],
        "upper half": np.s_[1:, :middle],
        "lower half": np.s_[1:, middle:],
    }
    scores = {
        name: [psnr(video[part], true[part]).mean() for video in (generated, frozen)] for name, part in parts.items()
    }
    words = ", ".join(f"{name} {own:.2f} dB (frozen {baseline:.2f})" for name, (own, baseline) in scores.items())
    return float(scores["all"][0] - scores["all"][1]), f"{view[0]} {view[1]}, {move}: {words}"


def try_first_views(number: int) -> None:
    """Print how well the lab model does from other first frames, all of scenes that are not in the training data.

    First the default move, in 4 steps, from the first `number` views that have something to go around. Then all moves, with the
    default number of steps, from the three views with the largest gain over the first frame repeated.
    """
    views = islice((view for seed in count(1_000_000) if stands_free(view := ("orbit", seed))), number)
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        ranked = sorted(pool.map(partial(try_view, move=MOVES[0], num_inference_steps=4), views), reverse=True)
        for _, words, _ in ranked:
            print(words, flush=True)
        best = [(view, move) for _, _, view in ranked[:3] for move in MOVES]
        for _, words, _ in pool.map(try_view, *zip(*best, strict=True)):
            print(words, flush=True)


def stands_free(view: tuple[str, int]) -> bool:
    """Whether something stands where the moves expect their subject, with nothing right before the camera and room behind it."""
    depth = still(*first_view(*view, side=128)).depth[0]
    subject = depth[64:90, 51:77].median()  # a little under the middle: the camera looks over it
    return bool(abs(subject - SUBJECT) < 0.2 and depth.min() > 1.0 and depth.median() > 1.5 * SUBJECT)


def try_view(view: tuple[str, int], move: str, **options: Any) -> tuple[float, str, tuple[str, int]]:
    return (*against_truth(view, move, generate_from(view, move, **options)), view)


@cache
def shipped_pipeline() -> Any:
    import sightline as sl

    return sl.load_pipeline()


def trajectory_of(move: str) -> Any:
    from sightline.cameras import moves
    from sightline.lab.models import NUM_FRAMES, SIZE

    return moves.parse(move, frames=NUM_FRAMES, width=SIZE, height=SIZE)


def write_animation(file: Path, videos: dict[str, np.ndarray], columns: int) -> None:
    """Write a grid of labelled videos that plays forwards and backwards in a loop."""
    cells = []
    for label, video in videos.items():
        labelled = []
        for frame in video:
            cell = Image.new("RGB", (video.shape[2] + 4, video.shape[1] + 18), "white")
            cell.paste(Image.fromarray(frame), (2, 2))
            ImageDraw.Draw(cell).text((4, video.shape[1] + 4), label, fill=(34, 38, 43), font_size=10)
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
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--candidates", type=int, metavar="N", help="only try N other first frames, and print the numbers"
    )
    asked = parser.parse_args().candidates
    main() if asked is None else try_first_views(asked)
