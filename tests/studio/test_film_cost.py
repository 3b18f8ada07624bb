"""The time of a film is that of the newest one of the same settings and model."""

from __future__ import annotations

import json
import os

import pytest

from sightline.generation.model import Model, ModelOptions
from sightline.studio.film_cost import FilmCosts, FilmSettings
from sightline.studio.library import Library

SETTINGS = FilmSettings(33, 128, 128, 12, False, False)


@pytest.fixture(scope="module")
def model():
    return Model(ModelOptions())


@pytest.fixture
def costs(model, tmp_path):
    return FilmCosts(model, Library(tmp_path))


def write_film(costs, name, time, seconds, model=None, parts=None, **made):
    folder = costs.library.folder / name
    folder.mkdir()
    names = ("image", "trajectory", "move", "easing", "focal_mm", "target_depth", "world", "style", "camera")
    options = costs.model.options
    generated = {"trajectory": "x", "prompt": "", "negative_prompt": None, "first_frame": True, "num_frames": 33}
    generated |= {"width": 128, "height": 128, "num_inference_steps": 12, "guidance_scale": 1.0, "seed": 0}
    content = {
        "request": {**dict.fromkeys(names), "model": model or options.model},
        "generated": {**generated, "camera_guidance_scale": 1.0, **made},
        "result": {"seconds": seconds, **(parts or {})},
    }
    (folder / "settings.json").write_text(json.dumps(content))
    (folder / "video.mp4").write_bytes(b"")
    os.utime(folder / "settings.json", (time, time))
    costs.films_changed()


def test_the_newest_film_of_the_same_settings_counts(costs):
    write_film(costs, "old", 1000, 50.0)
    write_film(costs, "new", 2000, 20.0)
    write_film(costs, "newest", 3000, 7.0, num_inference_steps=3)
    assert costs.time(SETTINGS) == "about 20 s, as the last film of these settings"
    assert costs.time(SETTINGS._replace(num_inference_steps=3)).startswith("about 7 s")


def test_other_settings_are_judged_by_the_film_of_the_size_with_the_nearest_number_of_passes(costs):
    write_film(costs, "film", 1000, 20.0)
    doubled = SETTINGS._replace(num_inference_steps=6, text_guidance=True, camera_guidance=True)
    assert costs.time(doubled) == "roughly 40 s, judging by a film of 12 steps"
    assert (
        costs.time(SETTINGS._replace(num_frames=66, height=256))
        == "roughly 80 s, judging by a film of 33 frames of 128x128 in 12 steps"
    )
    write_film(costs, "newer", 2000, 8.0, num_inference_steps=1)
    assert costs.time(SETTINGS._replace(num_inference_steps=24)) == "roughly 40 s, judging by a film of 12 steps"
    assert costs.time(SETTINGS._replace(num_inference_steps=2)) == "roughly 15 s, judging by a film of 1 step"


def test_films_of_another_model_and_damaged_ones_do_not_count(costs):
    write_film(costs, "big", 1000, 900.0, model="Wan-AI/Wan2.2-TI2V-5B-Diffusers")
    write_film(costs, "odd", 2000, "soon")
    assert costs.time(SETTINGS).endswith("before the first film")


def test_the_memory_is_said_in_words(costs):
    assert costs.memory(SETTINGS).endswith("GiB of main memory") or costs.memory(SETTINGS).endswith("GPU memory")


def test_loading_is_left_out_and_decoding_takes_as_long_for_any_number_of_steps(costs):
    parts = {"sampling_seconds": 12.0, "decoding_seconds": 8.0}
    write_film(costs, "film", 1000, 500.0, parts=parts)  # the rest was loading
    assert costs.time(SETTINGS) == "about 20 s, as the last film of these settings"
    assert costs.time(SETTINGS._replace(num_inference_steps=48)).startswith("roughly 55 s")  # 48 + 8
    assert costs.time(SETTINGS._replace(num_inference_steps=1)).startswith("roughly 9 s")  # 1 + 8
    assert costs.time(SETTINGS._replace(num_frames=66)).startswith("roughly 40 s")
