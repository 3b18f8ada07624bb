"""CameraTokens: a trajectory laid on the grid of a latent video, one float32 row per token."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor
from torch.utils import _pytree as pytree

from sightline.cameras import lens, plucker, se3
from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.token_grid import TEMPORAL_STRIDE, TokenGrid
from sightline.cameras.trajectory import Trajectory, require_trajectory
from sightline.checks import frame_number, whole_number
from sightline.errors import SightlineError

# The columns of a row. Nothing else in the package may count them.
RAY = slice(0, 6)
WORLD_TO_CAMERA = slice(6, 18)
INTRINSICS = slice(18, 22)
LOG_SCALE_OFFSET = slice(22, 23)
XI = slice(23, 24)
POSITION = slice(24, 26)
RAW_FRAMES = slice(26, 90)
ROW_WIDTH = 90

FOLD = 4  # raw frames of a latent frame that a row describes one by one

_GRID = ("latent frames of grid", "token rows of grid", "token columns of grid")

LatentPose = Literal["last", "first", "middle"]


@dataclass(frozen=True, eq=False)
class CameraTokens:
    """The camera of every token of a latent video. `rows` is the only data; the properties are views of it.

    rows: [B, N, 90] float32, N = t * h * w tokens in the order (t, y, x), x fastest. B = 1 serves any batch.
    grid: the latent frames, token rows and token columns t, h, w.
    A row of zeros means "no camera": an encoding leaves such a token as the pretrained model has it.
    """

    rows: Tensor
    grid: TokenGrid  # a plain tuple of three is converted

    def __post_init__(self) -> None:
        object.__setattr__(self, "grid", check_grid(self.grid))
        tokens = self.grid.num_tokens
        if self.rows.ndim != 3 or self.rows.shape[1:] != (tokens, ROW_WIDTH):
            raise SightlineError(
                f"rows has shape {tuple(self.rows.shape)}: expected [B, {tokens}, {ROW_WIDTH}] "
                f"for grid {tuple(self.grid)}."
            )
        if self.rows.dtype != torch.float32:
            raise SightlineError(
                f"rows is {self.rows.dtype}: expected torch.float32, rays lose their meaning below it."
            )

    @classmethod
    def from_trajectory(
        cls,
        trajectory: Trajectory,
        grid: TokenGrid | tuple[int, int, int],  # latent frames, token rows, token columns
        *,
        anchor: int | None = 0,
        latent_pose: LatentPose = "last",
        temporal_stride: int = TEMPORAL_STRIDE,
    ) -> CameraTokens:
        """One row per token, from a trajectory of temporal_stride * (t - 1) + 1 raw frames.

        anchor: the raw frame that becomes the identity, or None to keep the world coordinates.
        latent_pose: the raw frame whose pose a latent frame k > 0 takes. It covers raw frames 4k-3 .. 4k, and takes the
            last (4k), the first (4k-3) or the middle one (4k-1). Latent frame 0 takes raw frame 0.
        """
        require_trajectory(trajectory)
        if trajectory.xi > 1:
            token_rays(trajectory, torch.arange(len(trajectory)), *check_grid(grid)[1:])  # refuses pixels without a ray
        cameras = CameraBatch.from_trajectory(trajectory)
        return cls.from_cameras(cameras, grid, anchor=anchor, latent_pose=latent_pose, temporal_stride=temporal_stride)

    @classmethod
    def from_cameras(
        cls,
        cameras: CameraBatch,
        grid: TokenGrid | tuple[int, int, int],
        *,
        anchor: int | None = 0,
        latent_pose: LatentPose = "last",
        temporal_stride: int = TEMPORAL_STRIDE,
    ) -> CameraTokens:
        """The rows of several clips at once, on the device of their cameras; see `from_trajectory`."""
        frames, rows, columns = grid = check_grid(grid)
        _warn_unless_square(cameras.width, cameras.height, rows, columns)
        found, expected = cameras.camera_to_world.shape[1], temporal_stride * (frames - 1) + 1
        if found != expected:
            raise SightlineError(
                f"trajectory has {found} frames: expected {temporal_stride} x ({frames} - 1) + 1 = {expected} "
                f"for {frames} latent frames (see Trajectory.resampled)."
            )
        if anchor is not None:
            cameras = cameras.anchored(frame_number("anchor", anchor, found))
        device = cameras.camera_to_world.device
        # Everything is made on the device: a copy to it would wait for what it is computing.
        picked = _latent_frames(frames, latent_pose, temporal_stride, device)
        folded = _folded_frames(frames, temporal_stride, device)
        poses, lenses = cameras.camera_to_world[:, picked], cameras.intrinsics[:, picked]  # [B, t, ...]
        centres = lens.grid_centres(cameras.width, cameras.height, columns, rows, device).flatten(0, 1)
        ray = _rays(poses, lenses, centres, cameras.xi[:, None, None])  # [B, t, h w, 6]
        posed = _posed(cameras)  # [B, T, 16]
        offset_and_xi = torch.stack([torch.zeros_like(cameras.xi), cameras.xi], -1)[:, None].expand(-1, frames, 2)
        pose = torch.cat([posed[:, picked], offset_and_xi], dim=-1)
        raw = torch.cat([posed[:, one] for one in folded], dim=-1)  # [B, t, 64]
        numbers = torch.arange(rows, device=device), torch.arange(columns, device=device)
        position = torch.cartesian_prod(*numbers)  # [h w, 2], columns fastest
        parts = (ray, pose[:, :, None], position.view(1, 1, -1, 2), raw[:, :, None])
        values = torch.cat([part.expand(len(cameras), frames, rows * columns, -1).float() for part in parts], dim=-1)
        return cls(values.flatten(1, 2), grid)

    @classmethod
    def absent(cls, grid: TokenGrid | tuple[int, int, int], batch: int = 1) -> CameraTokens:
        """Tokens without a camera: zeros. Unlike leaving the camera out, they keep all parameters in the autograd graph."""
        grid = check_grid(grid)
        return cls(torch.zeros(batch, grid.num_tokens, ROW_WIDTH), grid)

    @classmethod
    def batch(cls, tokens: Iterable[CameraTokens]) -> CameraTokens:
        """Several clips as one batch; their grids must agree."""
        tokens = list(tokens)
        grids = {one.grid for one in tokens}
        if len(grids) != 1:
            raise SightlineError(
                f"tokens have the grids {sorted(tuple(grid) for grid in grids)}: expected one grid for a batch."
            )
        return cls(torch.cat([one.rows for one in tokens]), tokens[0].grid)

    # -- views of the columns -------------------------------------------------------------------------------------

    @property
    def ray(self) -> Tensor:  # [B, N, 6]
        """Pluecker coordinates (d, m) in the anchored world; d has unit length."""
        return self.rows[..., RAY]

    @property
    def world_to_camera(self) -> Tensor:  # [B, N, 3, 4]
        return self.rows[..., WORLD_TO_CAMERA].unflatten(-1, (3, 4))

    @property
    def intrinsics(self) -> Tensor:  # [B, N, 4]
        """fx / width, fy / height, cx / width - 1/2, cy / height - 1/2."""
        return self.rows[..., INTRINSICS]

    @property
    def log_scale_offset(self) -> Tensor:  # [B, N, 1]
        return self.rows[..., LOG_SCALE_OFFSET]

    @property
    def xi(self) -> Tensor:  # [B, N, 1]
        """The unified camera model's xi; 0 is a pinhole."""
        return self.rows[..., XI]

    @property
    def position(self) -> Tensor:  # [B, N, 2]
        """The token's row and column on the grid."""
        return self.rows[..., POSITION]

    @property
    def raw_frames(self) -> Tensor:  # [B, N, 4, 16]
        """World-to-camera (12) and intrinsics (4) of the four raw frames of the token's latent frame, in their order."""
        return self.rows[..., RAW_FRAMES].unflatten(-1, (FOLD, 16))

    # -- transformations ------------------------------------------------------------------------------------------

    def to(self, device: torch.device | str) -> CameraTokens:
        return dataclasses.replace(self, rows=self.rows.to(device))

    def with_log_scale_offset(self, offset: Tensor | float) -> CameraTokens:  # [B] or a number
        """The tokens with this offset, which is added to the log magnitude that the scale gate reads and to nothing else."""
        offset = torch.as_tensor(offset, dtype=torch.float32, device=self.rows.device)
        clips = len(self.rows)
        if offset.ndim > 1 or (offset.numel() != 1 and clips not in (1, offset.numel())):
            raise SightlineError(
                f"offset has shape {tuple(offset.shape)}: expected one number, or one per clip ({clips})."
            )
        rows = self.rows.expand(max(clips, offset.numel()), -1, -1).clone()
        rows[..., LOG_SCALE_OFFSET] = offset.reshape(-1, 1, 1)
        return dataclasses.replace(self, rows=rows)

    def augmented(
        self, probability: float = 0.3, low: float = -1.2, high: float = 1.6, generator: torch.Generator | None = None
    ) -> CameraTokens:
        """The paper's log-scale augmentation for training: with this probability, a clip's offset is drawn from U(low, high)."""
        clips = self.rows.shape[0]
        delta = low + (high - low) * torch.rand(clips, generator=generator)
        return self.with_log_scale_offset(delta * (torch.rand(clips, generator=generator) < probability))


