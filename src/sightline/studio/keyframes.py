"""Keyframes: a few cameras that the user places, and the smooth trajectory through all of them, first and last included.

Every key falls on a frame, so its pose and lens are those of that frame exactly. Between two keys, positions follow a cubic
Hermite spline, rotations a Bezier curve on the sphere of quaternions, and the logarithm of the focal length a cubic that does not
overshoot; all with the velocities of a Catmull-Rom spline in time. A camera that stays for a while stays exactly.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from sightline.cameras import defaults, lens, se3
from sightline.cameras.moves import Easing
from sightline.cameras.moves.shot import Shot
from sightline.cameras.pose_checks import as_float64, check_poses
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.errors import SightlineError
from sightline.studio.rotations import bezier, log_rotation

MAX_KEYS = 64
_STILL = 1e-9  # smaller steps are a camera that stays


@dataclass(frozen=True, eq=False)
class Key:
    """One camera on the way.

    camera_to_world: [4, 4]. focal_mm: on a sensor 36 mm wide. seconds and easing: of the transition to the next key; for the last
    key, of the way back to the first one, where the keyframes are a loop.
    """

    camera_to_world: Tensor
    focal_mm: float = defaults.FOCAL_MM
    seconds: float = 1.0
    easing: Easing = "linear"

    def __post_init__(self) -> None:
        pose = as_float64("camera_to_world", self.camera_to_world)
        if pose.shape != (4, 4):
            raise SightlineError(f"camera_to_world has shape {tuple(pose.shape)}: expected [4, 4].")
        object.__setattr__(self, "camera_to_world", check_poses(pose[None])[0])
        object.__setattr__(self, "focal_mm", number("focal_mm", self.focal_mm, above=0.0))
        object.__setattr__(self, "seconds", number("seconds", self.seconds, above=0.0))
        if self.easing not in get_args(Easing):
            raise SightlineError(f"easing is {self.easing!r}: expected one of {', '.join(get_args(Easing))}.")

    def replace(self, **changes: object) -> Key:
        return dataclasses.replace(self, **changes)  # type: ignore[arg-type]  # checked by __post_init__


@dataclass(frozen=True, eq=False)
class Keyframes:
    """Keys in order. loop: the camera returns to the first key, over the seconds of the last one."""

    keys: tuple[Key, ...]
    loop: bool = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "keys", tuple(self.keys))
        if not 1 <= len(self.keys) <= MAX_KEYS:
            raise SightlineError(f"there are {len(self.keys)} keys: expected 1 to {MAX_KEYS}.")

    def __len__(self) -> int:
        return len(self.keys)

    # -- as JSON ----------------------------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads back bit for bit."""
        keys = [
            {
                "camera_to_world": key.camera_to_world.tolist(),
                "focal_mm": key.focal_mm,
                "seconds": key.seconds,
                "easing": key.easing,
            }
            for key in self.keys
        ]
        return {"loop": self.loop, "keys": keys}

    @classmethod
    def from_json(cls, content: Any) -> Keyframes:
        """The inverse of `to_json`; anything else is refused."""
        try:
            keys = [
                Key(
                    torch.tensor(key["camera_to_world"], dtype=torch.float64),
                    key["focal_mm"],
                    key["seconds"],
                    key["easing"],
                )
                for key in content["keys"]
            ]
            return cls(tuple(keys), bool(content["loop"]))
        except (TypeError, KeyError, ValueError) as error:
            if isinstance(error, SightlineError):
                raise
            raise SightlineError(
                "the keyframes cannot be read: expected a list of keys that the studio wrote."
            ) from None

    # -- editing, each of which returns new keyframes ---------------------------------------------------------------

    def insert(self, index: int, key: Key) -> Keyframes:
        """With one more key, which gets this index."""
        if not 0 <= index <= len(self):
            raise SightlineError(f"index is {index}: expected a place from 0 to {len(self)}.")
        return dataclasses.replace(self, keys=(*self.keys[:index], key, *self.keys[index:]))

    def delete(self, index: int) -> Keyframes:
        """Without a key."""
        self._require(index)
        return dataclasses.replace(self, keys=(*self.keys[:index], *self.keys[index + 1 :]))

    def change(self, index: int, **changes: object) -> Keyframes:
        """With some fields of a key changed."""
        self._require(index)
        changed = self.keys[index].replace(**changes)
        return dataclasses.replace(self, keys=(*self.keys[:index], changed, *self.keys[index + 1 :]))

    def _require(self, index: int) -> None:
        if not 0 <= index < len(self):
            raise SightlineError(f"index is {index}: expected a key from 0 to {len(self) - 1}.")

    # -- time ----------------------------------------------------------------------------------------------------

    @property
    def seconds(self) -> float:
        """Of all transitions together."""
        return sum(key.seconds for key in (self.keys if self.loop and len(self) > 1 else self.keys[:-1]))

    def key_frames(self, frames: int) -> list[int]:
        """The frame of each key, and, of a loop, the last frame, in which the camera is back."""
        stops = self._stops()
        if frames < len(stops):
            raise SightlineError(f"frames is {frames}: expected at least {len(stops)}, one for each key.")
        if len(stops) == 1:
            return [0]
        total, passed, at = self.seconds, 0.0, [0]
        for number_, key in enumerate(stops[:-1], start=1):
            passed += key.seconds
            latest = frames - 1 - (len(stops) - 1 - number_)  # leaves a frame for each key to come
            at.append(min(max(round(passed / total * (frames - 1)), at[-1] + 1), latest))
        return at

    def _stops(self) -> list[Key]:
        return [*self.keys, self.keys[0]] if self.loop and len(self) > 1 else list(self.keys)

    # -- the trajectory -------------------------------------------------------------------------------------------

    def trajectory(
        self,
        frames: int = defaults.NUM_FRAMES,
        width: int = defaults.WIDTH,
        height: int = defaults.HEIGHT,
        fps: float = defaults.FPS,
    ) -> Trajectory:
        """The spline through all keys, stretched over this many frames in the proportion of the keys' seconds."""
        frames = whole_number("frames", frames)
        stops, at = self._stops(), self.key_frames(frames)
        poses = torch.stack([key.camera_to_world for key in stops])  # [K, 4, 4]
        focal = torch.tensor([key.focal_mm for key in stops], dtype=torch.float64).log()  # [K]
        if len(stops) == 1:
            camera_to_world, log_focal = poses.expand(frames, 4, 4), focal.expand(frames)
        else:
            camera_to_world, log_focal = self._sample(stops, at, poses, focal)
        intrinsics = lens.intrinsics_from_mm(log_focal.exp(), width, height)
        return Trajectory(camera_to_world.clone(), intrinsics, width, height, fps=fps)

    def _sample(self, stops: Sequence[Key], at: list[int], poses: Tensor, focal: Tensor) -> tuple[Tensor, Tensor]:
        times = torch.tensor(at, dtype=torch.float64)
        duration = times.diff()  # [K - 1] frames
        rotations, positions = poses[:, :3, :3], poses[:, :3, 3]
        closed = self.loop
        velocity = _velocities(positions.diff(dim=0), duration, closed)  # [K, 3] each, per frame
        spin = _velocities(log_rotation(rotations[:-1].transpose(-1, -2) @ rotations[1:]), duration, closed)
        growth = _monotone(focal.diff(dim=0), duration, closed)  # [K]
        parts, lenses = [poses[:1]], [focal[:1]]
        for i in range(len(stops) - 1):
            length = int(duration[i])
            time = torch.arange(1, length + 1, dtype=torch.float64) / length
            u = Shot(frames=2, easing=stops[i].easing).ease(time)  # [length]
            position = _hermite(positions[i], positions[i + 1], velocity[i] * length, velocity[i + 1] * length, u)
            rotation = bezier(rotations[i], rotations[i + 1], spin[i] * length, spin[i + 1] * length, u)
            part = se3.from_parts(rotation, position)
            part[-1] = poses[i + 1]  # exactly, and not up to rounding
            parts.append(part)
            log_focal = _hermite(focal[i], focal[i + 1], growth[i] * length, growth[i + 1] * length, u)
            log_focal[-1] = focal[i + 1]
            lenses.append(log_focal)
        return torch.cat(parts), torch.cat(lenses)


