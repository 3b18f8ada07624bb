"""HY-WorldPlay pose json: {"0": {"extrinsic": 4x4, "K": 3x3}, ...}, one entry per latent frame."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from sightline.cameras import defaults
from sightline.cameras.formats._build import build, image_size
from sightline.cameras.formats._files import MAX_FRAMES, InputFile, json_text, shown
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.files import write_atomic


def read(file: InputFile, *, width: Any = None, height: Any = None, fps: Any = defaults.FPS) -> Trajectory:
    """Entries in the order of their numbers. Without the options, the image is twice the principal point."""
    document = file.json
    if not isinstance(document, dict):
        raise file.error(f"found {shown(document)}, expected an object of numbered frames.")
    file.check_frame_count(len(document))
    for key in document:
        if not (key.isascii() and key.isdigit() and len(key) <= len(str(MAX_FRAMES))):
            raise file.error(f"found the key {shown(key)}, expected a frame number.")
    keys = sorted(document, key=int)
    poses, lenses = [], []
    for key in keys:
        poses.append(file.matrix(file.field(document[key], "extrinsic", f"entry {key}"), f"extrinsic of {key}", 4, 4))
        lenses.append(file.matrix(file.field(document[key], "K", f"entry {key}"), f"K of {key}", 3, 3))
    columns, rows = image_size(file, (None, None), (width, height), (lenses[0][0][2], lenses[0][1][2]))
    return build(
        file,
        torch.tensor(poses, dtype=torch.float64),
        torch.tensor(lenses, dtype=torch.float64),
        columns,
        rows,
        fps=fps,
    )


def write(trajectory: Trajectory, path: Path) -> None:
    frames = zip(trajectory.camera_to_world.tolist(), trajectory.intrinsics.tolist(), strict=True)
    write_atomic(path, json_text({str(i): {"extrinsic": pose, "K": lens} for i, (pose, lens) in enumerate(frames)}))


def sniff(file: InputFile) -> bool:
    if not (file.looks_like_json and isinstance(file.json, dict) and file.json):
        return False
    first = next(iter(file.json.values()))
    return isinstance(first, dict) and {"extrinsic", "K"} <= first.keys()


FORMAT = Format(
    name="worldplay",
    title="HY-WorldPlay json",
    convention="camera-to-world 4x4, OpenCV axes; K in pixels of an image twice the principal point",
    loses="image size where the principal point is off centre, time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
