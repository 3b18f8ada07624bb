"""Film an orbit with a stock Wan pipeline, and prove that an untrained camera changes nothing.

The model is a tiny Wan2.2 TI2V with random weights, so the film is noise; what it shows is the whole way from a move
to a video. Writes the video, the path as a picture and as a file, and the proof.
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

GUIDANCE = 5.0


def main(
    output: Path = Path("outputs/orbit"), frames: int = 33, width: int = 256, height: int = 160, steps: int = 4
) -> None:
    """Write video.mp4, path.png, path.json and proof.json into the output folder."""
    path = sl.moves.orbit(degrees=40, target_depth=2.0, frames=frames, width=width, height=height)
    image = first_frame(width, height)

    stock = tiny_pipeline("ti2v-5b")
    expected = film_without_camera(stock, image, path, steps)

    # The retrofit: from here on the pipeline takes a camera.
    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope())
    video = sl.generate(pipe, image, "a room at dawn", path, steps=steps, guidance=GUIDANCE)

    old, new = (sum(p.numel() for p in model.parameters()) for model in (stock.transformer, pipe.transformer))
    proof = {
        "what": "the same seed through the stock pipeline, and through the retrofit driven along the path",
        "sha256 of the stock video": hashlib.sha256(expected.tobytes()).hexdigest(),
        "sha256 of the camera's video": hashlib.sha256(video.tobytes()).hexdigest(),
        "largest difference": int(abs(video.astype(int) - expected).max()),
        "parameters": {"stock": old, "new": new - old},
    }
    output.mkdir(parents=True, exist_ok=True)
    sl.save_video(video, output / "video.mp4", fps=path.fps)
    path.plot(output / "path.png", title="orbit 40 degrees")
    path.save(output / "path.json")
    (output / "proof.json").write_text(json.dumps(proof, indent=2) + "\n")
    print(json.dumps(proof, indent=2))
    print(f"wrote video.mp4, path.png, path.json and proof.json to {output}")


def film_without_camera(pipe: Any, image: Image.Image, path: sl.Trajectory, steps: int) -> np.ndarray:
    """Plain diffusers, nothing of ours."""
    frames = pipe(
        image=image,
        prompt="a room at dawn",
        height=path.height,
        width=path.width,
        num_frames=len(path),
        num_inference_steps=steps,
        guidance_scale=GUIDANCE,
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
