"""Generating with the released TI2V-5B configuration: seconds per step, seconds per video, and peak memory, on one GPU.

    python benchmarks/generate_5b.py                      480 x 832 x 81, 4 steps, guidance 5

Weights are random, so the video is noise; time and memory do not depend on them. The transformer and the VAE are the release's;
the text encoder is one layer of its width, since a prompt is encoded once and its 11 GB are not the question here.
"""

from __future__ import annotations

import json
import statistics
from pathlib import Path

import numpy as np
import torch
import tyro

import sightline as sl
from sightline.backbones.wan_configs import TI2V_5B
from sightline.bench.random_pipeline import random_pipeline
from sightline.timing import StepTimer, peak_gpu_gib, reset_peak_memory, synchronized_time


def main(
    num_inference_steps: int = 4, num_frames: int = 81, width: int = 832, height: int = 480, guidance_scale: float = 5.0,
    compile: bool = False, output: Path | None = None,
) -> None:  # fmt: skip
    device = torch.device("cuda")
    pipe = sl.attach_camera(random_pipeline(TI2V_5B, device), sl.Scope())
    with torch.no_grad():
        for layer in pipe.transformer.encoding_layers:  # as if trained: a zero would hide a broken addition
            layer.alpha_q.fill_(0.3)
            layer.alpha_k.fill_(0.3)
    if compile:
        pipe.transformer.compile_repeated_blocks(fullgraph=True)
    trajectory = sl.moves.orbit(degrees=30, target_depth=2.0, frames=num_frames, width=width, height=height)
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    timer = StepTimer(device)
    reset_peak_memory(device)
    started = synchronized_time(device)
    video = sl.generate(
        pipe, image, "a room", trajectory, num_inference_steps=num_inference_steps, guidance_scale=guidance_scale,
        callback_on_step_end=timer.end_step,
    )  # fmt: skip
    ended = synchronized_time(device)
    results = {
        "command": f"python benchmarks/generate_5b.py --num-inference-steps {num_inference_steps}"
        + (" --compile" if compile else ""),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "video": list(video.shape),
        "seconds per step, two passes": statistics.median(timer.seconds[1:]),  # the first one's start is not known
        "seconds in all": ended - started,
        "seconds after the last step, decoding": ended - (timer.last or ended),
        "peak GiB": peak_gpu_gib(device),
    }
    print(json.dumps(results, indent=2))
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
