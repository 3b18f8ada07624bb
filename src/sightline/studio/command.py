"""Copy as command: the shell line and the Python code that make a film of the studio again, exactly."""

from __future__ import annotations

import shlex
from typing import Any

from sightline.generation.job import DEFAULT_STYLE
from sightline.speed_levels import DEFAULT_SPEED
from sightline.studio.library import Film

# Fields of a job that are written only where they differ from these.
_DEFAULTS: dict[str, Any] = {"camera_guidance_scale": 1.0, "seed": 0, "text_only": False}
_OF_MODEL = {"dtype": "auto", "speed": DEFAULT_SPEED}
_OF_MACHINE: dict[str, Any] = {"offload": "none", "attention": "native", "tiled_decode": False}  # how the model ran
_MODEL = ("model", "camera")


def shell_line(film: Film, output: str = "outputs/again") -> str:
    """The `sightline generate` line of a film."""
    request = film.settings["request"]
    words = ["sightline", "generate"]
    for name, value in request.items():
        if name in ("weights", "sha256") or value in (None, [], _DEFAULTS.get(name)):
            continue
        if name in _OF_MODEL:
            words += [] if value == _OF_MODEL[name] else [f"--{name}", str(value)]
            continue
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
            continue
        for one in value if isinstance(value, list) else [value]:
            words += [f"{flag}={one}"] if str(one).startswith("-") else [flag, str(one)]
    for name, value in _ran_with(film.settings).items():
        words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    return shlex.join([*words, "--output", output])


def python_code(film: Film, output: str = "again.mp4") -> str:
    """The Python code of a film. Its trajectory is that of the film's folder, so what was previewed is what is generated."""
    settings = film.settings
    request, made = settings["request"], settings["generated"]
    imports, loading = _loading(settings)
    lines = ["import sightline as sl", *imports, ""]
    image = repr(request["image"]) if request.get("image") else "sl.FIRST_FRAME" if made["first_frame"] else "None"
    if request.get("world") is not None:
        style, seed = request.get("style") or DEFAULT_STYLE, request["world"]
        size = f"{made['num_frames']}, {made['width']}, {made['height']}"
        lines.insert(-1, "from sightline.worlds import render_clip, sample_clip")
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
    lines += [
        *loading,
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


def _ran_with(settings: dict[str, Any]) -> dict[str, Any]:
    """The options of this machine that a film was made with, where they are not the usual ones."""
    model = settings.get("model", {})
    return {name: model[name] for name, usual in _OF_MACHINE.items() if model.get(name, usual) != usual}


def _loading(settings: dict[str, Any]) -> tuple[list[str], list[str]]:
    """The lines that load the model as it was when a film was made, and what they import."""
    request, machine = settings["request"], _ran_with(settings)
    chosen = {name: request[name] for name, usual in _OF_MODEL.items() if request.get(name, usual) != usual}
    model = [repr(request["model"])] if request.get("model") else []
    if machine:  # laid out in the order in which `sightline generate` does it
        camera = [f"camera=Path({request['camera']!r})"] if request.get("camera") else []
        options = ", ".join([*model, *camera, *(f"{name}={value!r}" for name, value in (chosen | machine).items())])
        imports = ["from sightline.generation.model import Model, ModelOptions"]
        return (["from pathlib import Path"] if camera else []) + imports, [
            f"pipe = Model(ModelOptions({options})).pipe"
        ]
    speed = chosen.pop("speed", None)
    camera = [f"camera={request['camera']!r}"] if request.get("camera") else []
    options = ", ".join([*model, *camera, *(f"{name}={value!r}" for name, value in chosen.items())])
    return [], [f"pipe = sl.load_pipeline({options})", *([f"sl.set_speed(pipe, {speed!r})"] if speed else [])]
