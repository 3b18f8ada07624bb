"""ShotBatch: several shots of a source that renders them, before rendering. Mirrored and reversed shots share a rendering."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip_spec import ClipSpec
from sightline.worlds import WorldBatch


@dataclass(frozen=True, eq=False)
class ShotBatch:
    """B shots that show R renderings: as they are, as a mirror image, backwards, or both.

    takes: the R scenes and their true cameras, in metres.
    take: [B] which rendering each shot shows. mirrored, backwards: [B] bool.
    units_per_metre: [B] float64, the unit of each shot's trajectory.
    unit: its name.
    """

    takes: WorldBatch
    take: Tensor
    mirrored: Tensor
    backwards: Tensor
    units_per_metre: Tensor
    unit: str

    def __len__(self) -> int:
        return len(self.take)

    @cached_property
    def cameras(self) -> CameraBatch:
        """Of each shot, in its own world and units."""
        takes = self.takes
        poses, lenses = takes.camera_to_world[self.take], takes.intrinsics[self.take].clone()
        poses[..., :3, 3] *= self.units_per_metre[:, None, None]
        poses[self.backwards], lenses[self.backwards] = poses[self.backwards].flip(1), lenses[self.backwards].flip(1)
        poses[self.mirrored] = mirror(poses[self.mirrored])
        lenses[self.mirrored, :, 0, 2] = takes.width - lenses[self.mirrored, :, 0, 2]
        return CameraBatch(poses, lenses, takes.xi[self.take], takes.width, takes.height)

    @cached_property
    def near_depth(self) -> Tensor | None:  # [B]
        """Of each shot's first frame in the unit of its trajectory; None where the source does not know it."""
        first = self.takes.near_depth
        if first is None:
            return None
        near = first[self.take]
        if bool(self.backwards.any()):
            last = self.takes.near_depth_at(-1)
            assert last is not None  # a style knows the near depth of every frame or of none
            near = torch.where(self.backwards, last[self.take], near)
        return near

    @cached_property
    def captions(self) -> tuple[str, ...]:
        """Of each shot's first frame. They name no side, so a mirror image keeps its caption."""
        first = self.takes.captions
        last = self.takes.captions_at(-1) if bool(self.backwards.any()) else first
        return tuple(
            (last if back else first)[take]
            for take, back in zip(self.take.tolist(), self.backwards.tolist(), strict=True)
        )

    def trajectory(self, index: int) -> Trajectory:
        """Of one shot, as Source.trajectory gives it."""
        cameras, near = self.cameras, self.near_depth
        return Trajectory(
            cameras.camera_to_world[index],
            cameras.intrinsics[index],
            cameras.width,
            cameras.height,
            xi=float(cameras.xi[index]),
            fps=self.takes.fps,
            unit=self.unit,
            near_depth=None if near is None else float(near[index]),
        )

    def show(self, rendered: Tensor) -> Tensor:  # [R, T, H, W, ...] -> [B, T, H, W, ...]
        """The frames of each shot, from those of the renderings."""
        frames = rendered[self.take.to(rendered.device)]
        backwards, mirrored = self.backwards.to(rendered.device), self.mirrored.to(rendered.device)
        frames[backwards] = frames[backwards].flip(1)
        frames[mirrored] = frames[mirrored].flip(3)
        return frames

    def scales(self, spec: ClipSpec, eta: float) -> Tensor:  # -> [B]
        """The factor on the positions of each shot's trajectory in a clip."""
        near = self.near_depth if spec.near_depth else None
        etas = torch.full((len(self),), eta, dtype=torch.float64)
        return etas if near is None else etas / near  # eta / near would be eta * (1 / near), which rounds differently

    def clip_cameras(self, spec: ClipSpec, eta: float) -> CameraBatch:
        """What `spec.trajectory` makes of each shot as a whole, for all shots at once."""
        cameras = self.cameras.anchored() if spec.anchor else self.cameras
        return cameras.scaled(self.scales(spec, eta)).fit_to(spec.width, spec.height)


def mirror(camera_to_world: Tensor) -> Tensor:  # [..., 4, 4] -> [..., 4, 4]
    """The camera that sees the mirror image of the world in the plane x = 0 as the mirror image of the picture.

    M C M with M = diag(-1, 1, 1, 1): the axes of the world and of the camera are both reflected, so it is a rigid motion.
    """
    signs = torch.tensor([-1.0, 1.0, 1.0, 1.0], dtype=camera_to_world.dtype, device=camera_to_world.device)
    return camera_to_world * signs * signs[:, None]
