"""Rehearses the way from RealEstate10K's archive to camera weights on a small copy: `python benchmarks/rehearse_re10k.py`.

It renders walkthroughs of procedural worlds, joins them to long videos as YouTube has them, and writes pose files in the
archive's layout. Then it runs the commands of docs/training.md one after the other, with small sizes and with the lab model in
place of Wan2.2: cut, stats, cache, train (the paper's recipe), export, generate. Takes a minute; the model learns nothing.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from pathlib import Path

import numpy as np
from PIL import Image

from sightline.cli import main as sightline
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import open_sources
from sightline.video import save_video

FPS, MARGIN = 30.0, 7  # frames of a video before, between and after its shots
SHOTS_PER_VIDEO = 2
SIZE, NUM_FRAMES = "64x64", 9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-o", "--output", type=Path, default=Path("outputs/rehearsal"), help="a new folder")
    parser.add_argument(
        "--shots", type=int, default=8, help="shots of the training split; the test split has half of them"
    )
    options = parser.parse_args()
    out, root, videos = options.output, options.output / "re10k", options.output / "videos"
    if out.exists():
        raise SystemExit(f"{out} exists: expected a new folder.")
    for split, shots, seed in (("train", options.shots, 0), ("test", max(options.shots // 2, 2), 1000)):
        write_split(root, videos, split, shots, seed)
    gone = sorted(videos.iterdir())[-1]
    shutil.move(gone, out / gone.name)  # one video that is no longer on YouTube

    clips = ["--num-frames", str(NUM_FRAMES), "--size", SIZE]
    steps = [
        ["data", "cut", root, "--videos", videos, "--height", "72", "--missing", out / "missing.txt"],
        ["data", "cut", root, "--videos", videos, "--height", "72", "--split", "test", "--missing", out / "missing-test.txt"],
        ["data", "stats", f"re10k:{root}", *clips, "--plot", out / "moments.png"],
        ["data", "cache", f"re10k:{root}", "--model", "lab", "-o", out / "cache", *clips],
        ["data", "cache", f"re10k:{root}?split=test", "--model", "lab", "-o", out / "cache-test", *clips],
        ["train", "paper-5b", "--output", out / "run", *small_recipe(out)],
        ["train", "export", out / "run", out / "scope"],
        generate_command(root, out),
    ]  # fmt: skip
    for step in steps:
        run([str(word) for word in step])
    print(f"the whole chain ran; the camera weights are in {out / 'scope'}, a video in {out / 'video'}")


def write_split(root: Path, videos: Path, split: str, shots: int, seed: int) -> None:
    """Pose files in the archive's layout, the videos that they refer to, and captions."""
    spec = ClipSpec(num_frames=2 * NUM_FRAMES + 3, width=128, height=72)
    clips = list(Clips(open_sources([f"worlds:walkthrough?clips={shots}&seed={seed}"]), spec))
    captions = {}
    for first in range(0, shots, SHOTS_PER_VIDEO):
        video_id = f"rehearsal-{split}-{first:03d}"
        frames: list[np.ndarray] = []
        for number, clip in enumerate(clips[first : first + SHOTS_PER_VIDEO], start=first):
            frames += [np.zeros_like(clip.frames[0])] * MARGIN
            write_poses(root / split / f"shot{seed + number:05d}.txt", clip, video_id, start=len(frames))
            Image.fromarray(clip.frames[0]).save(root / split / f"shot{seed + number:05d}.png")
            frames += list(clip.frames)
            captions[f"shot{seed + number:05d}.mp4"] = [clip.caption]
        save_video(np.stack([*frames, *[np.zeros_like(frames[0])] * MARGIN]), videos / f"{video_id}.mp4", fps=FPS)
    path = root / "captions" / f"{split}.json"  # as any captioner would leave them
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(captions))


def write_poses(path: Path, clip: Clip, video_id: str, start: int) -> None:
    """The clip's cameras with the timestamps of its frames in the video, the first of which is frame `start`."""
    clip.trajectory.save(path, format="re10k")
    rows = [line.split() for line in path.read_text().splitlines()[1:]]
    stamps = [round((start + frame) / FPS * 1_000_000) for frame in range(len(rows))]
    lines = [" ".join([str(stamp), *row[1:]]) for stamp, row in zip(stamps, rows, strict=True)]
    path.write_text("\n".join([f"https://www.youtube.com/watch?v={video_id}", *lines]) + "\n")


def small_recipe(out: Path) -> list[object]:
    """What makes the paper's recipe run in a minute on a CPU. Everything else stays as it is."""
    width, height = SIZE.split("x")
    return [
        "--model.base", "lab", "--data.cache", out / "cache", "--data.validation-cache", out / "cache-test",
        "--data.num-frames", NUM_FRAMES, "--data.width", width, "--data.height", height, "--data.max-sequence-length", "64",
        "--optimizer.max-steps", "3", "--optimizer.batch-size", "2", "--validation.num-clips", "2",
        "--validation.num-videos", "1", "--validation.num-inference-steps", "2", "--dtype", "float32", "--report-to", "none",
    ]  # fmt: skip


def generate_command(root: Path, out: Path) -> list[object]:
    """A video from the first frame of a test shot, along its own cameras, with the trained weights."""
    poses = sorted((root / "test").glob("*.txt"))[0]
    return [
        "generate", "--model", "lab", "--camera", out / "scope", "--image", poses.with_suffix(".png"), "--prompt", "a room",
        "--trajectory", poses, "--num-frames", NUM_FRAMES, "--size", SIZE, "--num-inference-steps", "2", "-o", out / "video",
    ]  # fmt: skip


def run(arguments: list[str]) -> None:
    print(f"\n$ sightline {' '.join(arguments)}", flush=True)
    started = time.perf_counter()
    code = sightline(arguments)
    if code:
        raise SystemExit(f"this step failed with exit code {code}")
    print(f"({time.perf_counter() - started:.0f} s)")


if __name__ == "__main__":
    main()
