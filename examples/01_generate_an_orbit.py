"""Generate a video along an orbit with a stock Wan pipeline, and show that an untrained camera does not change the output.

The model is a tiny Wan2.2 TI2V with random weights, so the video is noise. The example shows every step from a camera move to
a video file. It writes the video, the trajectory as a picture and as a file, and the comparison.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from PIL import Image, ImageDraw

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline

GUIDANCE_SCALE = 5.0


def main(
    output: Path = Path("outputs/orbit"),
    num_frames: int = 33,
    width: int = 256,
    height: int = 160,
    num_inference_steps: int = 4,
) -> None:
    """Write video.mp4, trajectory.png, trajectory.json and comparison.json into the output folder."""
    trajectory = sl.moves.orbit(degrees=40, target_depth=2.0, frames=num_frames, width=width, height=height)
    image = first_frame(width, height)

    stock = tiny_pipeline("ti2v-5b")
    expected = generate_without_camera(stock, image, trajectory, num_inference_steps)

    # Add an untrained camera encoding; from here on the pipeline takes a trajectory.
    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope())
    video = sl.generate(
        pipe,
        image,
        "a room at dawn",
        trajectory,
        num_inference_steps=num_inference_steps,
        guidance_scale=GUIDANCE_SCALE,
    )

    old, new = (sum(p.numel() for p in model.parameters()) for model in (stock.transformer, pipe.transformer))
    comparison = {
        "stock_sha256": hashlib.sha256(expected.tobytes()).hexdigest(),
        "camera_sha256": hashlib.sha256(video.tobytes()).hexdigest(),
        "largest_difference": int(abs(video.astype(int) - expected).max()),
        "parameters": {"stock": old, "new": new - old},
    }
    output.mkdir(parents=True, exist_ok=True)
    sl.save_video(video, output / "video.mp4", fps=trajectory.fps)
    trajectory.plot(output / "trajectory.png", title="orbit 40 degrees")
    trajectory.save(output / "trajectory.json")
    (output / "comparison.json").write_text(json.dumps(comparison, indent=2) + "\n")
    print(json.dumps(comparison, indent=2))
    print(f"wrote video.mp4, trajectory.png, trajectory.json and comparison.json to {output}")


def generate_without_camera(
    pipe: Any, image: Image.Image, trajectory: sl.Trajectory, num_inference_steps: int
) -> np.ndarray:
    """The same call with diffusers alone."""
    frames = pipe(
        image=image,
        prompt="a room at dawn",
        height=trajectory.height,
        width=trajectory.width,
        num_frames=len(trajectory),
        num_inference_steps=num_inference_steps,
        guidance_scale=GUIDANCE_SCALE,
        generator=torch.Generator().manual_seed(0),
        output_type="np",
    ).frames[0]
    return (frames * 255).round().astype("uint8")


def first_frame(width: int, height: int) -> Image.Image:
    """A drawn room, so that the example needs no file."""
    picture = Image.new("RGB", (width, height), (206, 196, 178))
    draw = ImageDraw.Draw(picture)
    draw.polygon(
        [(0, height), (width, height), (width * 3 // 4, height * 3 // 5), (width // 4, height * 3 // 5)], (140, 110, 84)
    )
    draw.rectangle([width // 3, height // 5, width // 2, height // 2], (150, 190, 220))
    draw.ellipse([width * 3 // 5, height // 2, width * 4 // 5, height * 4 // 5], (178, 74, 58))
    return picture


if __name__ == "__main__":
    tyro.cli(main)
