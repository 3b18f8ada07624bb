"""The process that holds the model: `python -m sightline.studio.process`, started by the studio's worker.

It reads one JSON object per line from its standard input and writes one per line to its standard output:

    {"options": {...}}                                the model, first
    {"id": 1, "kind": "generate", "arguments": ...}   a task; see TASKS
    {"cancel": 1}                                     stop that task after the step it is in

    {"id": 1, "event": "progress", "step": 3, "steps": 12, "picture": "data:image/jpeg;base64,..."}   of a film
    {"id": 2, "event": "progress", "fraction": 0.4}                                                   of an estimate
    {"id": 1, "event": "done", "result": ...}, or "failed" with a sentence, or "cancelled"

It ends when its input does, so it never outlives the studio.
"""

from __future__ import annotations

import base64
import dataclasses
import io
import json
import os
import queue
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sightline.files import failure, write_atomic
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.studio.inspector import unpack
from sightline.studio.library import DEPTH

Progress = Callable[..., None]


class Cancelled(Exception):
    """The visitor does not want the result any more."""


def generate_film(model: Model, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """Run a job; returns the name of its folder and what settings.json says of the result."""
    from sightline.generation.job import Job
    from sightline.generation.outputs import run_job

    fields: dict[str, Any] = {
        field.name: arguments[field.name] for field in dataclasses.fields(Job) if field.name in arguments
    }
    for name in ("output", "image", "trajectory"):
        fields[name] = None if fields.get(name) is None else Path(fields[name])
    fields["option"] = tuple(fields.get("option") or ())
    job = Job(**fields)
    steps = job.num_inference_steps or model.info.defaults.num_inference_steps
    progress(step=0, steps=steps)

    def on_step(step: int, latents: Any) -> None:
        progress(step=step + 1, steps=steps, picture=_latent_picture(model.pipe, latents))

    settings = run_job(model, job, on_step=on_step)
    if arguments.get("depth") is not None:
        write_atomic(job.output / DEPTH, json.dumps(arguments["depth"]) + "\n")
    return {"name": job.output.name, **settings["result"]}


def score_token(model: Model, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The score terms of one token of a film, as `sightline.studio.inspector` reads them."""
    from sightline.studio.inspector import TokenQuery, score_film

    return score_film(model, TokenQuery(**arguments)).packed()


def read_weights(model: Model, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """What the weights of each expert say without a video: alphas, gates and the learned forms."""
    from sightline.studio.inspector import read_layers

    return {"experts": [view.packed() for view in read_layers(model)]}


def estimate_path(model: Model, arguments: dict[str, Any], progress: Progress) -> dict[str, Any]:
    """The path of the camera according to the film's pixels, with its errors. depth: of the first frame."""
    from sightline.studio.estimate import estimate_film

    def on_progress(fraction: float) -> None:
        progress(fraction=fraction)

    on_progress(0.0)
    return estimate_film(Path(arguments["folder"]), unpack(arguments["depth"]), on_progress)


TASKS: dict[str, Callable[[Model, dict[str, Any], Progress], dict[str, Any]]] = {
    "generate": generate_film,
    "scores": score_token,
    "weights": read_weights,
    "estimate": estimate_path,
}


def main() -> None:
    signal.signal(
        signal.SIGINT, signal.SIG_IGN
    )  # Ctrl-C reaches the whole group; the studio ends this process in order
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever a library prints is no answer
    tasks: queue.Queue[dict[str, Any] | None] = queue.Queue()
    cancelled: set[int] = set()
    options = json.loads(sys.stdin.readline() or "{}").get("options", {})
    threading.Thread(target=_listen, args=(tasks, cancelled), daemon=True).start()
    try:
        model = Model(ModelOptions(**_with_path(options)))
        model.on_load = lambda pipe: pipe.set_progress_bar_config(disable=True)
        broken = None
    except Exception as error:
        broken = failure(error)
    while (task := tasks.get()) is not None:
        number = task["id"]

        def answer(event: str, number: int = number, **content: Any) -> None:
            answers.write(json.dumps({"id": number, "event": event, **content}) + "\n")

        def progress(number: int = number, answer: Any = answer, **content: Any) -> None:
            if number in cancelled:
                raise Cancelled
            answer("progress", **content)

        if broken is not None:
            answer("failed", sentence=broken)
            continue
        try:
            answer("done", result=TASKS[task["kind"]](model, task["arguments"], progress))
        except Cancelled:
            answer("cancelled")
        except Exception as error:  # whatever it is, the next task may still succeed
            answer("failed", sentence=failure(error))
    os._exit(0)


def _listen(tasks: queue.Queue[dict[str, Any] | None], cancelled: set[int]) -> None:
    for line in sys.stdin:
        request = json.loads(line)
        if "cancel" in request:
            cancelled.add(request["cancel"])
        else:
            tasks.put(request)
    os._exit(0)  # the studio has ended; a film that is not finished leaves nothing but a temporary folder


def _with_path(options: dict[str, Any]) -> dict[str, Any]:
    return {**options, "camera": None if options.get("camera") is None else Path(options["camera"])}


def _latent_picture(pipe: Any, latents: Any) -> str | None:
    """The last latent frame, decoded alone, as the address of a small picture; None where it cannot be."""
    import torch
    from PIL import Image

    vae = pipe.vae
    if latents.ndim != 5:  # LTX-2 packs them
        return None
    mean, std = (  # SANA-WM's VAE has them among its weights
        torch.as_tensor(vae.config[name] if name in vae.config else getattr(vae, name)).view(1, -1, 1, 1, 1)
        for name in ("latents_mean", "latents_std")
    )
    try:
        with torch.no_grad():
            last = latents[:1, : mean.shape[1], -1:].float()
            frame = vae.decode((last * std.to(last) + mean.to(last)).to(vae.device, vae.dtype), return_dict=False)[0]
        pixels = ((frame[0, :, -1].permute(1, 2, 0).float().cpu() + 1) * 127.5).clamp(0, 255).to(torch.uint8)
    except RuntimeError:  # a preview is no reason to lose the film
        return None
    image = Image.fromarray(pixels.numpy())
    image.thumbnail((480, 480))
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=88)
    return f"data:image/jpeg;base64,{base64.b64encode(buffer.getvalue()).decode()}"


if __name__ == "__main__":
    main()
