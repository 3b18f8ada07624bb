"""The clips whose videos a study generates, with everything that is needed for it, in one file: rendered and encoded once.

Only the first latent frame is encoded, because the model is given no more. The file is read by every run of a table.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from safetensors.torch import save_file
from torch import Tensor
from typing_extensions import TypedDict

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip_spec import ClipSpec
from sightline.data.encode import ClipEncoder, frames_to_video, pad_text
from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.evaluation.cases import Case, Cases, Selection, StandardCases
from sightline.evaluation.revisit import RevisitCases
from sightline.files import atomic_write, reason
from sightline.locks import hold_lock
from sightline.settings import convert
from sightline.tensors import metadata_json, read_tensors, require_real

_VERSION = 1
_EXPECTED = "clips of a study"
_DIMENSIONS = {"frames": 4, "first_latent": 4, "text": 2, "camera_to_world": 3, "intrinsics": 3, "depth": 2}
Kind = Literal["video", "revisit"]


@dataclass(frozen=True)
class VideoCase:
    """One video to generate. frames: [T, H, W, 3] of the true video, or [1, H, W, 3] where only the first frame is kept."""

    name: str
    source: str
    trajectory: Trajectory
    frames: np.ndarray
    depth: np.ndarray | None  # [H, W] of frame 0
    first_latent: Tensor  # [C, 1, h, w]
    text: Tensor  # [L, D]


def read_videos(
    kind: Kind,
    sources: Sequence[str],
    count: int,
    part: Literal["all", "held-out"],
    held_out: float,
    spec: ClipSpec,
    encoder: ClipEncoder,
    max_sequence_length: int,
    folder: Path,
    between: Callable[[], object] = lambda: None,
) -> list[VideoCase]:
    """The cases of a table from their file, which is made where it does not exist yet. One process makes it, others wait.

    between: called before each clip that is made; an error of it ends the work.
    """
    selection = Selection(tuple(sources), count, part, held_out, spec)
    cases: Cases = StandardCases(selection) if kind == "video" else RevisitCases(selection)
    settings = {
        "version": _VERSION, "kind": kind, "cases": cases.settings(), "names": cases.names,
        "encoder": encoder.digests(), "max_sequence_length": max_sequence_length,
    }  # fmt: skip
    file = folder / f"{kind}-{json_digest(settings)}.safetensors"
    if not file.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        with hold_lock(folder / f".{file.stem}.lock", file, patience=math.inf):
            if not file.is_file():
                made = []
                for index in range(len(cases.names)):
                    between()
                    made.append(_encode(cases.load(index), kind, encoder, max_sequence_length))
                _write(file, made)
    return _read(file)


def _encode(case: Case, kind: Kind, encoder: ClipEncoder, max_sequence_length: int) -> VideoCase:
    clip = case.clip
    # The loops of one first frame are named SCENE/LOOP, as RunResult says.
    name = case.name if case.name == case.group else f"{case.group}/{case.name.removeprefix(case.group + '-')}"
    first = encoder.latents(frames_to_video(torch.from_numpy(clip.frames[:1].copy())[None]))[0].cpu()
    text = pad_text(encoder.text(clip.caption, max_sequence_length), max_sequence_length)
    frames = clip.frames if kind == "video" else clip.frames[:1]
    return VideoCase(name, clip.source, case.trajectory, frames, clip.depth, first, text)


def _write(file: Path, cases: Sequence[VideoCase]) -> None:
    tensors: dict[str, Tensor] = {}
    entries: list[dict[str, Any]] = []
    for index, case in enumerate(cases):
        own = {
            "frames": torch.from_numpy(np.ascontiguousarray(case.frames)),
            "first_latent": case.first_latent,
            "text": case.text,
            "camera_to_world": case.trajectory.camera_to_world,
            "intrinsics": case.trajectory.intrinsics,
        }
        if case.depth is not None:
            own["depth"] = torch.from_numpy(np.ascontiguousarray(case.depth))
        tensors |= {f"{index:05d}.{name}": tensor.contiguous() for name, tensor in own.items()}
        camera = {name: getattr(case.trajectory, name) for name in ("width", "height", "xi", "fps", "unit")}
        entries.append({"name": case.name, "source": case.source, "camera": camera})
    with atomic_write(file) as temporary:
        save_file(tensors, temporary, metadata={"cases": json.dumps(entries)})


class _Camera(TypedDict):
    width: int
    height: int
    xi: float
    fps: float
    unit: str


class _Entry(TypedDict):
    name: str
    source: str
    camera: _Camera


def _read(file: Path) -> list[VideoCase]:
    metadata, tensors = read_tensors(file, _EXPECTED)
    entries = convert(list[_Entry], metadata_json(file, metadata, "cases", _EXPECTED), f"{file}: cases")
    return [_case(file, index, entry, tensors) for index, entry in enumerate(entries)]


def _case(file: Path, index: int, entry: _Entry, tensors: dict[str, Tensor]) -> VideoCase:
    prefix = f"{index:05d}."
    own = {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
    for name, dimensions in _DIMENSIONS.items():
        if name != "depth" and name not in own:
            raise SightlineError(
                f"{file} has no {prefix}{name}: expected {_EXPECTED}; delete it, and it is made again."
            )
        if name in own and own[name].ndim != dimensions:
            raise SightlineError(f"{file}: {prefix}{name} has {own[name].ndim} dimensions, expected {dimensions}.")
    if own["frames"].dtype != torch.uint8:
        raise SightlineError(f"{file}: {prefix}frames are {own['frames'].dtype}, expected torch.uint8.")
    require_real(file, [(name, own[name]) for name in ("first_latent", "text", "camera_to_world", "intrinsics")])
    try:
        trajectory = Trajectory(own["camera_to_world"], own["intrinsics"], **entry["camera"])
    except (SightlineError, TypeError) as error:  # TypeError: an entry that no camera has
        raise SightlineError(f"{file}: the camera of {entry['name']}: {reason(error)}.") from None
    depth = own["depth"].numpy() if "depth" in own else None
    frames, first, text = own["frames"].numpy(), own["first_latent"], own["text"]
    return VideoCase(entry["name"], entry["source"], trajectory, frames, depth, first, text)
