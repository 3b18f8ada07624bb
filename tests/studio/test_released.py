"""Films of released camera models as the studio's process makes them: the job of a session, progress, a film in the library."""

from __future__ import annotations

import pytest
import torch

from sightline.generation.model import Model, ModelOptions
from sightline.studio.film_job import film_job
from sightline.studio.library import Library
from sightline.studio.process import generate_film
from sightline.studio.session import Session
from tests.backbones import releases
from tests.backbones.sana_wm import write_sana_wm


def options_of(family, folder):
    if family == "sana-wm":
        return ModelOptions(str(write_sana_wm(folder)))
    write = {
        "fun-5b": lambda: releases.write_fun(folder, "5b"),
        "dreamx": lambda: releases.write(folder, releases.dreamx_state()),
        "hy-worldplay": lambda: releases.write_hy(folder),
    }[family]
    return ModelOptions("tiny:ti2v-5b", write())


@pytest.mark.parametrize(
    "family, num_frames, steps", [("fun-5b", 5, 2), ("dreamx", 5, 2), ("hy-worldplay", 13, 4), ("sana-wm", 9, 2)]
)
def test_a_film_of_a_released_model(family, num_frames, steps, tmp_path):
    model = Model(options_of(family, tmp_path / "release"), device=torch.device("cpu"))
    session, library = Session(model.info, num_frames=num_frames, width=64, height=64), Library(tmp_path / "films")
    session.set_world(900_000, "walkthrough")
    session.set_move("pan:20")
    job = film_job(session, library, library.new_folder(family), seed=1, num_inference_steps=steps, prompt="a room")
    heard = []
    made = generate_film(model, {**job.settings(), "output": str(job.output)}, lambda **event: heard.append(event))
    assert made["name"] == family and library.names() == [family]
    assert [event["step"] for event in heard][:2] == [0, 1]