def _velocities(steps: Tensor, duration: Tensor, closed: bool) -> Tensor:  # [K - 1, C], [K - 1] -> [K, C]
    """Catmull-Rom in time: at a key, the mean of the speeds before and after it, weighted by the other's duration.

    Zero beside a step in which nothing moves, so that a camera that stays does not sway. At the ends, the speed of the only
    step; of a loop, as between the last step and the first.
    """
    speed = steps / duration[:, None]
    before, after = (
        torch.cat([speed[-1:] if closed else speed[:1], speed]),
        torch.cat([speed, speed[:1] if closed else speed[-1:]]),
    )
    lengths_before = torch.cat([duration[-1:] if closed else duration[:1], duration])[:, None]
    lengths_after = torch.cat([duration, duration[:1] if closed else duration[-1:]])[:, None]
    mean = (before * lengths_after + after * lengths_before) / (lengths_before + lengths_after)
    stays = (before.norm(dim=-1) < _STILL) | (after.norm(dim=-1) < _STILL)
    return torch.where(stays[:, None], torch.zeros_like(mean), mean)


def _monotone(steps: Tensor, duration: Tensor, closed: bool) -> Tensor:  # [K - 1] x2 -> [K]
    """Velocities that never overshoot (Fritsch-Carlson): zero where the direction changes, at most three times a speed beside."""
    velocity = _velocities(steps[:, None], duration, closed)[:, 0]
    speed = steps / duration
    before = torch.cat([speed[-1:] if closed else speed[:1], speed])
    after = torch.cat([speed, speed[:1] if closed else speed[-1:]])
    limit = 3 * torch.minimum(before.abs(), after.abs())
    velocity = velocity.clamp(-limit, limit)
    return torch.where(before * after <= 0, torch.zeros_like(velocity), velocity)


def _hermite(start: Tensor, end: Tensor, leave: Tensor, arrive: Tensor, u: Tensor) -> Tensor:  # [C] x4, [S] -> [S, C]
    """A cubic from start to end with these velocities per unit of u."""
    u = u.reshape(-1, *(1 for _ in start.shape))
    a, b = (1 + 2 * u) * (1 - u) ** 2, u * (1 - u) ** 2
    c, d = u * u * (3 - 2 * u), u * u * (u - 1)
    return a * start + b * leave + c * end + d * arrive


def keys_along(trajectory: Trajectory, count: int = 4) -> Keyframes:
    """Keys along a path, at even times, to start editing from. The first one is the identity."""
    if len(trajectory) < 2:
        raise SightlineError("the film has 1 frame: expected at least 2, for keys at its first and its last frame.")
    trajectory = trajectory.anchored()
    at = torch.linspace(0, len(trajectory) - 1, max(2, min(count, len(trajectory)))).round().long().tolist()
    seconds = (len(trajectory) - 1) / trajectory.fps / (len(at) - 1)
    mm = trajectory.intrinsics[:, 0, 0] * (lens.FULL_FRAME_MM / trajectory.width)
    return Keyframes(tuple(Key(trajectory.camera_to_world[frame], round(float(mm[frame]), 9), seconds) for frame in at))
