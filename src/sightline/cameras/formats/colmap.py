"""COLMAP sparse models: a folder with cameras and images, as text or binary. COLMAP too puts a pixel's centre at +0.5.

Frames come in the natural order of their names. Binary is preferred where both are there, as COLMAP does.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from sightline.cameras import defaults, se3
from sightline.cameras.formats import _colmap_binary
from sightline.cameras.formats._build import build, rotations_from_quaternions, warn_distortion
from sightline.cameras.formats._colmap_models import Camera, Image, check_model, pinhole
from sightline.cameras.formats._files import InputFile, natural_key, number_rows
from sightline.cameras.formats._format import Format
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.files import write_atomic

_CAMERA_LINE = "CAMERA_ID MODEL WIDTH HEIGHT PARAMS..."
_IMAGE_LINE = "IMAGE_ID QW QX QY QZ TX TY TZ CAMERA_ID NAME"


@dataclass(frozen=True)
class _Model:
    cameras: InputFile
    images: InputFile
    binary: bool


def read(file: InputFile, *, fps: Any = defaults.FPS) -> Trajectory:
    model = _find(file)
    cameras = _colmap_binary.read_cameras(model.cameras) if model.binary else _read_cameras(model.cameras)
    images = _images(model)
    model.images.check_frame_count(len(images))
    images.sort(key=lambda image: natural_key(image.name))
    lines = None if model.binary else [image.line for image in images]
    for image in images:
        if image.camera_id not in cameras:
            raise model.images.error(
                f"found the camera {image.camera_id} for {image.name!r}, expected one of {model.cameras.path.name}.",
                image.line or None,
            )
    used = {image.camera_id: cameras[image.camera_id] for image in images}
    sizes = {(camera.width, camera.height) for camera in used.values()}
    if len(sizes) > 1:
        raise model.cameras.error(f"found {len(sizes)} image sizes, expected one for the whole path.")
    lenses = {key: pinhole(camera) for key, camera in used.items()}
    if any(distorted for _, distorted in lenses.values()):
        warn_distortion(model.cameras)
    (width, height) = sizes.pop()
    numbers = torch.tensor([image.pose for image in images], dtype=torch.float64)  # [T, 7]
    rotations = rotations_from_quaternions(model.images, numbers[:, :4], lines)
    return build(
        model.images,
        se3.inverse(se3.from_parts(rotations, numbers[:, 4:])),
        torch.tensor([lenses[image.camera_id][0] for image in images], dtype=torch.float64),
        width,
        height,
        lines=lines,
        fps=fps,
    )


def write(trajectory: Trajectory, path: Path, *, binary: bool = False) -> None:
    """`path` is the model's folder (or its images.txt or images.bin); one PINHOLE camera per distinct lens."""
    if path.name in ("images.txt", "images.bin"):
        path, binary = path.parent, path.suffix == ".bin"
    # images of the other kind, or COLMAP 4's rigs and frames, would contradict the files written here.
    for name in ("images.txt" if binary else "images.bin", "rigs.txt", "rigs.bin", "frames.txt", "frames.bin"):
        if (path / name).exists():
            raise SightlineError(f"{path}: found {name} there already, expected a folder without another model.")
    lenses = [(k[0][0], k[1][1], k[0][2], k[1][2]) for k in trajectory.intrinsics.tolist()]
    camera_ids = {lens: index for index, lens in enumerate(dict.fromkeys(lenses), start=1)}
    cameras = {
        index: Camera("PINHOLE", trajectory.width, trajectory.height, list(lens)) for lens, index in camera_ids.items()
    }
    world_to_camera = trajectory.world_to_camera
    quaternions = se3.rotation_to_quaternion(world_to_camera[:, :3, :3])
    poses = torch.cat([quaternions, world_to_camera[:, :3, 3]], dim=1).tolist()
    images = [Image(f"frame_{frame:06d}.png", camera_ids[lenses[frame]], pose) for frame, pose in enumerate(poses)]
    if binary:
        write_atomic(path / "cameras.bin", _colmap_binary.cameras_bytes(cameras))
        write_atomic(path / "points3D.bin", _colmap_binary.no_points_bytes())
        write_atomic(path / "images.bin", _colmap_binary.images_bytes(images))
        return
    camera_rows = "".join(
        f"{index} {camera.model} {camera.width} {camera.height} {number_rows([camera.parameters])}"
        for index, camera in cameras.items()
    )
    image_rows = "".join(
        f"{index} {' '.join(map(repr, image.pose))} {image.camera_id} {image.name}\n\n"
        for index, image in enumerate(images, start=1)
    )
    write_atomic(path / "cameras.txt", f"# {_CAMERA_LINE}\n{camera_rows}")
    write_atomic(path / "points3D.txt", "# POINT3D_ID X Y Z R G B ERROR TRACK...\n")
    write_atomic(path / "images.txt", f"# {_IMAGE_LINE}\n# POINTS2D as X Y POINT3D_ID\n{image_rows}")


