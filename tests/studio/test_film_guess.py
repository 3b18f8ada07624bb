"""The time that is shown before the first film: its operations over the measured speed of the machine."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import sightline as sl
from sightline.backbones.flops import forward_flops
from sightline.generation.model import Model, ModelOptions
from sightline.studio import film_guess
from sightline.studio.film_cost import FilmCosts, FilmSettings
from sightline.studio.film_guess import EFFICIENCY, FilmGuess, products_per_second
from sightline.studio.library import Library

SHAPE = (9, 64, 96)  # frames, width, height


@pytest.fixture
def model(monkeypatch):
    monkeypatch.setattr(film_guess, "products_per_second", lambda device, dtype: 1e9)
    return Model(ModelOptions(), device=torch.device("cpu"))


def test_decoding_is_counted_as_torch_counts_it(model):
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        sl.load_pipeline().vae.decode(torch.zeros(1, 16, 3, SHAPE[2] // 8, SHAPE[1] // 8))
    assert FilmGuess(model).seconds(SHAPE, 0) * 1e9 * EFFICIENCY == pytest.approx(counter.get_total_flops(), rel=0.01)


def test_sampling_is_counted_by_its_passes(model):
    guess = FilmGuess(model)
    counted = 3 * forward_flops(model.configs["transformer"], 3 * 6 * 4)  # latent frames, rows and columns of tokens
    more = guess.seconds(SHAPE, 3) - guess.seconds(SHAPE, 0)
    assert more * 1e9 * EFFICIENCY == pytest.approx(counted)


def test_a_slower_machine_and_more_passes_take_longer(model, monkeypatch):
    once = FilmGuess(model).seconds(SHAPE, 2)
    monkeypatch.setattr(film_guess, "products_per_second", lambda device, dtype: 1e8)
    assert FilmGuess(model).seconds(SHAPE, 2) == pytest.approx(10 * once)
    assert 10 * once < FilmGuess(model).seconds(SHAPE, 4) < 20 * once  # decoding takes as long for any number of steps


def test_a_model_whose_operations_are_not_counted_has_no_guess(model, tmp_path):
    settings = FilmSettings(*SHAPE, 2, False, False)
    assert FilmCosts(model, Library(tmp_path)).time(settings).startswith("very roughly ")
    untrained = Model(replace(model.options, model="tiny:ltx-2"), device=torch.device("cpu"))
    assert FilmGuess(untrained).seconds(SHAPE, 2) is None
    assert FilmCosts(untrained, Library(tmp_path)).time(settings) == "known after the first film"


def test_the_speed_of_this_machine_is_measured():
    assert products_per_second(torch.device("cpu"), torch.float32) > 1e6
