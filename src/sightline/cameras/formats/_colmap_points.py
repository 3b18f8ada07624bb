"""COLMAP's points3D: where each point is and which images see it. Text and binary."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.formats import _colmap_binary
from sightline.cameras.formats._build import rotations_from_quaternions
from sightline.cameras.formats._files import InputFile
from sightline.cameras.formats.colmap import read_model_images

_POINT_LINE = "POINT3D_ID X Y Z R G B ERROR (IMAGE_ID POINT2D_IDX)..."


@dataclass(frozen=True, eq=False)
class SparseModel:
    """names, world_to_camera [T, 4, 4]: of each image. places: [N, 3]. seen: [M, 2], pairs of an image and a point."""

    names: list[str]
    world_to_camera: Tensor
    places: Tensor
    seen: Tensor

    def depths(self) -> Tensor:  # [M]
        """The depth of every point along the axis of every camera that sees it."""
        poses, places = self.world_to_camera[self.seen[:, 0]], self.places[self.seen[:, 1]]
        return (poses[:, 2, :3] * places).sum(-1) + poses[:, 2, 3]


def read_sparse_model(folder: Path) -> SparseModel:
    """The images and points of a COLMAP model."""
    images, binary = read_model_images(InputFile(folder))
    file = InputFile(folder / f"points3D.{'bin' if binary else 'txt'}")
    places, seen = _colmap_binary.read_points(file) if binary else _read_text(file)
    numbers = torch.tensor([image.pose for image in images], dtype=torch.float64)  # [T, 7]
    rows = {image.identity: index for index, image in enumerate(images)}
    pairs = [(rows[image], point) for image, point in seen if image in rows]
    return SparseModel(
        [image.name for image in images],
        se3.from_parts(rotations_from_quaternions(InputFile(folder), numbers[:, :4], None), numbers[:, 4:]),
        torch.tensor(places, dtype=torch.float64).reshape(-1, 3),
        torch.tensor(pairs, dtype=torch.long).reshape(-1, 2),
    )


def _read_text(file: InputFile) -> tuple[list[list[float]], list[tuple[int, int]]]:
    places: list[list[float]] = []
    seen: list[tuple[int, int]] = []
    for line, text in file.rows:
        tokens = text.split()
        if len(tokens) < 8 or len(tokens) % 2:
            raise file.error(f"found {len(tokens)} columns, expected {_POINT_LINE}.", line)
        numbers = [file.parsed(token, "a column", line) for token in tokens]
        seen += [(int(image), len(places)) for image in numbers[8::2]]
        places.append(numbers[1:4])
    return places, seen
