"""The 3D view of one visitor: the picture with its point cloud, the path as frusta and a curve, keys, and the current frame."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.lens import FULL_FRAME_MM
from sightline.cameras.trajectory import Trajectory
from sightline.studio.keyframes import Keyframes
from sightline.studio.preview import Preview

MAX_POINTS = 60_000
_FRUSTA = 9  # of a path
_CLOUDS = 6  # into which the points are divided by their distance
_PATH, _KEY, _CHOSEN, _NOW, _ESTIMATE = (47, 93, 140), (138, 90, 158), (184, 144, 47), (209, 96, 61), (0, 200, 83)
_STEP_BACK = 4.0  # times the size of a frustum
_SKY = 50.0  # times the subject's distance: points farther away are left out


def quaternion(rotation: Tensor) -> np.ndarray:  # [3, 3] -> [4] (w, x, y, z)
    return se3.rotation_to_quaternion(rotation).numpy()


def vertical_fov(trajectory: Trajectory, frame: int) -> float:
    """Radians."""
    return 2 * math.atan(trajectory.height / 2 / float(trajectory.intrinsics[frame, 1, 1]))


class SceneView:
    """Draws into one client's scene. World coordinates are those of the picture's camera: x right, y down, z forward."""

    def __init__(self, client: Any) -> None:
        self.client, self.scene = client, client.scene
        self.size = 0.3  # of a frustum, in scene units
        self.distance = 1.0  # of the subject
        self._clouds: list[Any] = []
        self._frusta: list[Any] = []
        self._keys: list[Any] = []
        self._gizmo: Any = None
        self._shows_path, self._shows_estimate = True, False
        self._parents = [self.scene.add_frame(name, show_axes=False) for name in ("/picture", "/path", "/keys", "/now")]
        self._keys_parent = self._parents[2]

    def look_from_behind(self, distance: float) -> None:
        """Put the visitor's own view behind, beside and above the picture's camera."""
        camera = self.client.camera
        camera.position = (-0.7 * distance, -0.7 * distance, -0.9 * distance)
        camera.look_at = (0.05 * distance, 0.0, 0.6 * distance)
        camera.up_direction = (0.0, -1.0, 0.0)

    def step_back(self, pose: Tensor) -> None:
        """Put the visitor's own view behind a camera that it was in, to see its frustum and its handles from outside."""
        camera, position, back = self.client.camera, pose[:3, 3], -_STEP_BACK * self.size * pose[:3, 2]
        camera.position = tuple((position + back - 0.5 * self.size * pose[:3, 1]).tolist())  # and above it
        camera.look_at = tuple((position - 2 * back).tolist())

    def draw_picture(self, preview: Preview, distance: float) -> None:
        """The point cloud, and the first frustum with the picture in it."""
        self.size, self.distance = 0.18 * distance, distance
        camera, step = preview.camera, max(1, math.ceil(len(preview.points) / MAX_POINTS))
        points, colours = preview.points.numpy()[::step], preview.picture.reshape(-1, 3)[::step]
        # A point is as large as its pixel is at its distance; all points of one cloud have one size.
        edges = np.quantile(points[:, 2], np.linspace(0, 1, _CLOUDS + 1))
        edges[-1] = np.inf
        pixel = 1.15 * math.sqrt(step) / float(camera.intrinsics[0, 0, 0])
        for cloud in self._clouds:
            cloud.remove()
        self._clouds = []
        for number in range(_CLOUDS):
            inside = (
                (points[:, 2] >= edges[number]) & (points[:, 2] < edges[number + 1]) & (points[:, 2] < _SKY * distance)
            )
            if not inside.any():  # of a plane, all points are in one cloud; viser complains of an empty one
                continue
            size = pixel * float(points[inside, 2].mean())
            self._clouds.append(
                self.scene.add_point_cloud(
                    f"/picture/points{number}", points[inside], colours[inside], point_size=size, point_shape="square"
                )
            )
        self.scene.add_camera_frustum(
            "/picture/camera", vertical_fov(camera, 0), camera.width / camera.height, scale=self.size,
            thickness=2.0, thickness_units="screen", color=_PATH, image=preview.picture,
        )  # fmt: skip

    def draw_path(self, trajectory: Trajectory, frusta: bool = True) -> None:
        """A curve through all positions, and a few frusta along it, unless keys are shown in their place."""
        path = trajectory.anchored()
        positions = path.positions.numpy().astype(np.float32)
        moves = float(np.linalg.norm(np.diff(positions, axis=0), axis=-1).sum()) > 1e-6
        before, self._frusta = self._frusta, []
        self._curve("/path/curve", positions, _PATH, visible=moves)
        count = min(_FRUSTA, len(path)) if frusta else 0
        for number, frame in enumerate(np.linspace(0, len(path) - 1, count).round().astype(int)[1:]):
            self._frusta.append(
                self.scene.add_camera_frustum(
                    f"/path/frustum{number}", vertical_fov(path, frame), path.width / path.height, scale=0.55 * self.size,
                    thickness=1.0, thickness_units="screen", color=_PATH, wxyz=quaternion(path.rotations[frame]),
                    position=positions[frame],
                )
            )  # fmt: skip
        self._remove(before[len(self._frusta) :])

    def _remove(self, surplus: list[Any]) -> None:
        """Remove what was not drawn again. What is drawn again replaces the node of its name: if that were removed first, the
        page would keep its old place, since viser does not send a new node's pose where it is the identity."""
        for node in surplus:
            node.remove()

    def draw_estimate(self, poses: np.ndarray | None) -> None:  # [T, 4, 4]
        """The path that was estimated from the film; None hides it. The keys' frusta, which would cover it, make room."""
        self._shows_estimate = poses is not None
        self.show_path(self._shows_path)
        positions = np.zeros((2, 3), np.float32) if poses is None else poses[:, :3, 3].astype(np.float32)
        self._curve("/path/estimate", positions, _ESTIMATE, visible=poses is not None, thickness=6.0)

    def _curve(
        self, name: str, positions: np.ndarray, colour: tuple[int, int, int], visible: bool, thickness: float = 3.0
    ) -> None:
        segments = np.stack([positions[:-1], positions[1:]], axis=1)  # [T - 1, 2, 3]
        self.scene.add_line_segments(
            name, segments, colour, thickness=thickness, thickness_units="screen", visible=visible
        )

    def draw_now(self, trajectory: Trajectory, frame: int, picture: np.ndarray | None) -> None:
        """The camera of the current frame, with what it sees."""
        path = trajectory.anchored()
        self.scene.add_camera_frustum(
            "/now/camera", vertical_fov(path, frame), path.width / path.height, scale=self.size, thickness=2.5,
            thickness_units="screen", color=_NOW, image=picture, wxyz=quaternion(path.rotations[frame]),
            position=path.positions[frame].numpy(), visible=frame > 0,
        )  # fmt: skip

    def draw_keys(
        self, keyframes: Keyframes | None, aspect: float, chosen: int, on_choose: Callable[[int], None]
    ) -> None:
        """A frustum for every key, which can be clicked. None removes them. aspect: width over height."""
        before, self._keys = self._keys, []
        for number, key in enumerate(keyframes.keys if keyframes is not None else ()):
            fov = 2 * math.atan(FULL_FRAME_MM / 2 / key.focal_mm / aspect)  # vertical
            frustum = self.scene.add_camera_frustum(
                f"/keys/{number}", fov, aspect, scale=0.6 * self.size, thickness=2.5,
                thickness_units="screen", color=_CHOSEN if number == chosen else _KEY, variant="filled",
                wxyz=quaternion(key.camera_to_world[:3, :3]), position=key.camera_to_world[:3, 3].numpy(),
            )  # fmt: skip
            frustum.on_click(lambda _, number=number: on_choose(number))
            self._keys.append(frustum)
        self._remove(before[len(self._keys) :])

    def draw_gizmo(self, pose: Tensor | None, on_move: Callable[[Any], None]) -> None:
        """Handles to drag the chosen key by; None removes them. on_move gets viser's event."""
        if pose is None:
            if self._gizmo is not None:
                self._gizmo.remove()
                self._gizmo = None
            return
        self._gizmo = self.scene.add_transform_controls(
            "/keys/gizmo", scale=1.6 * self.size, line_width=3.0, depth_test=False, wxyz=quaternion(pose[:3, :3]),
            position=pose[:3, 3].numpy(),
        )  # fmt: skip
        self._gizmo.on_update(on_move)

    def show_path(self, visible: bool) -> None:
        """Show everything of the path, or hide it for something else."""
        self._shows_path = visible
        for parent in self._parents:
            parent.visible = visible and not (parent is self._keys_parent and self._shows_estimate)
