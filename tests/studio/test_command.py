"""The commands that the studio shows make the same film again, byte for byte."""

from __future__ import annotations

import shlex

import numpy as np
import pytest
from PIL import Image

import sightline as sl
from sightline import cli
from sightline.backbones.tiny import tiny_pipeline
from sightline.generation.model import Model, ModelOptions
from sightline.generation.outputs import run_job
from sightline.studio.command import python_code, shell_line
from sightline.studio.film_job import film_job
from sightline.studio.keyframes import Key
from sightline.studio.library import Library
from sightline.studio.session import Session
from tests.conftest import random_poses, wake


@pytest.fixture
def model(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.Scope())
    wake(pipe.transformer)
    sl.save_pipeline_camera(pipe, tmp_path / "camera")
    return Model(ModelOptions("tiny:ti2v-5b", tmp_path / "camera"))


def make(model, tmp_path, source, path):
    session, library = Session(model.info, num_frames=5, width=64, height=64), Library(tmp_path / "films")
    if source == "world":
        session.set_world(3, "walkthrough")
    elif source == "picture":
        session.set_picture(Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 70, 3), np.uint8)))
    if path == "keys":
        session.set_keys(session.first_keys().insert(1, Key(random_poses(1, scale=0.2)[0], 40.0)))
    else:
        session.set_move(path, "ease")
    job = film_job(
        session, library, library.new_folder("film"), prompt="it's a \"room\" with $HOME; `ls`", seed=7, num_inference_steps=2,
        guidance_scale=2.0, negative_prompt="-blur",
    )  # fmt: skip
    run_job(model, job)
    return library.film("film")


@pytest.mark.parametrize(
    "source, path", [("picture", "keys"), ("world", "dolly:0.3"), ("shipped", "-"), ("picture", "zoom:28>50")]
)
def test_the_shell_line_and_the_python_code_repeat_the_film_exactly(model, tmp_path, source, path):
    film = make(model, tmp_path, source, "pan:-10" if path == "-" else path)
    line = shlex.split(shell_line(film, "again"))
    assert line[:2] == ["sightline", "generate"]
    assert cli.main(line[1:]) == 0
    expected = (film.folder / "video.mp4").read_bytes()
    assert (tmp_path / "again" / "video.mp4").read_bytes() == expected
    exec(compile(python_code(film, "again.mp4"), "copied", "exec"), {})
    assert (tmp_path / "again.mp4").read_bytes() == expected


@pytest.mark.parametrize("more", [{}, {"tiled_decode": True}])
def test_a_film_in_another_data_type_is_repeated_in_it(tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path)
    film = make(Model(ModelOptions(dtype="bfloat16", **more)), tmp_path, "shipped", "pan:10")
    assert cli.main(shlex.split(shell_line(film, "again"))[1:]) == 0
    expected = (film.folder / "video.mp4").read_bytes()
    assert (tmp_path / "again" / "video.mp4").read_bytes() == expected
    exec(compile(python_code(film, "again.mp4"), "copied", "exec"), {})
    assert (tmp_path / "again.mp4").read_bytes() == expected


def test_the_options_of_the_machine_are_copied_too(model, tmp_path):
    film = make(model, tmp_path, "shipped", "pan:10")
    film.settings["model"] |= {"offload": "group", "attention": "_flash_3"}
    assert "--offload group --attention _flash_3 --output" in shell_line(film)
    code = python_code(film)
    compile(code, "copied", "exec")
    assert "offload='group', attention='_flash_3'" in code and "from pathlib import Path" in code
