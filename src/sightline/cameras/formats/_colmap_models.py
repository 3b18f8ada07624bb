"""COLMAP's cameras and images as records, and which of its camera models a pinhole can stand for."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.cameras.formats._files import InputFile, shown


@dataclass(frozen=True)
class Camera:
    model: str
    width: int
    height: int
    parameters: list[float]


@dataclass(frozen=True)
class Image:
    name: str
    camera_id: int
    pose: list[float]  # qw qx qy qz tx ty tz, world-to-camera
    line: int = 0  # in a text file
    identity: int = 0  # by which points name the images that see them


# id in binary files, number of parameters, number of focal lengths. Fisheye models are left out on purpose: without
# their projection, not even zero coefficients make them a pinhole.
MODELS = {
    "SIMPLE_PINHOLE": (0, 3, 1),
    "PINHOLE": (1, 4, 2),
    "SIMPLE_RADIAL": (2, 4, 1),
    "RADIAL": (3, 5, 1),
    "OPENCV": (4, 8, 2),
    "FULL_OPENCV": (6, 12, 2),
}


def check_model(file: InputFile, camera: Camera, line: int | None = None) -> Camera:
    if camera.model not in MODELS:
        raise file.error(f"found the camera model {shown(camera.model)}, expected one of {', '.join(MODELS)}.", line)
    if len(camera.parameters) != MODELS[camera.model][1]:
        raise file.error(
            f"found {len(camera.parameters)} parameters, expected {MODELS[camera.model][1]} for {camera.model}.", line
        )
    return camera


def pinhole(camera: Camera) -> tuple[list[list[float]], bool]:
    """K, and whether the camera has a distortion that K leaves out."""
    focals = MODELS[camera.model][2]
    fx, fy = camera.parameters[0], camera.parameters[focals - 1]
    cx, cy, *distortion = camera.parameters[focals:]
    return [[fx, 0.0, cx], [0.0, fy, cy], [0.0, 0.0, 1.0]], any(distortion)
