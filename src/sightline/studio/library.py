"""The films in the output folder: found, read and deleted by name. No name, whatever it holds, leads out of the folder."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
from PIL import Image

from sightline.cameras.trajectory import Trajectory
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import atomic_write, is_picture_name, reason, write_atomic
from sightline.generation.outputs import SETTINGS
from sightline.generation.video_files import read_frames
from sightline.names import plain_name, require_plain_name, unique_names
from sightline.settings import convert
from sightline.studio.page_text import counted

INPUTS = "inputs"  # pictures, trajectories and depths that films were made from, by their digest
DEPTH = "studio-depth.json"  # in a film's folder: the depth that its path was drawn on


class _Request(TypedDict):
    image: str | None
    trajectory: str | None
    move: str | None
    easing: str | None
    focal_mm: float | None
    target_depth: float | None
    world: int | None
    style: str | None
    model: str | None
    camera: str | None


class _Generated(TypedDict):
    trajectory: str
    prompt: str
    negative_prompt: str | None
    first_frame: bool
    num_frames: int
    width: int
    height: int
    num_inference_steps: int
    guidance_scale: float
    camera_guidance_scale: float
    seed: int


class _Settings(TypedDict):
    """What is read of a film's settings.json."""

    request: _Request
    generated: _Generated
    result: dict[str, Any]


class FilmDepth(TypedDict):
    """The content of studio-depth.json. file: of the values of a depth file or model, by its name in the inputs."""

    source: str
    distance: float
    file: str | None
    model: str | None


@dataclass(frozen=True, eq=False)
class Film:
    """A folder that `generate` wrote."""

    folder: Path

    @property
    def name(self) -> str:
        return self.folder.name

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The content of settings.json."""
        file = self.folder / SETTINGS
        settings: dict[str, Any] = convert(_Settings, read_json(file, "the settings of a video"), str(file))
        return settings

    @cached_property
    def trajectory(self) -> Trajectory:
        return Trajectory.load(self.folder / "trajectory.json")

    def frames(self, video: str = "video.mp4") -> np.ndarray:  # [T, H, W, 3] uint8
        """The frames of the film, or of true.mp4, without the padding of odd sides."""
        trajectory = self.trajectory
        return read_frames(self.folder / video, len(trajectory))[:, : trajectory.height, : trajectory.width]

    @property
    def has_truth(self) -> bool:
        return (self.folder / "true.mp4").is_file()

    @cached_property
    def depth(self) -> FilmDepth | None:
        """The depth that the path was drawn on; None for a film that the studio did not make."""
        file = self.folder / DEPTH
        if not file.is_file():
            return None
        depth: FilmDepth = convert(FilmDepth, read_json(file, "the depth of a film of the studio"), str(file))
        return depth

    def __str__(self) -> str:
        """One line: the path, the prompt and the size."""
        made, file = self.settings["generated"], self.settings["request"].get("trajectory")
        path = made.get("trajectory")
        if file is not None:
            path = "keyframes" if keys_file(Path(file)).is_file() else Path(file).name
        size = f"{counted(made.get('num_frames'), 'frame')} of {made.get('width')}x{made.get('height')}"
        return f"{path} | {made.get('prompt') or 'no prompt'} | {size} | seed {made.get('seed')}"


@dataclass(frozen=True)
class Library:
    """The films of one output folder, and the inputs they were made from."""

    folder: Path

    def __post_init__(self) -> None:
        object.__setattr__(self, "folder", Path(self.folder).resolve())

    def names(self) -> list[str]:
        """The names of all films, the newest first."""
        found = []
        for place in self.folder.iterdir() if self.folder.is_dir() else ():
            if place.is_symlink() or plain_name(place.name) != place.name:
                continue
            if (place / SETTINGS).is_file() and (place / "video.mp4").is_file():
                found.append((-(place / SETTINGS).stat().st_mtime, place.name))
        return [name for _, name in sorted(found)]

    def film(self, name: str) -> Film:
        """The film of this name. Anything that is no film of this folder is refused."""
        require_plain_name("the film", name)
        place = self.folder / name
        if place.is_symlink() or place.resolve().parent != self.folder or not (place / SETTINGS).is_file():
            raise SightlineError(f"the film {name!r} is not in {self.folder.name}: expected one of the gallery.")
        return Film(place)

    def delete(self, name: str) -> None:
        """Delete a film with its folder."""
        film = self.film(name)
        film.settings  # noqa: B018  # refuses a folder that generate did not write
        try:
            shutil.rmtree(film.folder)
        except OSError as error:
            raise SightlineError(f"{name} cannot be deleted ({reason(error)}): expected a writable folder.") from None

    def new_folder(self, title: str, reserved: Iterable[str] = ()) -> Path:
        """A folder for a new film, named after a text that may hold anything. reserved: names that are taken too."""
        taken = [place.name for place in self.folder.iterdir()] if self.folder.is_dir() else []
        taken += reserved
        title = plain_name(title[:40]).strip("_.-") or "film"  # nor one that a command would read as an option
        title = title.replace(".", "_") if is_picture_name(title) else title  # which no folder may have
        return self.folder / unique_names([title], [*taken, INPUTS])[0]

    def keep_picture(self, image: Image.Image) -> Path:
        """Write a picture to the inputs, unless it is there; returns its file."""
        digest = hashlib.sha256(f"{image.size}".encode() + image.tobytes()).hexdigest()[:16]
        file = self.folder / INPUTS / f"{digest}.png"
        if not file.is_file():
            with atomic_write(file) as temporary:
                image.save(temporary)
        return file

    def keep_depth(self, values: np.ndarray) -> Path:  # [h, w]
        """Write the values of a depth file or model to the inputs, unless they are there; returns their file."""
        digest = hashlib.sha256(f"{values.shape}".encode() + values.tobytes()).hexdigest()[:16]
        file = self.folder / INPUTS / f"{digest}.npy"
        if not file.is_file():
            with atomic_write(file) as temporary, temporary.open("wb") as stream:
                np.save(stream, values, allow_pickle=False)
        return file

    def kept_input(self, name: str) -> Path:
        """A file of the inputs by its name, which may come from anywhere."""
        file = self.folder / INPUTS / require_plain_name("the input", name)
        if file.is_symlink() or not file.is_file():
            raise SightlineError(
                f"{name} is not among the inputs of {self.folder.name}: expected one that the studio wrote."
            )
        return file

    def keep_trajectory(self, trajectory: Trajectory, keys: dict[str, Any] | None = None) -> Path:
        """Write a trajectory to the inputs, and beside it the keyframes it came from; returns its file."""
        content = trajectory.camera_to_world.numpy().tobytes() + trajectory.intrinsics.numpy().tobytes()
        content += f"{trajectory.width} {trajectory.height} {trajectory.fps}".encode()
        file = self.folder / INPUTS / f"{hashlib.sha256(content).hexdigest()[:16]}.json"
        if not file.is_file():
            trajectory.save(file)
        if keys is not None:
            write_atomic(keys_file(file), json.dumps(keys) + "\n")
        return file


def keys_file(trajectory_file: Path) -> Path:
    """Where the keyframes of a kept trajectory are."""
    return trajectory_file.with_suffix(".keys.json")
