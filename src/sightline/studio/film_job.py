"""From a session to the job of its film, and from a film back to a session that makes it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import torch
from PIL import Image

from sightline.backbones.model_info import ModelInfo
from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.documents import read_json
from sightline.generation.job import DEFAULT_STYLE, Job
from sightline.images import read_image
from sightline.studio.depth import read_depth
from sightline.studio.keyframes import Keyframes
from sightline.studio.library import INPUTS, Film, FilmDepth, Library, keys_file
from sightline.studio.picture import World
from sightline.studio.session import Session

SAMPLING = ("prompt", "negative_prompt", "seed", "num_inference_steps", "guidance_scale", "camera_guidance_scale")


class FilmInputs(NamedTuple):
    """What a film shows: a path, and the picture or world that it starts with."""

    trajectory: Trajectory
    picture: Image.Image | None
    world: World | None

    @classmethod
    def of(cls, session: Session) -> FilmInputs:
        return cls(session.trajectory, session.picture, session.world)

    def is_same(self, other: FilmInputs) -> bool:
        one, two = self.trajectory, other.trajectory
        return (
            (one.width, one.height, self.world) == (two.width, two.height, other.world)
            and self.picture is other.picture
            and torch.equal(one.camera_to_world, two.camera_to_world)
            and torch.equal(one.intrinsics, two.intrinsics)
        )


def film_job(session: Session, library: Library, output: Path, **sampling: Any) -> Job:
    """The job of a film along the path; pictures and keyframes are kept in the library, so that it can be repeated.

    sampling: the fields of SAMPLING.
    """
    job = session.move_job()
    if session.mode != "move":
        keys = session.history.current.to_json() if session.mode == "keys" else None
        own = {name: getattr(job, name) for name in ("world", "style")}
        file = library.keep_trajectory(session.trajectory, keys)
        job = Job(trajectory=file, num_frames=session.num_frames, size=job.size, **own)
    image = None if session.picture is None else library.keep_picture(session.picture)
    fields = {name: getattr(job, name) for name in job.__dataclass_fields__}
    return Job(**{**fields, **sampling, "image": image, "output": output}).check()


def keep_depth(session: Session, library: Library) -> FilmDepth:
    """What the studio writes beside a film, so that it is reopened with its depth. The values of a file or model are kept."""
    values = session.depth_values.get(session.depth_source)
    return {
        "source": session.depth_source,
        "distance": session.distance,
        "file": None if values is None else library.keep_depth(values).name,
        "model": session.depth_model if session.depth_source == "model" else None,
    }


class Reopened(NamedTuple):
    """What is made of a film to work on from it. note: what could not be restored, in a sentence, or empty."""

    session: Session
    sampling: dict[str, Any]
    note: str


def reopened(film: Film, info: ModelInfo, library: Library) -> Reopened:
    """A session with the picture, the depth, the path and the size of a film, and the film's sampling settings."""
    request, made = film.settings["request"], film.settings["generated"]
    focal = float(film.trajectory.intrinsics[0, 0, 0]) * lens.FULL_FRAME_MM / film.trajectory.width
    session, note = Session(info, focal_mm=focal), ""
    session.set_size(made["num_frames"], made["width"], made["height"])
    if request.get("world") is not None:
        session.set_world(request["world"], request.get("style") or DEFAULT_STYLE)
    elif request.get("image"):
        image = Path(request["image"])
        if _is_kept(image, library):
            session.set_picture(read_image(image, f"image {image.name}"))
        else:  # of `sightline generate`: the page reads nothing outside the output folder
            session.set_picture(Image.fromarray(film.frames()[0]))
            note = (
                f"Its picture, {image.name}, is not in the output folder: the first frame of the film is used instead."
            )
    _reopen_path(session, film, library)
    if (depth := film.depth) is not None:
        _reopen_depth(session, depth, library)
    return Reopened(session, {name: made[name] for name in SAMPLING}, note)


def _reopen_depth(session: Session, depth: FilmDepth, library: Library) -> None:
    file = depth["file"]
    values = None if file is None else read_depth(library.kept_input(file), f"depth {file}")
    session.set_depth(depth["source"], depth["distance"], values)
    session.depth_model = depth["model"] or session.depth_model


def _reopen_path(session: Session, film: Film, library: Library) -> None:
    request = film.settings["request"]
    file = Path(request["trajectory"]) if request.get("trajectory") else None
    if file is not None and _is_kept(file, library) and keys_file(file).is_file():
        session.set_keys(Keyframes.from_json(read_json(keys_file(file), "keyframes of the studio")))
    elif request.get("move"):
        if request.get("target_depth"):
            session.distance = request["target_depth"]
        if request.get("focal_mm"):
            session.set_lens(request["focal_mm"])
        session.set_move(request["move"], request.get("easing") or "linear")
    else:
        session.load(film.trajectory)


def _is_kept(file: Path, library: Library) -> bool:
    """Whether a file, wherever its name leads, is one of the library's inputs."""
    return file.resolve().parent == library.folder / INPUTS
