"""The ray caster: scenes and cameras to frames and depth, batched over clips and frames, the same on any device.

On the CPU a frame is cut into tiles and each tile tests only the solids it may meet. On CUDA all rays are cast against all
solids in code that torch.compile fuses, a few clips at a time so that memory stays bounded.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import cache
from typing import Any

import torch
from torch import Tensor

from sightline.errors import SightlineError
from sightline.worlds.rays import Packets, camera_rays, first_hit, tile_candidates
from sightline.worlds.scene import FAR, KINDS, Scene
from sightline.worlds.shading import Surroundings, shade
from sightline.worlds.views import View

DEFAULT_SAMPLES = 4
_TILE = 16  # pixels on a side
_TILE_MARGIN = 1.5  # pixels around a tile within which solids count as met
# CPU: what stays in a core's cache through the hundreds of operations on it, and what torch leaves to one thread, so that
# groups of tiles can be spread over threads that never wait for each other.
_RAYS_AT_ONCE = 31 << 10
_COMPILED_RAYS_AT_ONCE = 1 << 26  # CUDA: about 31 clips of 33 x 128 x 128 x 4 samples
_PIECE, _SCENES_AT_ONCE = 512, 32  # CUDA: pixels of a packet, and scenes of a call


def render_batch(
    scenes: Scene,
    camera_to_world: Tensor,  # [B, T, 4, 4] in metres of the scenes
    intrinsics: Tensor,  # [B, T, 3, 3] pixels
    xi: Tensor,  # [B]
    width: int,
    height: int,
    *,
    seconds: Tensor | None = None,  # [B, T]
    samples: int = DEFAULT_SAMPLES,
    compile: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """Frames [B, T, H, W, 3] uint8 and depth [B, T, H, W] float32, on the scenes' device.

    Depth is along the optical axis (z-depth), of the ray through the pixel's centre; the sky is at scene.FAR.
    seconds: the time of each frame, for what moves; 16 frames per second from 0 unless given.
    samples: rays per pixel. compile: fuse with torch.compile; by default on CUDA only.
    """
    view = View.checked(scenes, camera_to_world, intrinsics, xi, width, height, seconds)
    return _frames(view, samples, compile), _depth(view, compile)


def render_frames(
    scenes: Scene,
    camera_to_world: Tensor,
    intrinsics: Tensor,
    xi: Tensor,
    width: int,
    height: int,
    *,
    seconds: Tensor | None = None,
    samples: int = DEFAULT_SAMPLES,
    compile: bool | None = None,
) -> Tensor:
    """The frames of `render_batch` alone."""
    return _frames(View.checked(scenes, camera_to_world, intrinsics, xi, width, height, seconds), samples, compile)


def render_depth(
    scenes: Scene,
    camera_to_world: Tensor,
    intrinsics: Tensor,
    xi: Tensor,
    width: int,
    height: int,
    *,
    seconds: Tensor | None = None,
    compile: bool | None = None,
) -> Tensor:
    """The depth of `render_batch` alone."""
    return _depth(View.checked(scenes, camera_to_world, intrinsics, xi, width, height, seconds), compile)


def sample_offsets(samples: int) -> Tensor:  # -> [S, 2] in (0, 1)
    """Where in a pixel its rays go: the centre, two on a diagonal, four on a rotated grid, or an even k x k grid."""
    side = round(samples**0.5) if isinstance(samples, int) and samples > 0 else 0
    if samples == 2:
        return torch.tensor([[0.25, 0.25], [0.75, 0.75]])
    if side * side != samples or side == 0:
        raise SightlineError(f"samples is {samples!r}: expected 1, 2 or a square number of rays per pixel.")
    if samples == 4:  # no two in a row or column: edges near the axes get four steps instead of two
        return torch.tensor([[0.375, 0.125], [0.875, 0.375], [0.125, 0.625], [0.625, 0.875]])
    step = (torch.arange(side) + 0.5) / side
    return torch.stack(torch.meshgrid(step, step, indexing="xy"), dim=-1).reshape(-1, 2)


def _frames(view: View, samples: int, compile: bool | None) -> Tensor:
    offsets = sample_offsets(samples)
    footprint = 1.0 if samples == 1 else 1.25 / samples**0.5

    def colour(packets: Packets, around: Surroundings, x: Tensor, y: Tensor, near: dict[str, Tensor] | None) -> Tensor:
        return _colour(packets, around, x, y, near, samples, footprint)

    return _cast(
        view, offsets, colour, torch.empty(3, dtype=torch.uint8), compile, _compiled_colour(samples, footprint)
    )


def _depth(view: View, compile: bool | None) -> Tensor:
    return _cast(view, sample_offsets(1), _depth_of, torch.empty(1), compile, _compiled_depth)[..., 0]


def _colour(
    packets: Packets,
    around: Surroundings,
    x: Tensor,
    y: Tensor,
    near: dict[str, Tensor] | None,
    samples: int,
    footprint: float,
) -> Tensor:  # [P, R / samples, 3] uint8
    rays = camera_rays(packets.camera, x, y)
    distance, slot = first_hit(packets, rays, near)
    channels = []
    for channel in shade(packets, rays, distance, slot, around, footprint):
        parts = channel.unflatten(1, (samples, -1)).unbind(1)
        total = parts[0]
        for part in parts[1:]:  # a sum in a fixed order: the same bytes whatever the batch
            total = total + part
        display = (total * (1 / samples)).clamp(0.0, 1.0).sqrt()
        channels.append((display * 255 + 0.5).to(torch.uint8))
    return torch.stack(channels, dim=-1)


def _depth_of(packets: Packets, around: Surroundings, x: Tensor, y: Tensor, near: dict[str, Tensor] | None) -> Tensor:
    rays = camera_rays(packets.camera, x, y)
    distance, slot = first_hit(packets, rays, near)
    ground = (slot >= 0) | (packets.camera[:, 10, None] + distance * rays.y > packets.room[:, 4, None] - 1e-2)
    sky = (around.light[:, 16, None] > 0) & ~ground
    return torch.where(sky, FAR, (distance * rays.forward).clamp_max(FAR))[..., None]


@cache
def _compiled_colour(samples: int, footprint: float) -> Callable[..., Tensor]:
    """Compiled on its first call, once per number of samples; all chunks of a size share it."""
    return torch.compile(
        lambda packets, around, x, y: _colour(packets, around, x, y, None, samples, footprint), dynamic=False
    )


def _compiled_depth(packets: Packets, around: Surroundings, x: Tensor, y: Tensor) -> Tensor:
    return _depth_compiler()(packets, around, x, y)


@cache
def _depth_compiler() -> Callable[..., Tensor]:
    return torch.compile(lambda packets, around, x, y: _depth_of(packets, around, x, y, None), dynamic=False)


def _cast(view: View, offsets: Tensor, per_ray: Any, like: Tensor, compile: bool | None, compiled: Any) -> Tensor:
    if compile or (compile is None and view.camera.is_cuda):
        return _cast_frames(view, offsets, compiled, like, _COMPILED_RAYS_AT_ONCE)
    if view.camera.is_cuda:  # eager: rays by solids are kept in memory, so fewer at once
        return _cast_frames(view, offsets, lambda *rest: per_ray(*rest, None), like, _COMPILED_RAYS_AT_ONCE >> 5)
    return _cast_tiles(view, offsets, per_ray, like)


def _cast_frames(view: View, offsets: Tensor, per_ray: Any, like: Tensor, rays_at_once: int) -> Tensor:
    """All rays against all solids. Every call of `per_ray` has one shape, whatever the number and size of the clips: frames
    are cut into pieces of a fixed number of pixels, and what is missing is filled up with the last piece and the last
    scene. Another shape would be compiled for a minute."""
    clips, frames, area = len(view.scenes), view.camera.shape[1], view.height * view.width
    device, pieces = view.camera.device, -(-area // _PIECE)
    at_once, per_clip = max(1, rays_at_once // (_PIECE * len(offsets))), frames * pieces  # packets
    group = max(1, min(_SCENES_AT_ONCE, at_once // per_clip))  # clips
    inside, offsets = torch.arange(_PIECE, device=device), offsets.to(device)
    out = torch.empty(clips * per_clip, _PIECE, len(like), dtype=like.dtype, device=device)
    for start in range(0, clips, group):
        scenes = (torch.arange(_SCENES_AT_ONCE) + start).clamp_max(clips - 1)
        part = view.of_clips(scenes)
        whole, clip = part.packets()
        around = part.surroundings(clip, len(like) == 3)
        count = min(group, clips - start) * per_clip
        for first in range(0, count, at_once):
            packet = (torch.arange(at_once, device=device) + first).clamp_max(count - 1)
            frame = packet // pieces
            pixel = ((packet % pieces) * _PIECE)[:, None] + inside  # [P, _PIECE]
            x, y = (
                (at[:, None] + offset[:, None]).flatten(1)  # [P, S * _PIECE]
                for at, offset in ((pixel % view.width, offsets[:, 0]), (pixel // view.width, offsets[:, 1]))
            )
            packets = Packets(whole.camera[frame], whole.solids[frame], whole.room[frame])
            light = _of_packets(around, clip, frame)
            used, place = min(at_once, count - first), start * per_clip + first
            out[place : place + used] = per_ray(packets, light, x, y)[:used]
    out = out.view(clips, frames, pieces * _PIECE, len(like))[:, :, :area]
    return out.unflatten(2, (view.height, view.width))


def _of_packets(around: Surroundings, clip: Tensor, frame: Tensor) -> Surroundings:  # [F], [P]
    """The surroundings of packets, from those of whole frames. clip: of each frame. frame: of each packet."""
    extent, light = around.ground_extent[frame], around.light[frame]
    return replace(around, clip=clip[frame], light=light, ground_extent=extent)


def _cast_tiles(view: View, offsets: Tensor, per_ray: Any, like: Tensor) -> Tensor:
    """Tiles sorted by how many solids they may meet, so that each group tests few; put back in order at the end."""
    rows, columns = -(-view.height // _TILE), -(-view.width // _TILE)
    tiles, area = rows * columns, _TILE * _TILE
    frame_packets, clip = view.packets()
    around = view.surroundings(clip, len(like) == 3)
    frame = torch.arange(len(clip)).repeat_interleave(tiles)  # [P] the frame of each tile
    tile = torch.arange(tiles).repeat(len(clip))
    left, top = (tile % columns) * float(_TILE), (tile // columns) * float(_TILE)  # [P]
    low, high = -_TILE_MARGIN, _TILE + _TILE_MARGIN
    corner = torch.tensor([[low, low], [high, low], [high, high], [low, high]])
    packets = Packets(frame_packets.camera[frame], frame_packets.solids[frame], frame_packets.room[frame])
    meets = tile_candidates(packets, left[:, None] + corner[:, 0], top[:, None] + corner[:, 1])  # [P, SOLIDS]
    order = meets.sum(-1).argsort(stable=True)
    inside = torch.arange(area)
    x = ((inside % _TILE) + offsets[:, :1]).flatten()  # [S * area]
    y = ((inside // _TILE) + offsets[:, 1:]).flatten()
    out = torch.empty(len(frame), area, len(like), dtype=like.dtype)

    def cast(some: Tensor) -> None:
        group = Packets(packets.camera[some], packets.solids[some], packets.room[some])
        near = {kind: _first_true(meets[some, slots]) + slots.start for kind, slots in KINDS.items()}
        light = _of_packets(around, clip, frame[some])
        out[some] = per_ray(group, light, left[some, None] + x, top[some, None] + y, near)

    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        list(pool.map(cast, order.split(max(1, _RAYS_AT_ONCE // len(x)))))
    out = out.reshape(len(view.scenes), -1, rows, columns, _TILE, _TILE, len(like)).transpose(3, 4)
    return out.reshape(len(view.scenes), -1, rows * _TILE, columns * _TILE, len(like))[
        :, :, : view.height, : view.width
    ]


def _first_true(mask: Tensor) -> Tensor:  # [P, N] -> [P, K]
    """Numbers of the true entries, as many per row as the fullest row has; rows are filled up with other numbers."""
    most = int(mask.sum(-1).max())
    return mask.to(torch.int8).argsort(dim=-1, descending=True, stable=True)[:, :most]
