"""Trajectory: where a camera was, frame by frame, and what it saw through. The one noun every other room speaks."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.checks import number, whole_number
from sightline.errors import SightlineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ROTATION_TOLERANCE = 1e-3  # largest |R^T R - I| that is read as a rotation written with few digits
_EXACT_ROTATION = 1e-6  # below this a rotation is kept as it came; above, replaced by the nearest true rotation


@dataclass(frozen=True, eq=False)
class Trajectory:
    """A camera path of T frames. Immutable: every method returns a new trajectory. Tensors are float64 on the CPU.

    camera_to_world: [T, 4, 4], OpenCV axes (x right, y down, z forward).
    intrinsics: [T, 3, 3] in pixels of an image (width, height); one [3, 3] matrix serves all frames. The first pixel's
        centre is at (0.5, 0.5), so the image spans 0..width.
    xi: distortion of the unified camera model; 0 is a pinhole.
    fps: frames per second; only speeds and file timestamps depend on it.
    unit: what one unit of translation is, in a word ("metre", "scene").
    near_depth: depth of the nearest surface in the same unit, where it is known.
    """

    camera_to_world: Tensor
    intrinsics: Tensor
    width: int
    height: int
    xi: float = 0.0
    fps: float = 16.0
    unit: str = "scene"
    near_depth: float | None = None

    def __post_init__(self) -> None:
        poses = _float64("camera_to_world", self.camera_to_world)
        lens = _float64("intrinsics", self.intrinsics)
        if poses.ndim != 3 or poses.shape[1:] != (4, 4) or poses.shape[0] == 0:
            raise SightlineError(f"camera_to_world has shape {tuple(poses.shape)}: expected [T, 4, 4] with T >= 1.")
        if lens.shape == (3, 3):
            lens = lens.expand(poses.shape[0], *lens.shape)
        if lens.ndim != 3 or lens.shape[1:] != (3, 3):
            raise SightlineError(f"intrinsics has shape {tuple(lens.shape)}: expected [T, 3, 3] or [3, 3].")
        if lens.shape[0] != poses.shape[0]:
            raise SightlineError(
                f"intrinsics has {lens.shape[0]} frames but camera_to_world has {poses.shape[0]}: expected equal lengths."
            )
        object.__setattr__(self, "width", whole_number("width", self.width))
        object.__setattr__(self, "height", whole_number("height", self.height))
        object.__setattr__(self, "camera_to_world", _checked_poses(poses))
        object.__setattr__(self, "intrinsics", _checked_intrinsics(lens))
        object.__setattr__(self, "xi", number("xi", self.xi, at_least=0.0))
        object.__setattr__(self, "fps", number("fps", self.fps, above=0.0))
        if self.near_depth is not None:
            object.__setattr__(self, "near_depth", number("near_depth", self.near_depth, above=0.0))

    # -- reading ------------------------------------------------------------------------------------------------

    def __len__(self) -> int:
        return self.camera_to_world.shape[0]

    def __repr__(self) -> str:
        return f"Trajectory({len(self)} frames, {self.width}x{self.height}, {self.fps:g} fps, unit {self.unit!r})"

    @property
    def positions(self) -> Tensor:  # [T, 3]
        """Camera centres in the world."""
        return self.camera_to_world[:, :3, 3]

    @property
    def rotations(self) -> Tensor:  # [T, 3, 3]
        """Camera-to-world rotations; column 2 is the viewing direction."""
        return self.camera_to_world[:, :3, :3]

    @property
    def world_to_camera(self) -> Tensor:  # [T, 4, 4]
        return se3.inverse(self.camera_to_world)

    # -- changing -----------------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Trajectory:
        """A copy with some fields changed and everything checked again."""
        return dataclasses.replace(self, **changes)

    def anchored(self, frame: int = 0) -> Trajectory:
        """The same path in the coordinates of one of its own cameras, which becomes the identity."""
        if not -len(self) <= frame < len(self):
            raise SightlineError(f"frame is {frame}: expected a frame of this trajectory, which has {len(self)}.")
        return self.replace(camera_to_world=se3.anchor(self.camera_to_world, frame))

    def scaled(self, factor: float) -> Trajectory:
        """Every distance multiplied by `factor`: positions, and the near depth where it is known."""
        factor = number("factor", factor, above=0.0)
        poses = self.camera_to_world.clone()
        poses[:, :3, 3] *= factor
        return self.replace(camera_to_world=poses, near_depth=self.near_depth and self.near_depth * factor)

    def resampled(self, frames: int) -> Trajectory:
        """The same path from first to last frame in another number of frames, lasting as long (so fps changes)."""
        frames = whole_number("frames", frames)
        if frames == len(self):
            return self
        last = len(self) - 1
        at = torch.linspace(0, last, frames, dtype=torch.float64) if frames > 1 else torch.zeros(1, dtype=torch.float64)
        low = at.floor().long()
        high = (low + 1).clamp_max(last)
        fraction = (at - low)[:, None, None]
        fps = self.fps * (frames - 1) / last if frames > 1 and last > 0 else self.fps
        return self.replace(
            camera_to_world=se3.interpolate(self.camera_to_world, at),
            intrinsics=torch.lerp(self.intrinsics[low], self.intrinsics[high], fraction),
            fps=fps,
        )

    def reversed(self) -> Trajectory:
        """The same path from its end to its beginning, in the same world."""
        return self.replace(camera_to_world=self.camera_to_world.flip(0), intrinsics=self.intrinsics.flip(0))

    def then(self, other: Trajectory) -> Trajectory:
        """This path, then the other one starting where this one ends. The shared frame is kept once."""
        self._require_same_picture(other)
        tail = self.camera_to_world[-1] @ other.anchored().camera_to_world[1:]
        return self.replace(
            camera_to_world=torch.cat([self.camera_to_world, tail]),
            intrinsics=torch.cat([self.intrinsics, other.intrinsics[1:]]),
        )

    def together(self, other: Trajectory) -> Trajectory:
        """Both paths at once, as on a set: the rails add up, the heads turn one after the other, the zooms multiply.

        Positions of the two anchored paths are added, rotations multiplied (this one's first), and this lens is
        changed by the other's ratio to its own first frame. Both must have as many frames.
        """
        self._require_same_picture(other)
        if len(self) != len(other):
            raise SightlineError(f"other has {len(other)} frames: expected {len(self)}, as many as the path it joins.")
        mine, theirs = self.anchored(), other.anchored()
        both = se3.from_parts(mine.rotations @ theirs.rotations, mine.positions + theirs.positions)
        lens = self.intrinsics.clone()
        for axis in (0, 1):
            lens[:, axis, axis] *= other.intrinsics[:, axis, axis] / other.intrinsics[0, axis, axis]
        return self.replace(camera_to_world=self.camera_to_world[0] @ both, intrinsics=lens)

    def resized(self, width: int, height: int) -> Trajectory:
        """The same views on an image stretched to another size: intrinsics follow, axis by axis."""
        width, height = whole_number("width", width), whole_number("height", height)
        stretch = torch.tensor([width / self.width, height / self.height, 1.0], dtype=torch.float64)
        return self.replace(intrinsics=self.intrinsics * stretch[:, None], width=width, height=height)

    def cropped(self, width: int, height: int, left: float | None = None, top: float | None = None) -> Trajectory:
        """A window of the image, in the middle unless `left` and `top` (pixels) say where: the principal point moves."""
        width, height = whole_number("width", width), whole_number("height", height)
        left = (self.width - width) / 2 if left is None else left
        top = (self.height - height) / 2 if top is None else top
        if left < 0 or top < 0 or left + width > self.width or top + height > self.height:
            raise SightlineError(
                f"the crop {width}x{height} at ({left:g}, {top:g}) leaves the image: expected it inside "
                f"{self.width}x{self.height}."
            )
        lens = self.intrinsics.clone()
        lens[:, 0, 2] -= left
        lens[:, 1, 2] -= top
        return self.replace(intrinsics=lens, width=width, height=height)

    def fitted(self, width: int, height: int) -> Trajectory:
        """Scaled evenly to cover (width, height), then cropped in the middle: what is done to the pictures themselves."""
        width, height = whole_number("width", width), whole_number("height", height)
        scale = max(width / self.width, height / self.height)
        lens = self.intrinsics.clone()
        lens[:, :2] *= scale
        lens[:, 0, 2] -= (self.width * scale - width) / 2
        lens[:, 1, 2] -= (self.height * scale - height) / 2
        return self.replace(intrinsics=lens, width=width, height=height)

    # -- files and pictures -------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, format: str | None = None, **options: Any) -> Trajectory:
        """Read a camera file; the format is detected from its content unless it is named (see docs/conventions.md)."""
        from sightline.cameras.formats import load

        return load(path, format=format, **options)

    def save(self, path: str | Path, format: str | None = None, **options: Any) -> None:
        """Write a camera file; without a format name, our own self-describing json."""
        from sightline.cameras.formats import save

        save(self, path, format=format, **options)

    def plot(self, path: str | Path | None = None, title: str | None = None) -> Figure:
        """Draw the frusta along the path, from the side and from above; also written to `path` where one is given."""
        from sightline.cameras.drawing import draw_trajectories

        return draw_trajectories([self], path=path, title=title)

    def _require_same_picture(self, other: Trajectory) -> None:
        if (self.width, self.height, self.xi) != (other.width, other.height, other.xi):
            raise SightlineError(
                f"other is {other.width}x{other.height} with xi {other.xi:g}: expected {self.width}x{self.height} "
                f"with xi {self.xi:g}, as the path it joins (see Trajectory.fitted)."
            )


def _float64(name: str, value: Any) -> Tensor:
    try:
        return torch.as_tensor(value).detach().to(device="cpu", dtype=torch.float64).clone()
    except (TypeError, ValueError, RuntimeError) as error:
        raise SightlineError(
            f"{name} cannot be read as numbers ({error}): expected a tensor or nested lists."
        ) from None


def _checked_poses(poses: Tensor) -> Tensor:
    bad = (~poses.isfinite()).flatten(1).any(1)
    if bad.any():
        raise SightlineError(f"camera_to_world of frame {_first(bad)} is not finite: expected finite numbers.")
    bad = (poses[:, 3] - poses.new_tensor([0, 0, 0, 1])).abs().amax(1) > _EXACT_ROTATION
    if bad.any():
        raise SightlineError(
            f"camera_to_world of frame {_first(bad)} has the last row {poses[_first(bad), 3].tolist()}: expected 0 0 0 1."
        )
    error = se3.orthonormality_error(poses[:, :3, :3])
    bad = ~(error <= ROTATION_TOLERANCE)  # so written that an error that overflowed to nan is bad too
    if bad.any():
        frame = _first(bad)
        raise SightlineError(
            f"camera_to_world of frame {frame} is not a rigid motion (|R^T R - I| = {error[frame]:.2g}, determinant "
            f"{torch.linalg.det(poses[frame, :3, :3]):.3g}): expected a rotation within {ROTATION_TOLERANCE:g}."
        )
    rough = error > _EXACT_ROTATION
    if rough.any():
        poses[rough, :3, :3] = se3.nearest_rotation(poses[rough, :3, :3])
    poses[:, 3] = poses.new_tensor([0, 0, 0, 1])
    return poses


def _checked_intrinsics(lens: Tensor) -> Tensor:
    bad = (~lens.isfinite()).flatten(1).any(1)
    if bad.any():
        raise SightlineError(f"intrinsics of frame {_first(bad)} are not finite: expected finite numbers.")
    bad = (lens[:, 0, 0] <= 0) | (lens[:, 1, 1] <= 0)
    if bad.any():
        fx, fy = lens[_first(bad), 0, 0], lens[_first(bad), 1, 1]
        raise SightlineError(
            f"intrinsics of frame {_first(bad)} have focal lengths ({fx:g}, {fy:g}): expected positive pixels."
        )
    expected = torch.zeros_like(lens)
    expected[:, 0, 0], expected[:, 1, 1], expected[:, 2, 2] = lens[:, 0, 0], lens[:, 1, 1], 1.0
    expected[:, :2, 2] = lens[:, :2, 2]
    bad = (lens - expected).abs().flatten(1).amax(1) > _EXACT_ROTATION
    if bad.any():
        raise SightlineError(
            f"intrinsics of frame {_first(bad)} are {lens[_first(bad)].tolist()}: expected [[fx, 0, cx], [0, fy, cy], [0, 0, 1]]."
        )
    return expected


def _first(mask: Tensor) -> int:
    return int(mask.nonzero()[0, 0])
