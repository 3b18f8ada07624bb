"""Seconds of a training step and of a denoising step of a row, measured while nothing else runs, in a file for all processes.

DIR/timing/CELL/timing.json         for the number of steps that fit into a time
DIR/timing/CELL/SEED/timing.json    of each seed, as a result
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from sightline.cameras.token_grid import TokenGrid
from sightline.documents import read_json
from sightline.files import write_atomic
from sightline.settings import convert
from sightline.study.history import step_seconds
from sightline.study.measure import Measurer
from sightline.timing import time_calls, warm_up
from sightline.training.objective import autocast

TIMED_STEPS = 24
_TIMED_CALLS = 20
_TIMING = "timing.json"


def read_or_measure(folder: Path, train: Callable[[Path], Any], measurer: Measurer, clips: int) -> dict[str, float]:
    """step_seconds and denoise_seconds. train: trains TIMED_STEPS steps in a folder and returns the model. clips: that are
    denoised together, as many as are trained together: with few of them, a GPU waits for the process that starts its kernels."""
    file, run = folder / _TIMING, folder / "run"
    if not file.is_file():
        shutil.rmtree(run, ignore_errors=True)
        model = train(run)
        times = {"step_seconds": step_seconds(run), "denoise_seconds": _denoise_seconds(model, measurer, clips)}
        write_atomic(file, json.dumps(times) + "\n")
        shutil.rmtree(run, ignore_errors=True)
    return convert(dict[str, float], read_json(file, "the times of a row"), str(file))


@torch.no_grad()
def _denoise_seconds(model: Any, measurer: Measurer, clips: int) -> float:
    batch = measurer.feed.validation([0] * clips, measurer.device)
    tokens = TokenGrid.from_latents(batch.latents.shape, model.config.patch_size).num_tokens
    times = torch.full((clips, tokens), 500.0, device=measurer.device)  # one per token, as the first frame is given
    inputs: dict[str, Any] = {"timestep": times, "return_dict": False}
    if hasattr(model, "encoding_layers"):
        inputs["attention_kwargs"] = {"camera": batch.camera_tokens}

    def step() -> None:
        with autocast(measurer.recipe, measurer.device):
            model(batch.latents, encoder_hidden_states=batch.text, **inputs)

    warm_up(step, 3, measurer.device)
    return time_calls(step, _TIMED_CALLS, measurer.device).median
