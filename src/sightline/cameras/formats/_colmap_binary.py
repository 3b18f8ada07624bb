"""COLMAP's cameras.bin and images.bin: little-endian records, read one by one so that a wrong count allocates nothing."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

from sightline.cameras.formats._colmap_models import MODELS, Camera, Image, check_model
from sightline.cameras.formats._files import InputFile
from sightline.files import reason

_MODEL_NAMES = {identity: name for name, (identity, _, _) in MODELS.items()}
_POINT_BYTES = 24  # x, y: double; point id: uint64
_MAX_NAME = 4096


class _Records:
    """Reads records from an open file, and refuses to read past its end."""

    def __init__(self, file: InputFile, stream: BinaryIO) -> None:
        self._file, self._stream = file, stream
        self._left = os.fstat(stream.fileno()).st_size

    def take(self, layout: str) -> tuple[Any, ...]:
        return struct.unpack("<" + layout, self._bytes(struct.calcsize("<" + layout)))

    def finite(self, count: int) -> list[float]:
        values = list(self.take(f"{count}d"))
        if not all(map(math.isfinite, values)):
            raise self._file.error("found a number that is not finite, expected finite numbers.")
        return values

    def text(self) -> str:
        """A name that ends with a zero byte."""
        name = bytearray()
        while (character := self._bytes(1)) != b"\0":
            name += character
            if len(name) > _MAX_NAME:
                raise self._file.error(f"found a name of more than {_MAX_NAME} bytes, expected a file name.")
        return name.decode("utf-8", errors="replace")

    def require(self, count: int) -> None:
        """Refuse a file with fewer bytes left."""
        if count > self._left:
            raise self._file.error(
                f"found {self._left} bytes where {count} should follow, expected a whole COLMAP model."
            )

    def skip(self, count: int) -> None:
        self._spend(count)
        self._stream.seek(count, os.SEEK_CUR)

    def _bytes(self, count: int) -> bytes:
        self._spend(count)
        return self._stream.read(count)

    def _spend(self, count: int) -> None:
        self.require(count)
        self._left -= count


@contextmanager
def _records(file: InputFile) -> Iterator[_Records]:
    file.require_file()
    try:
        with open(file.path, "rb") as stream:
            yield _Records(file, stream)
    except (OSError, struct.error) as error:  # struct.error: the file shrank while it was read
        raise file.error(f"cannot be read ({reason(error)}), expected a readable file.") from None


def read_cameras(file: InputFile) -> dict[int, Camera]:
    cameras = {}
    with _records(file) as records:
        (count,) = records.take("Q")
        for _ in range(count):
            identity, model, width, height = records.take("IiQQ")
            name = _MODEL_NAMES.get(model, f"number {model}")
            parameters = records.finite(MODELS[name][1]) if name in MODELS else []
            width, height = file.whole_number(width, "the width"), file.whole_number(height, "the height")
            cameras[identity] = check_model(file, Camera(name, width, height, parameters))
    return cameras


def read_images(file: InputFile) -> list[Image]:
    """Points are skipped without being read, so large models cost no memory."""
    images = []
    with _records(file) as records:
        (count,) = records.take("Q")
        file.check_frame_count(count)
        for _ in range(count):
            (identity,) = records.take("I")
            pose = records.finite(7)
            (camera_id,) = records.take("I")
            name = records.text()
            (points,) = records.take("Q")
            records.skip(points * _POINT_BYTES)
            images.append(Image(name, camera_id, pose, identity=identity))
    return images


def read_points(file: InputFile) -> tuple[list[list[float]], list[tuple[int, int]]]:
    """Where each point of points3D.bin is, and (id of an image, index of a point) of every sighting."""
    places: list[list[float]] = []
    seen: list[tuple[int, int]] = []
    with _records(file) as records:
        (count,) = records.take("Q")
        for _ in range(count):
            records.skip(8)
            place = records.finite(3)
            records.skip(3 + 8)  # colour, error
            (length,) = records.take("Q")
            records.require(8 * length)  # before a wrong length allocates anything
            seen += [(image, len(places)) for image in records.take(f"{2 * length}I")[::2]]
            places.append(place)
    return places, seen


def cameras_bytes(cameras: dict[int, Camera]) -> bytes:
    records = [struct.pack("<Q", len(cameras))]
    for identity, camera in cameras.items():
        header = struct.pack("<IiQQ", identity, MODELS[camera.model][0], camera.width, camera.height)
        records.append(header + struct.pack(f"<{len(camera.parameters)}d", *camera.parameters))
    return b"".join(records)


def images_bytes(images: list[Image]) -> bytes:
    records = [struct.pack("<Q", len(images))]
    for identity, image in enumerate(images, start=1):
        pose = struct.pack("<I7dI", identity, *image.pose, image.camera_id)
        records.append(pose + image.name.encode() + b"\0" + struct.pack("<Q", 0))
    return b"".join(records)


def no_points_bytes() -> bytes:
    return struct.pack("<Q", 0)
