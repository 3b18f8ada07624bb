"""Trajectories to write, and what each format is said to carry of them."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from sightline.cameras import se3
from sightline.cameras.lens import intrinsics_matrix
from sightline.cameras.trajectory import Trajectory

ALL = frozenset({"lens", "size", "fps", "xi", "unit", "near_depth"})


@dataclass(frozen=True)
class Carried:
    """`origin`: "kept", "anchored" to the first camera, or "moved" so that the first camera stands at the origin."""

    fields: frozenset[str]
    origin: str = "kept"
    square: bool = False  # only fx = fy survives
    centred: bool = False  # only a centred principal point, or an image size that follows from it, survives


CARRIED = {
    "sightline": Carried(ALL),
    "re10k": Carried(frozenset({"lens", "fps"})),
    "nerfstudio": Carried(frozenset({"lens", "size"})),
    "nerfstudio-path": Carried(frozenset({"lens", "size", "fps"}), square=True, centred=True),
    "colmap": Carried(frozenset({"lens", "size"})),
    "tum": Carried(frozenset({"fps"})),
    "kitti": Carried(frozenset()),
    "panshot": Carried(frozenset(), origin="moved"),
    "omniworld": Carried(frozenset({"lens", "size"}), square=True, centred=True),
    "motionctrl": Carried(frozenset(), origin="anchored"),
    "recammaster": Carried(frozenset(), origin="anchored"),
    "worldplay": Carried(frozenset({"lens", "size"}), centred=True),
    "vipe": Carried(frozenset({"lens", "size"}), centred=True),
    "matrices": Carried(frozenset()),
}

FILE_NAMES = {
    "sightline": "path.json",
    "re10k": "clip.txt",
    "nerfstudio": "transforms.json",
    "nerfstudio-path": "camera_path.json",
    "colmap": "sparse",
    "tum": "traj.txt",
    "kitti": "poses.txt",
    "panshot": "clip.npy",
    "omniworld": "split_0.json",
    "motionctrl": "motion.json",
    "recammaster": "camera_extrinsics.json",
    "worldplay": "pose.json",
    "vipe": "pose/clip.npz",
    "matrices": "poses.csv",
}


def random_trajectory(
    seed: int, frames: int, square: bool = False, centred: bool = False, constant: bool = False, xi: float = 0.0
) -> Trajectory:
    generator = torch.Generator().manual_seed(seed)

    def uniform(low: float, high: float, *shape: int) -> torch.Tensor:
        return low + (high - low) * torch.rand(*shape, generator=generator, dtype=torch.float64)

    quaternions = torch.randn(frames, 4, generator=generator, dtype=torch.float64)
    poses = se3.from_parts(se3.quaternion_to_rotation(quaternions), uniform(-5, 5, frames, 3))
    width, height = int(uniform(16, 2000, 1)), int(uniform(16, 2000, 1))
    fx = uniform(50, 3000, frames)
    fy = fx.clone() if square else fx * uniform(0.7, 1.4, frames)
    cx = torch.full_like(fx, width / 2) if centred else uniform(0.3, 0.7, frames) * width
    cy = torch.full_like(fx, height / 2) if centred else uniform(0.3, 0.7, frames) * height
    lens = intrinsics_matrix(fx, fy, cx, cy)
    return Trajectory(
        poses,
        lens[0] if constant else lens,
        width,
        height,
        xi=xi,
        fps=float(uniform(1, 60, 1)),
        unit="metre",
        near_depth=float(uniform(0.1, 9, 1)),
    )


def carried_part(name: str, trajectory: Trajectory) -> torch.Tensor:  # [T, 4, 4]
    """The camera-to-world poses that should come back from a file of this format."""
    poses = trajectory.camera_to_world.clone()
    if CARRIED[name].origin == "anchored":
        return se3.anchor(poses)
    if CARRIED[name].origin == "moved":
        poses[:, :3, 3] -= trajectory.positions[0]
    return poses
