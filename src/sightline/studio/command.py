"""Copy as command: the shell line and the Python code that make a film of the studio again, exactly."""

from __future__ import annotations

import shlex
from typing import Any

from sightline.generation.job import DEFAULT_STYLE
from sightline.speed_levels import DEFAULT_SPEED
from sightline.studio.library import Film

# Fields of a job that are written only where they differ from these.
_DEFAULTS: dict[str, Any] = {"camera_guidance_scale": 1.0, "seed": 0, "text_only": False}
_DEFAULTS |= {"dtype": "auto", "speed": DEFAULT_SPEED, "attention": "native", "tiled_decode": False}


def shell_line(film: Film, output: str = "outputs/again") -> str:
    """The `sightline generate` line of a film."""
    request = film.settings["request"]
    words = ["sightline", "generate"]
    for name, value in request.items():
        if name in ("weights", "sha256") or value in (None, [], _DEFAULTS.get(name)):
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [f"{flag}={one}"] if str(one).startswith("-") else [flag, str(one)]
    if (offload := _offload(film)) is not None:
        words += ["--offload", offload]
    return shlex.join([*words, "--output", output])


def python_code(film: Film, output: str = "again.mp4") -> str:
    """The Python code of a film. Its trajectory is that of the film's folder, so what was previewed is what is generated."""
    settings = film.settings
    request, made = settings["request"], settings["generated"]
    image = repr(request["image"]) if request.get("image") else "sl.FIRST_FRAME" if made["first_frame"] else "None"
    if request.get("world") is not None:
        style, seed = request.get("style") or DEFAULT_STYLE, request["world"]
        size = f"{made['num_frames']}, {made['width']}, {made['height']}"
        first = [f"scene = sample_clip({style!r}, {seed}, {size}).scene"]
        image = "render_clip(scene, trajectory).frames[0].numpy()"
    else:
        first = []
    options = {
        "negative_prompt": made["negative_prompt"],
        "num_inference_steps": made["num_inference_steps"],
        "guidance_scale": made["guidance_scale"],
        "camera_guidance_scale": made["camera_guidance_scale"],
        "seed": made["seed"],
    }
    shown = [f"    {name}={value!r}," for name, value in options.items() if value not in (None, _DEFAULTS.get(name))]
    lines = [
        *_imports(film),
        "",
        *_loading(film),
        f"trajectory = sl.Trajectory.load({str(film.folder / 'trajectory.json')!r})",
        *first,
        f"image = {image}",
        "video = sl.generate(",
        f"    pipe, image, {made['prompt']!r}, trajectory,",
        *shown,
        ")",
        f"sl.save_video(video, {output!r}, fps=trajectory.fps)",
    ]
    return "\n".join(lines) + "\n"


def _imports(film: Film) -> list[str]:
    lines = ["import sightline as sl"]
    if "ModelOptions" in _loading(film)[0]:
        lines += ["from sightline.generation.model import Model, ModelOptions"]
        lines = ["from pathlib import Path", "", *lines] if film.settings["request"].get("camera") else lines
    if film.settings["request"].get("world") is not None:
        lines += ["from sightline.worlds import render_clip, sample_clip"]
    return lines


def _loading(film: Film) -> list[str]:
    """Lines that load the model and let it run as it did."""
    request = film.settings["request"]
    options = {name: request.get(name, _DEFAULTS[name]) for name in ("dtype", "speed", "attention", "tiled_decode")}
    options = {name: value for name, value in options.items() if value != _DEFAULTS[name]}
    options |= {} if (offload := _offload(film)) is None else {"offload": offload}
    plain, camera = set(options) <= {"dtype", "speed"}, request.get("camera")
    speed = options.pop("speed") if plain and "speed" in options else "exact"
    given = [repr(request["model"])] if request.get("model") else []
    given += [] if not camera else [f"camera={camera!r}" if plain else f"camera=Path({camera!r})"]
    arguments = ", ".join([*given, *(f"{name}={value!r}" for name, value in options.items())])
    loaded = f"sl.load_pipeline({arguments})" if plain else f"Model(ModelOptions({arguments})).pipe"
    return [f"pipe = {loaded}", *([] if speed == "exact" else [f"sl.set_speed(pipe, {speed!r})"])]


def _offload(film: Film) -> str | None:
    """How weights were offloaded. It is not part of what was asked for: it decides whether the film fits."""
    mode = film.settings.get("model", {}).get("offload", "none")
    return None if mode == "none" else str(mode)
