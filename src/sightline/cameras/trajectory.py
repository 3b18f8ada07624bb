"""Trajectory: the pose and the lens of a camera in every frame of a video."""

from __future__ import annotations

import dataclasses
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from sightline.cameras import defaults, se3
from sightline.cameras.pose_checks import as_float64, check_intrinsics, check_poses
from sightline.checks import frame_number, number, whole_number
from sightline.errors import SightlineError

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class Trajectory:
    """Camera poses and intrinsics of T frames.

    Immutable: every method returns a new trajectory. The tensors are float64 on the CPU, are checked once, when the
    trajectory is made, and must not be written to.

    camera_to_world: [T, 4, 4], OpenCV axes (x right, y down, z forward).
    intrinsics: [T, 3, 3] in pixels of an image (width, height); one [3, 3] matrix serves all frames. The first pixel's
        centre is at (0.5, 0.5), so the image spans 0..width.
    xi: distortion of the unified camera model; 0 is a pinhole.
    fps: frames per second; only speeds and file timestamps depend on it.
    unit: the unit of translation: "metre"; "scene", that of the data the trajectory belongs to; or "arbitrary", a scale that no
        other trajectory shares, as structure from motion without a known length gives it.
    near_depth: depth of the nearest surface in the same unit, where it is known.
    """

    camera_to_world: Tensor
    intrinsics: Tensor
    width: int
    height: int
    xi: float = 0.0
    fps: float = defaults.FPS
    unit: str = "scene"
    near_depth: float | None = None

    def __post_init__(self) -> None:
        poses = as_float64("camera_to_world", self.camera_to_world)
        lens = as_float64("intrinsics", self.intrinsics)
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
        object.__setattr__(self, "camera_to_world", check_poses(poses))
        object.__setattr__(self, "intrinsics", check_intrinsics(lens))
        object.__setattr__(self, "xi", number("xi", self.xi, at_least=0.0))
        object.__setattr__(self, "fps", number("fps", self.fps, above=0.0))
        if not isinstance(self.unit, str) or not self.unit:
            raise SightlineError(f"unit is {self.unit!r}: expected a word such as 'scene' or 'metre'.")
        if self.near_depth is not None:
            object.__setattr__(self, "near_depth", number("near_depth", self.near_depth, above=0.0))

    # -- properties ---------------------------------------------------------------------------------------------

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

    # -- transformations ----------------------------------------------------------------------------------------

    def replace(self, **changes: Any) -> Trajectory:
        """A copy with some fields changed. Everything is checked again."""
        return dataclasses.replace(self, **changes)

    def anchored(self, frame: int = 0) -> Trajectory:
        """The same poses in the coordinates of one of the cameras, which becomes the identity."""
        frame = frame_number("frame", frame, len(self))
        return self.replace(camera_to_world=se3.anchor(self.camera_to_world, frame))

    def scaled(self, factor: float) -> Trajectory:
        """All distances multiplied by `factor`: positions, and the near depth where it is known."""
        factor = number("factor", factor, above=0.0)
        poses = self.camera_to_world.clone()
        poses[:, :3, 3] *= factor
        return self.replace(camera_to_world=poses, near_depth=self.near_depth and self.near_depth * factor)

    def resampled(self, frames: int) -> Trajectory:
        """Interpolated to another number of frames from first to last. The duration stays, so fps changes."""
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
        """The frames in reverse order, in the same world."""
        return self.replace(camera_to_world=self.camera_to_world.flip(0), intrinsics=self.intrinsics.flip(0))

    def concatenate(self, other: Trajectory) -> Trajectory:
        """This trajectory followed by the other one, which starts at the last pose of this one. The shared frame is kept once.

        Each part keeps its own lens, so the focal length may jump at the join. The frame rate is that of this trajectory.
        """
        self._require_same_image(other)
        tail = self.camera_to_world[-1] @ other.anchored().camera_to_world[1:]
        return self.replace(
            camera_to_world=torch.cat([self.camera_to_world, tail]),
            intrinsics=torch.cat([self.intrinsics, other.intrinsics[1:]]),
        )

    def combine(self, other: Trajectory) -> Trajectory:
        """Both movements at the same time. The two must have the same number of frames.

        Positions of the two anchored trajectories are added and their rotations multiplied, self @ other. The focal
        lengths of self are multiplied by those of other relative to its first frame.
        """
        self._require_same_image(other)
        if len(self) != len(other):
            raise SightlineError(
                f"other has {len(other)} frames: expected {len(self)}, as many as the trajectory it joins."
            )
        mine, theirs = self.anchored(), other.anchored()
        both = se3.from_parts(mine.rotations @ theirs.rotations, mine.positions + theirs.positions)
        lens = self.intrinsics.clone()
        for axis in (0, 1):
            lens[:, axis, axis] *= other.intrinsics[:, axis, axis] / other.intrinsics[0, axis, axis]
        return self.replace(camera_to_world=self.camera_to_world[0] @ both, intrinsics=lens)

    def resized(self, width: int, height: int) -> Trajectory:
        """Intrinsics for the image stretched to another size, each axis by its own factor."""
        width, height = whole_number("width", width), whole_number("height", height)
        stretch = torch.tensor([width / self.width, height / self.height, 1.0], dtype=torch.float64)
        return self.replace(intrinsics=self.intrinsics * stretch[:, None], width=width, height=height)

    def cropped(self, width: int, height: int, left: float | None = None, top: float | None = None) -> Trajectory:
        """Intrinsics for a window of the image, in the middle unless `left` and `top` (pixels) are given."""
        width, height = whole_number("width", width), whole_number("height", height)
        left = (self.width - width) / 2 if left is None else number("left", left)
        top = (self.height - height) / 2 if top is None else number("top", top)
        if left < 0 or top < 0 or left + width > self.width or top + height > self.height:
            raise SightlineError(
                f"the crop {width}x{height} at ({left:g}, {top:g}) leaves the image: expected it inside "
                f"{self.width}x{self.height}."
            )
        lens = self.intrinsics.clone()
        lens[:, 0, 2] -= left
        lens[:, 1, 2] -= top
        return self.replace(intrinsics=lens, width=width, height=height)

    def fit_to(self, width: int, height: int) -> Trajectory:
        """Intrinsics for the image scaled evenly to cover (width, height) and cropped in the middle, as `fit_image` does."""
        width, height = whole_number("width", width), whole_number("height", height)
        scale = max(width / self.width, height / self.height)
        lens = self.intrinsics.clone()
        lens[:, :2] *= scale
        lens[:, 0, 2] -= (self.width * scale - width) / 2
        lens[:, 1, 2] -= (self.height * scale - height) / 2
        return self.replace(intrinsics=lens, width=width, height=height)

    # -- files and figures --------------------------------------------------------------------------------------

    @classmethod
    def load(cls, path: str | Path, format: str | None = None, **options: Any) -> Trajectory:
        """Read a trajectory file. The format is detected from the content unless it is named (see docs/formats.md).

        Warns of what is implausible, such as matrices in the wrong direction.
        """
        from sightline.cameras.formats import detect, load
        from sightline.cameras.plausibility import implausible

        trajectory = load(path, format=format, **options)
        stated: dict[str, Any] = {"axes": options.get("axes"), "direction": options.get("direction")}
        found = implausible(trajectory, **stated)
        if found:  # only now, since detection reads the file again
            found = implausible(trajectory, **stated, format=format or detect(path))
        for sentence in found:
            warnings.warn(f"{path}: {sentence}", stacklevel=2)
        return trajectory

    def save(self, path: str | Path, format: str | None = None, **options: Any) -> None:
        """Write a trajectory file, by default in the format that its ending names, else as sightline json."""
        from sightline.cameras.formats import save

        save(self, path, format=format, **options)

    def plot(self, path: str | Path | None = None, title: str | None = None) -> Figure:
        """Draw the frusta in 3D and from above, and write the figure to `path` where one is given."""
        import sightline

        return sightline.figures.draw_trajectories([self], path=path, title=title)

    def _require_same_image(self, other: Trajectory) -> None:
        if not isinstance(other, Trajectory):
            raise SightlineError(f"other is a {type(other).__name__}: expected a Trajectory.")
        for name in ("width", "height", "xi", "unit"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise SightlineError(
                    f"other has {name} {theirs}: expected {mine}, as the trajectory it joins (see fit_to, replace)."
                )


def require_trajectory(trajectory: object) -> None:
    """Refuse what is no Trajectory, such as the text of a move."""
    if not isinstance(trajectory, Trajectory):
        raise SightlineError(
            f"trajectory is a {type(trajectory).__name__}: expected a Trajectory, such as moves.orbit()."
        )
