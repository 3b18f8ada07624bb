"""The preview: the first picture as a point cloud, seen from any frame of a trajectory. What no point covers stays a hole."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from sightline.cameras import lens, se3
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

FAR = 1e4  # scene units, where the sky is put
_HOLE = ((58, 62, 70), (74, 79, 88))  # the two greys of the pattern that stands for a hole
_HOLE_SIDE = 8  # pixels of its squares, of a picture 256 wide
_MAX_SPLAT = 4  # pixels: points are drawn at most this large, so that a near surface may tear
_MIN_DEPTH = 1e-3
_SAMPLED = 61  # every so many points tell how large points are drawn


@dataclass(frozen=True, eq=False)
class Preview:
    """A picture with its depth, as the first camera of a trajectory sees it.

    picture: [H, W, 3] uint8. depth: [H, W]. camera: a trajectory, of which only the first frame's lens is used; the points are
    in the coordinates of that camera.
    """

    picture: np.ndarray
    depth: Tensor
    camera: Trajectory

    def __post_init__(self) -> None:
        size = (self.camera.height, self.camera.width)
        if self.picture.shape != (*size, 3) or tuple(self.depth.shape) != size:
            raise SightlineError(
                f"picture is {list(self.picture.shape)} and depth {list(self.depth.shape)}: expected {list(size)}, as the camera."
            )
        depth = self.depth.float().clamp(_MIN_DEPTH, FAR)
        object.__setattr__(self, "depth", depth)
        points = _rays(self.camera, 0) * depth[..., None]
        object.__setattr__(self, "_points", points.reshape(-1, 3).T.contiguous())  # [3, H * W]
        colours = torch.from_numpy(np.array(self.picture)).permute(2, 0, 1)[None].float()
        object.__setattr__(self, "_colours", colours)  # [1, 3, H, W]

    @property
    def points(self) -> Tensor:  # [H * W, 3]
        """The point of each pixel, row by row, in the coordinates of the first camera."""
        points: Tensor = self._points  # type: ignore[attr-defined]
        return points.T

    def frame(self, trajectory: Trajectory, frame: int) -> tuple[np.ndarray, np.ndarray]:
        """The view from a frame of a trajectory, anchored at its first frame: [H, W, 3] uint8, and [H, W] bool, True in holes.

        Depths are drawn first, the nearest winning; then each pixel takes the colour that the picture has where the pixel's
        point is, which is sharper than drawing the points themselves.
        """
        pose = (se3.inverse(trajectory.camera_to_world[0]) @ trajectory.camera_to_world[frame]).float()
        depth = self._depth_from(pose, trajectory, frame)  # [H, W], infinite in holes
        holes = depth == torch.inf
        points = _rays(trajectory, frame) * depth.masked_fill(holes, 1.0)[..., None]
        points = torch.addmm(pose[:3, 3], points.view(-1, 3), pose[:3, :3].T)
        size = points.new_tensor([self.camera.width, self.camera.height])
        source = 2 * _project(self.camera.intrinsics[0].float(), points, self.camera.xi) / size - 1
        colours: Tensor = self._colours  # type: ignore[attr-defined]
        sampled = F.grid_sample(colours, source.view(1, *depth.shape, 2), "bilinear", "border", align_corners=False)
        picture = sampled[0].add_(0.5).to(torch.uint8).permute(1, 2, 0).contiguous().numpy()
        mask = holes.numpy()
        picture[mask] = hole_pattern(trajectory.width, trajectory.height)[mask]
        return picture, mask

    def _depth_from(self, pose: Tensor, trajectory: Trajectory, frame: int) -> Tensor:  # -> [H, W]
        """The depth of the nearest point in each pixel; infinite where there is none."""
        width, height, optics = trajectory.width, trajectory.height, trajectory.intrinsics[frame].float()
        to_camera = se3.inverse(pose)
        seen = torch.addmm(to_camera[:3, 3:], to_camera[:3, :3], self._points)  # type: ignore[attr-defined]  # [3, N]
        z = seen[2]
        pixels = _project(optics, seen.T, trajectory.xi)
        # A point covers what its pixel of the picture covers: more where the camera came nearer or the lens is longer.
        zoom = float(optics[0, 0] / self.camera.intrinsics[0, 0, 0]) * (self.camera.width / trajectory.width)
        nearer = float((self.depth.view(-1)[::_SAMPLED] / z[::_SAMPLED].clamp_min(_MIN_DEPTH)).quantile(0.95))
        side = 1 + min(max(round(zoom * nearer), 1), _MAX_SPLAT)  # one more closes the seams between neighbours
        # Points outside land in a margin around the picture, which is cut off.
        stride = width + 2 * side
        left, top = (pixels - (side - 1) / 2).floor().nan_to_num(-side).to(torch.int64).unbind(-1)
        place = (top.clamp(-side, height) + side) * stride + left.clamp(-side, width) + side
        z = torch.where(z > _MIN_DEPTH, z, torch.inf)
        buffer = torch.full(((height + 2 * side) * stride,), torch.inf)
        for offset in (down * stride + across for down in range(side) for across in range(side)):
            buffer.scatter_reduce_(0, place + offset, z, "amin")
        return buffer.view(height + 2 * side, stride)[side : side + height, side : side + width]


def _project(intrinsics: Tensor, points: Tensor, xi: float) -> Tensor:  # [3, 3], [N, 3] -> [N, 2]
    """`lens.project`; for a pinhole without the lengths of the points, which take half of the time."""
    if xi:
        return lens.project(intrinsics, points, xi)
    focal, centre = intrinsics[[0, 1], [0, 1]], intrinsics[:2, 2]
    return points[:, :2] / points[:, 2:] * focal + centre


def _rays(trajectory: Trajectory, frame: int) -> Tensor:  # -> [H, W, 3] float32
    """Directions through the pixels of a frame, in camera coordinates, as long as their depth is 1."""
    width, height, optics = trajectory.width, trajectory.height, trajectory.intrinsics[frame]
    if trajectory.xi:
        rays = lens.pixel_rays(optics, lens.grid_centres(width, height, width, height), trajectory.xi)
        return (rays / rays[..., 2:].clamp_min(1e-6)).float()
    rays = torch.ones(height, width, 3)
    rays[..., 0] = ((torch.arange(width) + 0.5 - optics[0, 2]) / optics[0, 0]).float()
    rays[..., 1] = ((torch.arange(height) + 0.5 - optics[1, 2]) / optics[1, 1]).float()[:, None]
    return rays


def hole_pattern(width: int, height: int) -> np.ndarray:  # -> [H, W, 3] uint8
    """A quiet grey checkerboard, as picture editors show what is not there."""
    side = max(2, _HOLE_SIDE * width // 256)
    squares = (np.arange(height)[:, None] // side + np.arange(width)[None] // side) % 2
    return np.array(_HOLE, dtype=np.uint8)[squares]