def sniff(file: InputFile) -> bool:
    """A folder with images in it, or a path to images.txt, images.bin; binary files can only be told by their name."""
    if file.is_folder:
        return any((file.path / name).exists() for name in ("images.bin", "images.txt"))
    return file.path.name in ("images.txt", "images.bin")


def _find(file: InputFile) -> _Model:
    if file.is_folder:
        for binary, ending in ((True, "bin"), (False, "txt")):
            if (file.path / f"images.{ending}").exists():
                folder = file.path
                return _Model(InputFile(folder / f"cameras.{ending}"), InputFile(folder / f"images.{ending}"), binary)
        raise file.error("found neither images.bin nor images.txt, expected a COLMAP model.")
    if file.path.suffix not in (".txt", ".bin"):
        raise file.error("found another ending, expected a COLMAP folder, images.txt or images.bin.")
    binary = file.path.suffix == ".bin"
    return _Model(InputFile(file.path.with_name("cameras" + file.path.suffix)), file, binary)


def read_model_images(file: InputFile) -> tuple[list[Image], bool]:
    """The images of a model, and whether it is binary."""
    model = _find(file)
    return _images(model), model.binary


def _images(model: _Model) -> list[Image]:
    return _colmap_binary.read_images(model.images) if model.binary else _read_images(model.images)


def _read_cameras(file: InputFile) -> dict[int, Camera]:
    cameras = {}
    for line, text in file.rows:
        tokens = text.split()
        if len(tokens) < 4:
            raise file.error(f"found {len(tokens)} columns, expected {_CAMERA_LINE}.", line)
        camera = Camera(
            tokens[1],
            file.whole_number(file.parsed(tokens[2], "the width", line), "the width", line),
            file.whole_number(file.parsed(tokens[3], "the height", line), "the height", line),
            [file.parsed(token, "a parameter", line) for token in tokens[4:]],
        )
        cameras[_identity(file, tokens[0], line)] = check_model(file, camera, line)
    return cameras


def _read_images(file: InputFile) -> list[Image]:
    """Two lines per image; the second, its points, is skipped but must look like points (it may be empty)."""
    images = []
    expect_points = False
    for line, text in enumerate(file.text.split("\n"), start=1):
        if expect_points:
            expect_points = False
            if len(text.split()) % 3:
                raise file.error(
                    f"found {len(text.split())} columns, expected the points of the image above (X Y POINT3D_ID, or "
                    f"an empty line).",
                    line,
                )
            continue
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        tokens = text.split(maxsplit=9)
        if len(tokens) != 10:
            raise file.error(f"found {len(tokens)} columns, expected {_IMAGE_LINE}.", line)
        pose = [file.parsed(token, "a pose number", line) for token in tokens[1:8]]
        identity, camera = (_identity(file, token, line) for token in (tokens[0], tokens[8]))
        images.append(Image(tokens[9].strip(), camera, pose, line, identity))
        file.check_frame_count(len(images))
        expect_points = True
    return images


def _identity(file: InputFile, token: str, line: int) -> int:
    return file.whole_number(file.parsed(token, "an id", line), "an id", line, least=0, most=2**32)


FORMAT = Format(
    name="colmap",
    title="COLMAP sparse model (text or binary)",
    convention="world-to-camera, OpenCV axes: quaternion w x y z and translation; intrinsics in pixels",
    loses="time (fps), xi, unit, near depth",
    read=read,
    write=write,
    sniff=sniff,
)
