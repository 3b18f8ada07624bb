"""Session: what one visitor works on. A picture, its lens and depth, and a path; and the job that makes a film of them.

The trajectory that is drawn and previewed is the one that the film is generated along: a typed move goes through `make_shot`, as
in `sightline generate`, and keyframes are written to a file that the job reads back bit for bit.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from sightline.backbones.model_info import ModelInfo
from sightline.cameras import defaults, se3
from sightline.cameras.moves import Easing, MoveLine
from sightline.cameras.trajectory import Trajectory
from sightline.checks import number, whole_number
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.generation.first_frame import FIRST_FRAME, shipped_caption
from sightline.generation.job import DEFAULT_MOVE, DEFAULT_STYLE, Job
from sightline.generation.shot import make_shot
from sightline.images import fit_image, read_image
from sightline.studio import depth as depths
from sightline.studio.keyframes import History, Key, Keyframes
from sightline.studio.library import Film, Library, keys_file
from sightline.studio.preview import Preview
from sightline.worlds import Scene, render_clip, sample_clip

_MAX_TRUE_BYTES = 64 * 2**20  # of true views that are kept for playing them again
_WHOLE = 0.98  # of a picture: less is worth a word

PathMode = Literal["move", "keys", "file"]


@dataclass(frozen=True)
class World:
    """A procedural world that the picture is taken from."""

    seed: int
    style: str = DEFAULT_STYLE


@dataclass
class Session:
    """Plain state; every method either changes it or raises and leaves it as it was."""

    info: ModelInfo
    library: Library
    picture: Image.Image | None = None  # as uploaded; None is the shipped frame, or the world
    world: World | None = None
    focal_mm: float = defaults.FOCAL_MM
    depth_source: str = "plane"
    distance: float = depths.DEFAULT_DISTANCE
    depth_values: np.ndarray | None = None  # [h, w] of an uploaded file or of a depth model
    mode: PathMode = "move"
    move: str = DEFAULT_MOVE
    easing: Easing = "linear"
    loaded: Trajectory | None = None
    num_frames: int = 0  # 0 until it is set from the model
    width: int = 0
    height: int = 0
    history: History = field(init=False)
    _cache: dict[str, Any] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        own = self.info.defaults
        self.num_frames = self.num_frames or own.num_frames
        self.width, self.height = self.width or own.width, self.height or own.height
        self.history = History(self.first_keys())

    # -- the picture --------------------------------------------------------------------------------------------

    def set_picture(self, picture: Image.Image | None) -> None:
        """Take an uploaded picture, or None for the shipped frame."""
        self.picture, self.world = picture, None
        self.depth_source, self.depth_values = "plane", None

    def set_world(self, seed: int, style: str) -> None:
        """Take the first frame of a procedural world, whose true depth is known."""
        sample_clip(style, seed, 2, 16, 16)  # refuses a bad seed or style
        self.picture, self.world = None, World(seed, style)
        self.depth_source, self.depth_values = "world", None

    def set_depth(self, source: str, distance: float | None = None, values: np.ndarray | None = None) -> None:
        """values: of a file or of a depth model, [h, w] of the whole picture."""
        if source not in depths.SOURCES:
            raise SightlineError(f"depth is {source!r}: expected one of {', '.join(depths.SOURCES)}.")
        if source == "world" and self.world is None:
            raise SightlineError("depth is 'world' without a world: expected one to be opened first.")
        if source in ("file", "model") and values is None and self.depth_values is None:
            raise SightlineError(f"depth is {source!r} without values: expected a {source} to be chosen first.")
        if distance is not None:
            self.distance = number("distance", distance, above=0.0)
        self.depth_values = values if values is not None else self.depth_values
        self.depth_source = source

    def set_lens(self, focal_mm: float) -> None:
        """The focal length of the picture; the first key has it too."""
        self.focal_mm = number("focal_mm", focal_mm, above=0.0)
        if self.history.current.keys[0].focal_mm != self.focal_mm:
            self.history.apply(self.history.current.change(0, focal_mm=self.focal_mm))

    def set_size(self, num_frames: int, width: int, height: int) -> None:
        """The length and size of the film; refused where the model cannot make it."""
        self.info.require_num_frames(whole_number("num_frames", num_frames))
        self.info.require_size(width, height)
        self.num_frames, self.width, self.height = num_frames, width, height

    @property
    def caption(self) -> str:
        """The prompt that the picture suggests."""
        if self.world is not None:
            return str(self._world_shot()[2])
        return "" if self.picture is not None else shipped_caption()

    def first_picture(self) -> np.ndarray:  # [H, W, 3] uint8
        """The first frame of the film."""
        if self.world is not None:
            frame: np.ndarray = self._world_shot()[1]
            return frame
        source = self.picture if self.picture is not None else read_image(FIRST_FRAME, "the shipped frame")
        return np.asarray(fit_image(source, self.width, self.height))

    @property
    def crop(self) -> str:
        """A sentence on what an uploaded picture loses to the shape of the film; empty where that is next to nothing."""
        if self.picture is None:
            return ""
        width, height = self.picture.size
        kept = min(width * self.height, height * self.width) / max(width * self.height, height * self.width)
        sides = "left and right" if width * self.height > height * self.width else "top and bottom"
        size = f"{self.width}x{self.height}"
        return "" if kept > _WHOLE else f"The picture has {width}x{height} pixels: {sides} are cut off for {size}."

    def _world_shot(self) -> tuple[Scene, np.ndarray, str, Trajectory]:
        """The scene, its first frame through the session's lens, its caption, and that one camera in the world."""
        assert self.world is not None
        key = (self.world, self.width, self.height, self._first_focal())
        if self._cache.get("world", (None,))[0] != key:
            clip = sample_clip(self.world.style, self.world.seed, self.num_frames, self.width, self.height)
            camera = self._first_camera().replace(
                camera_to_world=clip.true_trajectory.camera_to_world[:1], unit="metre"
            )
            rendered = render_clip(clip.scene, camera)
            self._cache["world"] = (key, (clip.scene, rendered.frames[0].numpy(), rendered.caption, camera))
        found: tuple[Scene, np.ndarray, str, Trajectory] = self._cache["world"][1]
        return found

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
        if self.depth_source == "world":
            scene, _, _, placed = self._world_shot()
            return depths.world_depth(scene, placed)
        if self.depth_source == "box room":
            return depths.box_room_depth(camera, 2 * self.distance)
        if self.depth_values is not None and self.depth_source in ("file", "model"):
            return depths.fitted(self.depth_values, camera, "the depth")
        return depths.plane_depth(camera, self.distance)

    def preview(self) -> Preview:
        """The point cloud of the first picture; made again only where something of it has changed."""
        key = (
            id(self.picture), self.world, self.width, self.height, self._first_focal(), self.depth_source, self.distance,
            id(self.depth_values),
        )  # fmt: skip
        if self._cache.get("preview", (None,))[0] != key:
            self._cache["preview"] = (key, Preview(self.first_picture(), self.depth(), self._first_camera()))
        found: Preview = self._cache["preview"][1]
        return found

    def true_frame(self, frame: int) -> np.ndarray | None:  # [H, W, 3] uint8
        """What the world really looks like from a frame of the path; None without a world."""
        if self.world is None:
            return None
        scene, _, _, placed = self._world_shot()
        trajectory = self.trajectory
        if self._cache.get("true", (None,))[0] is not trajectory:
            self._cache["true"] = (trajectory, {})
        known: dict[int, np.ndarray] = self._cache["true"][1]
        if frame in known:
            return known[frame]
        pose = placed.camera_to_world[0] @ trajectory.anchored().camera_to_world[frame]
        camera = trajectory.replace(
            camera_to_world=pose[None], intrinsics=trajectory.intrinsics[frame][None], unit="metre"
        )
        found = render_clip(scene, camera, seconds=frame / trajectory.fps).frames[0].numpy()
        if found.size * len(trajectory) < _MAX_TRUE_BYTES:
            known[frame] = found
        return found

    # -- the path ---------------------------------------------------------------------------------------------------

    def first_keys(self) -> Keyframes:
        """A single key, the camera of the picture."""
        return Keyframes((Key(torch.eye(4, dtype=torch.float64), self.focal_mm),))

    def set_move(self, text: str, easing: Easing | None = None) -> None:
        """A line of moves. One that cannot be read is refused, and the path stays as it was."""
        before = self.mode, self.move, self.easing
        self.mode, self.move, self.easing = "move", text.strip() or DEFAULT_MOVE, easing or self.easing
        try:
            self.trajectory  # noqa: B018  # refuses what cannot be made
        except SightlineError:
            self.mode, self.move, self.easing = before
            raise

    def set_keys(self, keyframes: Keyframes) -> None:
        """Make these the path. The first key is the camera of the picture and stays where it is."""
        first = keyframes.keys[0]
        if not torch.equal(first.camera_to_world, torch.eye(4, dtype=torch.float64)):
            raise SightlineError("the first key has moved: expected it to stay the camera of the picture.")
        if self.num_frames < len(keyframes) + keyframes.loop:
            raise SightlineError(f"there are {len(keyframes)} keys for {self.num_frames} frames: expected fewer keys.")
        self.history.apply(keyframes.change(0, focal_mm=self.focal_mm))
        self.mode = "keys"

    def keys_of_path(self, count: int = 4) -> Keyframes:
        """Keys along the current path, at even times, to start editing from."""
        trajectory = self.trajectory.anchored()
        at = torch.linspace(0, len(trajectory) - 1, max(2, min(count, len(trajectory)))).round().long().tolist()
        seconds = (len(trajectory) - 1) / trajectory.fps / max(len(at) - 1, 1)
        mm = trajectory.intrinsics[:, 0, 0] * (36.0 / trajectory.width)
        return Keyframes(tuple(Key(trajectory.camera_to_world[frame], float(mm[frame]), seconds) for frame in at))

    def load(self, trajectory: Trajectory) -> None:
        """Follow a trajectory from a file. A longer or shorter one is resampled in time."""
        self.loaded, self.mode = trajectory, "file"

    @property
    def trajectory(self) -> Trajectory:
        """The path: what is drawn, previewed and filmed. It starts at the camera of the picture, the identity."""
        key = (
            self.mode, self.move, self.easing, self.focal_mm, self.world, self.distance, self.num_frames, self.width,
            self.height, id(self.loaded), id(self.history.current),
        )  # fmt: skip
        if self._cache.get("trajectory", (None,))[0] != key:
            self._cache["trajectory"] = (key, self._make_trajectory())
        found: Trajectory = self._cache["trajectory"][1]
        return found

    def _make_trajectory(self) -> Trajectory:
        unit = "scene" if self.world is None else "metre"
        if self.mode == "keys":
            return self.history.current.trajectory(self.num_frames, self.width, self.height).replace(unit=unit)
        if self.mode == "file" and self.loaded is not None:
            fitted = self.loaded.resampled(self.num_frames).fit_to(self.width, self.height)
            anchored = se3.anchor(fitted.camera_to_world)
            return fitted.replace(camera_to_world=anchored, fps=defaults.FPS, unit=unit, near_depth=None)
        return make_shot(self._job_of_move(), self.info).trajectory

    def _job_of_move(self) -> Job:
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

    # -- the film ---------------------------------------------------------------------------------------------------

    def job(self, output: Path, **sampling: Any) -> Job:
        """The job of a film along the path; pictures and keyframes are kept in the library, so that it can be repeated.

        sampling: prompt, negative_prompt, seed, num_inference_steps, guidance_scale, camera_guidance_scale.
        """
        job = self._job_of_move()
        if self.mode != "move":
            keys = self.history.current.to_json() if self.mode == "keys" else None
            own = {name: getattr(job, name) for name in ("world", "style")}
            file = self.library.keep_trajectory(self.trajectory, keys)
            job = Job(trajectory=file, num_frames=self.num_frames, size=job.size, **own)
        image = None if self.picture is None else self.library.keep_picture(self.picture)
        fields = {name: getattr(job, name) for name in job.__dataclass_fields__}
        return Job(**{**fields, **sampling, "image": image, "output": output}).check()

    def reopen(self, film: Film) -> dict[str, Any]:
        """Take over the picture, the path and the size of a film. Returns its sampling settings."""
        request, made = film.settings["request"], film.settings["generated"]
        fresh = Session(self.info, self.library)
        fresh.set_size(made["num_frames"], made["width"], made["height"])
        if request.get("world") is not None:
            fresh.set_world(request["world"], request.get("style") or DEFAULT_STYLE)
        elif request.get("image"):
            image = Path(request["image"])
            if image.resolve().parent != self.library.folder / "inputs":
                raise SightlineError(f"{film.name} was made from {image}: expected a picture that the studio keeps.")
            fresh.set_picture(read_image(image, f"image {image.name}"))
        fresh.set_lens(float(film.trajectory.intrinsics[0, 0, 0]) * 36.0 / film.trajectory.width)
        self._reopen_path(fresh, film)
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(fresh, name))
        names = ("num_inference_steps", "guidance_scale", "camera_guidance_scale", "seed", "negative_prompt", "prompt")
        return {name: made[name] for name in names}

    def _reopen_path(self, fresh: Session, film: Film) -> None:
        request = film.settings["request"]
        file = Path(request["trajectory"]) if request.get("trajectory") else None
        inside = file is not None and file.resolve().parent == self.library.folder / "inputs"
        if file is not None and inside and keys_file(file).is_file():
            fresh.set_keys(Keyframes.from_json(read_json(keys_file(file), "keyframes of the studio")))
        elif request.get("move"):
            if request.get("target_depth"):
                fresh.distance = request["target_depth"]
            if request.get("focal_mm"):
                fresh.set_lens(request["focal_mm"])
            fresh.set_move(request["move"], request.get("easing") or "linear")
        else:
            fresh.load(film.trajectory)


def _names_its_lens(move: str) -> bool:
    """Whether a line of moves says itself which focal length it starts from, as zoom:28>70 does."""
    return any("from_mm" in phrase.amounts for row in MoveLine.read(move).rows for phrase in row)
