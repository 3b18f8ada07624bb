"""Films in the output folder of a studio, without a model."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from sightline.studio.film_job import film_job, keep_depth
from sightline.studio.library import DEPTH
from sightline.studio.session import Session
from sightline.video import save_video


def write_film(studio: Any, session: Session, name: str) -> None:
    """A film of five grey frames, as the studio leaves one."""
    library = studio.library
    session.set_size(5, 128, 128)
    folder = library.folder / name
    folder.mkdir()
    request = film_job(session, library, folder).settings()
    made = {"prompt": "a room", "negative_prompt": None, "first_frame": True, "trajectory": session.move, "seed": 7}
    made |= {"num_frames": 5, "width": 128, "height": 128, "num_inference_steps": 3, "guidance_scale": 1.0}
    made["camera_guidance_scale"] = 1.0
    settings = {"request": {**request, "model": None, "camera": None}, "generated": made, "result": {"seconds": 3.0}}
    (folder / "settings.json").write_text(json.dumps(settings))
    (folder / DEPTH).write_text(json.dumps(keep_depth(session, library)))
    session.trajectory.save(folder / "trajectory.json")
    save_video(np.full((5, 128, 128, 3), 90, np.uint8), folder / "video.mp4")
    studio.films_changed()
