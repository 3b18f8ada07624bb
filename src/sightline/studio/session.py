"""Session: what one visitor works on. A picture, its lens and depth, and a path.

The trajectory that is drawn and previewed is the one that the film is generated along: a typed move goes through `make_shot`, as
in `sightline generate`, and keyframes are written to a file that the job reads back bit for bit (see film_job.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sightline.backbones.model_info import ModelInfo
from sightline.cameras import defaults, se3
from sightline.cameras.moves import Easing, MoveLine
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.errors import SightlineError
from sightline.generation.first_frame import shipped_caption
from sightline.generation.job import DEFAULT_MOVE, Job
from sightline.generation.shot import make_shot
from sightline.studio import depth as depths
from sightline.studio.history import History, PathMode
from sightline.studio.keyframes import Key, Keyframes
from sightline.studio.memo import Memo
from sightline.studio.picture import World, WorldView, crop_note, first_frame, true_view, view_world
from sightline.studio.preview import Preview
from sightline.worlds import sample_clip

_MAX_FRAME_PIXELS = 9_000_000  # as 4K has; the preview of a larger frame would fill the memory
_MAX_TRUE_BYTES = 64 * 2**20  # of true views that are kept for playing them again


@dataclass
class Session:
    """Plain state; every method either changes it or raises and leaves it as it was."""

    info: ModelInfo
    picture: Image.Image | None = None  # as uploaded; None is the shipped frame, or the world
    world: World | None = None
    focal_mm: float = defaults.FOCAL_MM
    depth_source: str = "plane"
    distance: float = depths.DEFAULT_DISTANCE
    depth_values: dict[str, np.ndarray] = field(default_factory=dict)  # "file" and "model": [h, w] of the whole picture
    depth_model: str = depths.DEFAULT_MODEL  # whose values those of "model" are, or will be
    mode: PathMode = "move"
    move: str = DEFAULT_MOVE
    easing: Easing = "linear"
    loaded: Trajectory | None = None
    num_frames: int = 0  # 0 until it is set from the model
    width: int = 0
    height: int = 0
    history: History = field(init=False)
    _trajectory: Memo[Trajectory] = field(default_factory=Memo, init=False, repr=False)
    _preview: Memo[Preview] = field(default_factory=Memo, init=False, repr=False)
    _world_view: Memo[WorldView] = field(default_factory=Memo, init=False, repr=False)
    _true_frames: Memo[dict[int, np.ndarray]] = field(default_factory=Memo, init=False, repr=False)

    def __post_init__(self) -> None:
        own = self.info.defaults
        self.num_frames = self.num_frames or own.num_frames
        self.width, self.height = self.width or own.width, self.height or own.height
        self.history = History(self.first_keys())

    @property
    def is_untouched(self) -> bool:
        """Whether nothing was made yet: the picture and the path are those of a new page."""
        has_path = self.mode != "move" or self.move != DEFAULT_MOVE or self.history.has_path
        return self.picture is None and self.world is None and not has_path

    # -- the picture --------------------------------------------------------------------------------------------

    def set_picture(self, picture: Image.Image | None) -> None:
        """Take an uploaded picture, or None for the shipped frame."""
        with self._kept_if_refused("picture", "world", "depth_source", "depth_values"):
            self.picture, self.world = picture, None
            self.depth_source, self.depth_values = "plane", {}

    def set_world(self, seed: int, style: str) -> None:
        """Take the first frame of a procedural world, whose true depth is known."""
        sample_clip(style, seed, 2, 16, 16)  # refuses a bad seed or style
        with self._kept_if_refused("picture", "world", "depth_source", "depth_values"):
            self.picture, self.world = None, World(seed, style)
            self.depth_source, self.depth_values = "world", {}

    def set_depth(self, source: str, distance: float | None = None, values: np.ndarray | None = None) -> None:
        """values: of a file or of a depth model, [h, w] of the whole picture."""
        if source not in depths.SOURCES:
            raise SightlineError(f"depth is {source!r}: expected one of {', '.join(depths.SOURCES)}.")
        if source == "world" and self.world is None:
            raise SightlineError("depth is 'world' without a world: expected one to be opened first.")
        if source in ("file", "model") and values is None and source not in self.depth_values:
            raise SightlineError(f"depth is {source!r} without values: expected a {source} to be chosen first.")
        # The distance is also the radius of an orbit, and the way that a dolly zoom has.
        with self._kept_if_refused("distance", "depth_values", "depth_source"):
            if distance is not None:
                self.distance = number("distance", distance, above=0.0)
            if values is not None:
                self.depth_values = {**self.depth_values, source: values}
            self.depth_source = source

    def set_lens(self, focal_mm: float) -> None:
        """The focal length of the picture; the first key has it too."""
        with self._kept_if_refused("focal_mm", "history"):
            self.focal_mm = number("focal_mm", focal_mm, above=0.0)
            if self.history.current.keys[0].focal_mm != self.focal_mm:
                self.history.apply(self.history.current.change(0, focal_mm=self.focal_mm), self.mode)

    def set_size(self, num_frames: int, width: int, height: int) -> None:
        """The length and size of the film; refused where the model cannot make it."""
        self.info.require_num_frames(whole_number("num_frames", num_frames))
        self.info.require_size(width, height)
        if width * height > _MAX_FRAME_PIXELS:
            raise SightlineError(f"size is {width}x{height}: expected at most {_MAX_FRAME_PIXELS:,} pixels.")
        with self._kept_if_refused("num_frames", "width", "height"):  # there may be more keys than frames
            self.num_frames, self.width, self.height = num_frames, width, height

    @property
    def caption(self) -> str:
        """The prompt that the picture suggests; empty for a picture of the visitor."""
        if self.world is not None:
            return self._view_of(self.world).caption
        return "" if self.picture is not None else shipped_caption()

    @property
    def crop(self) -> str:
        """A sentence on what an uploaded picture loses to the shape of the film; empty where that is next to nothing."""
        return "" if self.picture is None else crop_note(self.picture, self.width, self.height)

    def first_picture(self) -> np.ndarray:  # [H, W, 3] uint8
        """The first frame of the film."""
        if self.world is not None:
            return self._view_of(self.world).frame
        return first_frame(self.picture, self.width, self.height)

    def _view_of(self, world: World) -> WorldView:
        camera = self._first_camera()
        inputs = (world, self.num_frames, self.width, self.height, self._first_focal())
        return self._world_view.get(inputs, lambda: view_world(world, camera, self.num_frames))

    def _first_focal(self) -> float:
        return float(self.trajectory.intrinsics[0, 0, 0])

    def _first_camera(self) -> Trajectory:
        trajectory = self.trajectory
        return trajectory.replace(
            camera_to_world=torch.eye(4, dtype=torch.float64)[None], intrinsics=trajectory.intrinsics[:1]
        )

    def depth(self) -> Tensor:  # [H, W]
        """The depth of the first picture."""
        camera = self._first_camera()
        if self.depth_source == "world" and self.world is not None:
            view = self._view_of(self.world)
            return depths.world_depth(view.scene, view.camera)
        if self.depth_source == "box room":
            return depths.box_room_depth(camera, 2 * self.distance)
        if self.depth_source in self.depth_values:
            return depths.fitted(self.depth_values[self.depth_source], camera)
        return depths.plane_depth(camera, self.distance)

    def preview(self) -> Preview:
        """The point cloud of the first picture; made again only where something of it has changed."""
        inputs = (
            self.picture, self.world, self.num_frames, self.width, self.height, self._first_focal(), self.depth_source,
            self.distance, self.depth_values.get(self.depth_source),
        )  # fmt: skip
        return self._preview.get(inputs, lambda: Preview(self.first_picture(), self.depth(), self._first_camera()))

    def true_frame(self, frame: int) -> np.ndarray | None:  # [H, W, 3] uint8
        """What the world really looks like from a frame of the path; None without a world."""
        if self.world is None:
            return None
        trajectory = self.trajectory
        known = self._true_frames.get((self.world, trajectory), dict)
        if frame in known:
            return known[frame]
        found = true_view(self._view_of(self.world), trajectory, frame)
        if found.size * len(trajectory) < _MAX_TRUE_BYTES:
            known[frame] = found
        return found

    # -- the path ---------------------------------------------------------------------------------------------------

    def first_keys(self) -> Keyframes:
        """A single key, the camera of the picture."""
        return Keyframes((Key(torch.eye(4, dtype=torch.float64), self.focal_mm),))

    def set_move(self, text: str, easing: Easing | None = None) -> None:
        """A line of moves. One that cannot be read is refused, and the path stays as it was."""
        with self._kept_if_refused("mode", "move", "easing"):
            self.mode, self.move, self.easing = "move", text.strip() or DEFAULT_MOVE, easing or self.easing

    def set_easing(self, easing: Easing) -> None:
        """Of the moves. Another path stays as it is; the next move that is typed has this easing."""
        if self.mode == "move":
            self.set_move(self.move, easing)
        self.easing = easing

    @property
    def move_notes(self) -> list[str]:
        """How moves were understood whose names may mean something else to the visitor, in sentences."""
        return MoveLine.read(self.move).notes if self.mode == "move" else []

    def set_keys(self, keyframes: Keyframes) -> None:
        """Make these the path. The first key is the camera of the picture: it stays there, and its lens is the picture's."""
        first = keyframes.keys[0]
        if not torch.equal(first.camera_to_world, torch.eye(4, dtype=torch.float64)):
            raise SightlineError("the first key has moved: expected it to stay the camera of the picture.")
        if self.num_frames < len(keyframes) + keyframes.loop:
            raise SightlineError(f"there are {len(keyframes)} keys for {self.num_frames} frames: expected fewer keys.")
        with self._kept_if_refused("history", "mode", "focal_mm"):
            self.history.apply(keyframes, self.mode)
            self._follow("keys")

    def undo(self) -> bool:
        """Back to the keys, or to the other path, before the last change of keys; from a path that has replaced keys, to them.

        False where there is nothing to undo.
        """
        with self._kept_if_refused("history", "mode", "focal_mm"):  # the film may have become too short for the keys
            if self.mode != "keys" and len(self.history.current) > 1:
                return self._follow("keys")
            return self._follow(self.history.undo(self.mode))

    def redo(self) -> bool:
        """Forward again; False where nothing was undone."""
        with self._kept_if_refused("history", "mode", "focal_mm"):
            return self._follow(self.history.redo(self.mode))

    def _follow(self, mode: PathMode | None) -> bool:
        """Let the camera follow the current keys, or another path beside them; the first key has the lens of both."""
        if mode is None:
            return False
        self.mode, self.focal_mm = mode, self.history.current.keys[0].focal_mm
        return True

    def load(self, trajectory: Trajectory) -> None:
        """Follow a trajectory from a file. A longer or shorter one is resampled in time."""
        with self._kept_if_refused("loaded", "mode"):
            self.loaded, self.mode = trajectory, "file"

    @property
    def trajectory(self) -> Trajectory:
        """The path: what is drawn, previewed and filmed. It starts at the camera of the picture, the identity."""
        inputs = (
            self.mode, self.move, self.easing, self.focal_mm, self.world, self.distance, self.num_frames, self.width,
            self.height, self.loaded, self.history.current,
        )  # fmt: skip
        return self._trajectory.get(inputs, self._make_trajectory)

    @contextmanager
    def _kept_if_refused(self, *names: str) -> Iterator[None]:
        """A change of these fields, which is taken back where it leaves no path."""
        before = {name: copy.copy(getattr(self, name)) for name in names}
        try:
            yield
            self.trajectory  # noqa: B018  # refuses what cannot be made
        except Exception:
            for name, value in before.items():
                setattr(self, name, value)
            raise

    def _make_trajectory(self) -> Trajectory:
        unit = "scene" if self.world is None else "metre"
        if self.mode == "keys":
            return self.history.current.trajectory(self.num_frames, self.width, self.height).replace(unit=unit)
        if self.mode == "file" and self.loaded is not None:
            fitted = self.loaded.resampled(self.num_frames).fit_to(self.width, self.height)
            anchored = se3.anchor(fitted.camera_to_world)
            return fitted.replace(camera_to_world=anchored, fps=defaults.FPS, unit=unit, near_depth=None)
        return make_shot(self.move_job(), self.info).trajectory

    def move_job(self) -> Job:
        """The job of a film along the typed moves, without its sampling settings."""
        own: dict[str, Any] = {} if self.world is None else {"world": self.world.seed, "style": self.world.style}
        return Job(
            move=self.move,
            easing=None if self.easing == "linear" else self.easing,
            focal_mm=None if _names_its_lens(self.move) else self.focal_mm,
            target_depth=None if self.world is not None else self.distance,
            num_frames=self.num_frames,
            size=f"{self.width}x{self.height}",
            **own,
        )


def _names_its_lens(move: str) -> bool:
    """Whether a line of moves says itself which focal length it starts from, as zoom:28>70 does."""
    return any("from_mm" in phrase.amounts for row in MoveLine.read(move).rows for phrase in row)
