"""What all moves share: number of frames, easing, image size, lens, and the trajectory made from poses."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Literal, TypedDict, get_args

import torch
from torch import Tensor

from sightline.cameras import defaults, lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.errors import SightlineError

MAX_FRAMES = 100_000  # more than an hour; a larger number is a typing error

Easing = Literal["linear", "ease", "ease_in", "ease_out"]


class ShotOptions(TypedDict, total=False):
    """The keywords every move takes. Defaults: 81 frames, linear, 28 mm, 832x480 pixels, 16 frames per second.

    easing: "linear" has constant speed, "ease" starts and ends slowly, "ease_in" only starts slowly, "ease_out" only ends
        slowly.
    focal_mm: focal length on a sensor 36 mm wide.
    """

    frames: int
    easing: Easing
    focal_mm: float
    width: int
    height: int
    fps: float


@dataclass(frozen=True)
class Shot:
    """`ShotOptions` with defaults, checked, and the arithmetic that the moves share."""

    frames: int = defaults.NUM_FRAMES
    easing: Easing = "linear"
    focal_mm: float = defaults.FOCAL_MM
    width: int = defaults.WIDTH
    height: int = defaults.HEIGHT
    fps: float = defaults.FPS

    def __post_init__(self) -> None:
        for name in ("frames", "width", "height"):
            whole_number(name, getattr(self, name))
        if self.frames > MAX_FRAMES:
            raise SightlineError(f"frames is {self.frames}: expected at most {MAX_FRAMES}.")
        for name in ("focal_mm", "fps"):
            number(name, getattr(self, name), above=0.0)
        if self.easing not in get_args(Easing):
            raise SightlineError(f"easing is {self.easing!r}: expected one of {', '.join(get_args(Easing))}.")

    @classmethod
    def of(cls, options: ShotOptions) -> Shot:
        """The shot with these keywords of a move. What is neither theirs nor the move's own is refused."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in options:
            if name not in known:
                raise SightlineError(f"a move has no option {name!r}: expected its own, or {', '.join(known)}.")
        return cls(**options)

    @property
    def time(self) -> Tensor:  # [T]
        """0 at the first frame, 1 at the last; a single frame is at 0."""
        return torch.arange(self.frames, dtype=torch.float64) / max(self.frames - 1, 1)

    def ease(self, time: Tensor) -> Tensor:  # [T] in [0, 1] -> [T] in [0, 1]
        """Progress at a time: monotonic, from exactly 0 to exactly 1."""
        if self.easing == "ease":
            return time * time * (3 - 2 * time)
        if self.easing == "ease_in":
            return time * time
        if self.easing == "ease_out":
            return time * (2 - time)
        return time

    def sweep(self, name: str, amount: float) -> Tensor:  # -> [T]
        """From 0 to the amount, with the shot's easing. name: what an error calls the amount."""
        return self.ease(self.time) * number(name, amount)

    def sweep_angle(self, name: str, degrees: float) -> Tensor:  # -> [T] radians
        return self.sweep(name, math.radians(number(name, degrees)))

    def trajectory(
        self,
        rotation: Tensor | None = None,  # [T, 3, 3] camera-to-world
        position: Tensor | None = None,  # [T, 3]
        focal_mm: Tensor | None = None,  # [T]
    ) -> Trajectory:
        """The trajectory of these poses and focal lengths; those that are left out stay constant."""
        still = torch.zeros(self.frames, 3, dtype=torch.float64)
        upright = torch.eye(3, dtype=torch.float64).expand(self.frames, 3, 3)
        poses = se3.from_parts(upright if rotation is None else rotation, still if position is None else position)
        if focal_mm is None:
            focal_mm = torch.full((self.frames,), float(self.focal_mm), dtype=torch.float64)
        intrinsics = lens.intrinsics_from_mm(focal_mm, self.width, self.height)
        return Trajectory(poses, intrinsics, self.width, self.height, fps=self.fps)


def centres(x: Tensor | float = 0.0, y: Tensor | float = 0.0, z: Tensor | float = 0.0) -> Tensor:  # [T] each -> [T, 3]
    """Camera centres, x right, y down, z forward."""
    parts = (torch.as_tensor(value, dtype=torch.float64) for value in (x, y, z))
    return torch.stack(torch.broadcast_tensors(*parts), dim=-1)


def around_subject(
    azimuth: Tensor,  # [T] radians, to the right
    elevation: Tensor,  # [T] radians, up
    distance: Tensor,  # [T]
    target_depth: float,
) -> tuple[Tensor, Tensor]:  # -> [T, 3, 3], [T, 3]
    """Rotations and positions of cameras on a sphere about (0, 0, target_depth), all facing that point, without roll."""
    rotation = se3.axis_rotation("y", -azimuth) @ se3.axis_rotation("x", -elevation)
    return rotation, centres(z=target_depth) - distance[:, None] * rotation[:, :, 2]


def look_at_subject(position: Tensor, target_depth: float) -> Tensor:  # [T, 3] -> [T, 3, 3]
    """Rotations, without roll, that keep the point (0, 0, target_depth) in the middle of the picture."""
    x, y, z = position.unbind(-1)
    pan = torch.atan2(-x, target_depth - z)
    tilt = torch.atan2(y, torch.hypot(x, target_depth - z))
    return se3.axis_rotation("y", pan) @ se3.axis_rotation("x", tilt)