def _flatten(tokens: CameraTokens) -> tuple[list[Tensor], TokenGrid]:
    return [tokens.rows], tokens.grid


def _unflatten(leaves: Iterable[Any], grid: TokenGrid) -> CameraTokens:
    tokens = object.__new__(CameraTokens)  # without the checks: a leaf may stand for a tensor while a graph is traced
    object.__setattr__(tokens, "rows", next(iter(leaves)))
    object.__setattr__(tokens, "grid", grid)
    return tokens


# torch.export, and whatever else looks for the tensors in a model's arguments, accepts only classes that it knows.
pytree.register_pytree_node(
    CameraTokens,
    _flatten,
    _unflatten,
    serialized_type_name="sightline.CameraTokens",
    flatten_with_keys_fn=lambda tokens: ([(pytree.GetAttrKey("rows"), tokens.rows)], tokens.grid),
    to_dumpable_context=list,
    from_dumpable_context=lambda grid: TokenGrid(*grid),
)


def has_camera(camera_rows: Tensor) -> Tensor:  # [..., 90] -> [..., 1] bool
    """False for tokens without a camera, whose rows are zeros."""
    return (camera_rows[..., RAY][..., :3] != 0).any(dim=-1, keepdim=True)


def token_rays(trajectory: Trajectory, frames: Tensor, rows: int, columns: int) -> Tensor:  # [t] -> [t, h w, 6]
    """World rays (d, m) through the centres of a grid of patches, for some frames of a trajectory."""
    intrinsics = trajectory.intrinsics[frames]
    centres = lens.grid_centres(trajectory.width, trajectory.height, columns, rows).flatten(0, 1)  # [h w, 2]
    lens.require_rays(intrinsics[:, None], centres, trajectory.xi)
    return _rays(trajectory.camera_to_world[frames], intrinsics, centres, trajectory.xi)


