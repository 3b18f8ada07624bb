"""From a session to the job of its film, and from a film back to a session that makes it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.backbones.model_info import ModelInfo
from sightline.cameras import lens
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.generation.job import DEFAULT_STYLE, Job
from sightline.images import read_image
from sightline.studio.keyframes import Keyframes
from sightline.studio.library import INPUTS, Film, Library, keys_file
from sightline.studio.session import Session

SAMPLING = ("prompt", "negative_prompt", "seed", "num_inference_steps", "guidance_scale", "camera_guidance_scale")


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


def reopened(film: Film, info: ModelInfo, library: Library) -> tuple[Session, dict[str, Any]]:
    """A session with the picture, the path and the size of a film, and the film's sampling settings."""
    request, made = film.settings["request"], film.settings["generated"]
    focal = float(film.trajectory.intrinsics[0, 0, 0]) * lens.FULL_FRAME_MM / film.trajectory.width
    session = Session(info, focal_mm=focal)
    session.set_size(made["num_frames"], made["width"], made["height"])
    if request.get("world") is not None:
        session.set_world(request["world"], request.get("style") or DEFAULT_STYLE)
    elif request.get("image"):
        image = Path(request["image"])
        if not _is_kept(image, library):
            raise SightlineError(f"{film.name} was made from {image}: expected a picture that the studio keeps.")
        session.set_picture(read_image(image, f"image {image.name}"))
    _reopen_path(session, film, library)
    return session, {name: made[name] for name in SAMPLING}


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