def _rays(poses: Tensor, intrinsics: Tensor, centres: Tensor, xi: Tensor | float) -> Tensor:  # -> [..., t, h w, 6]
    """poses: [..., t, 4, 4]. intrinsics: [..., t, 3, 3]. centres: [h w, 2] pixels."""
    x, y = lens.image_plane(intrinsics[..., None, :, :], centres)  # [..., t, h w]
    direction = lens.unproject(x, y, xi) @ poses[..., :3, :3].transpose(-1, -2)
    return plucker.line_through(poses[..., None, :3, 3], direction)


def check_grid(grid: TokenGrid | tuple[int, int, int]) -> TokenGrid:
    if not isinstance(grid, tuple | list | torch.Size) or len(grid) != 3:
        raise SightlineError(f"grid is {grid!r}: expected (latent frames, token rows, token columns).")
    return TokenGrid(*(whole_number(name, size) for name, size in zip(_GRID, grid, strict=True)))


def _warn_unless_square(width: int, height: int, rows: int, columns: int) -> None:
    """Models have square tokens. Others mean that the trajectory has another image size, or that rows and columns are swapped."""
    across, down = width / columns, height / rows
    if not 0.9 < across / down < 1.1:
        warnings.warn(
            f"tokens of {across:.3g} x {down:.3g} pixels are not square: a trajectory of "
            f"{width}x{height} on {rows} rows and {columns} columns (see Trajectory.fit_to).",
            stacklevel=4,
        )


def _latent_frames(frames: int, latent_pose: LatentPose, stride: int, device: torch.device) -> Tensor:  # -> [t]
    """The raw frame whose pose each latent frame takes."""
    back = {"last": 0, "first": stride - 1, "middle": (stride - 1) // 2}
    if latent_pose not in back:
        raise SightlineError(f"latent_pose is {latent_pose!r}: expected one of {sorted(back)}.")
    return (torch.arange(frames, device=device) * stride - back[latent_pose]).clamp_min(0)


def _folded_frames(frames: int, stride: int, device: torch.device) -> Tensor:  # -> [4, t] raw frame numbers
    """The raw frames 4k-3 .. 4k of latent frame k, and frame 0 four times; evenly spaced where the stride is not four."""
    back = torch.linspace(stride - 1, 0, FOLD, device=device).round().long()
    return (torch.arange(frames, device=device) * stride - back[:, None]).clamp_min(0)


def _posed(cameras: CameraBatch) -> Tensor:  # -> [B, T, 16]
    """World to camera (12) and normalised intrinsics (4) of every frame."""
    pose, lens = se3.inverse(cameras.camera_to_world)[..., :3, :].flatten(2), cameras.intrinsics
    fx, fy = lens[..., 0, 0] / cameras.width, lens[..., 1, 1] / cameras.height
    cx, cy = lens[..., 0, 2] / cameras.width - 0.5, lens[..., 1, 2] / cameras.height - 0.5
    return torch.cat([pose, torch.stack([fx, fy, cx, cy], dim=-1)], dim=-1)
