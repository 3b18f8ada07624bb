"""Recipes: read, written, overridden, refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from sightline.cli import main
from sightline.errors import SightlineError
from sightline.training import recipe as recipe_module
from sightline.training.recipe import Recipe, find_recipe

RECIPES = sorted((Path(recipe_module.__file__).parents[1] / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_reads_and_survives_writing(path, tmp_path):
    recipe = Recipe.from_yaml(path)
    (tmp_path / "again.yaml").write_text(recipe.to_yaml())
    assert Recipe.from_yaml(tmp_path / "again.yaml") == recipe
    assert find_recipe(path.stem) == path


def test_the_paper_s_numbers_are_the_paper_s():
    recipe = Recipe.from_yaml("paper-5b")
    o, v = recipe.optimiser, recipe.validation
    assert (o.rate, o.beta_1, o.beta_2, o.epsilon, o.decay, o.final, o.clip) == (2e-5, 0.9, 0.999, 1e-8, 1e-2, 0.1, 1.0)
    assert (recipe.data.frames, recipe.data.width, recipe.data.height) == (81, 832, 480)
    assert (v.every, v.clips, v.sampling_steps, v.guidance) == (5000, 100, 50, 5.0)
    assert recipe.model.train == "paper" and recipe.model.gradient_checkpointing and recipe.precision == "bf16"
    high, low = Recipe.from_yaml("paper-14b-high"), Recipe.from_yaml("paper-14b-low")
    assert (high.model.component, low.model.component) == ("transformer", "transformer_2")
    assert high.objective.sigma_low == low.objective.sigma_high == 0.9


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("model: {bose: x}", "model.bose is no setting: expected one of base"),
        ("speed: 3", "speed is no setting"),
        ("optimiser: {rate: fast}", "optimiser.rate is 'fast': expected a finite number"),
        ("optimiser: {steps: 2.5}", "optimiser.steps is 2.5: expected int"),
        ("model: {train: some}", "model.train is 'some': expected one of paper"),
        ("model: [1]", "model holds list: expected settings"),
        ("model: {compile: yes please}", "model.compile is 'yes please': expected bool"),
        ("data: {sources: [a], weights: [1, 2]}", "weights are"),
        ("data: {sources: [a]}\nobjective: {text_dropout: 2}", "text_dropout is 2"),
        ("data: {sources: [a]}\nobjective: {sigma_low: 0.9, sigma_high: 0.5}", "sigma_low and sigma_high"),
        ("precision: bf16", "either a cache or sources"),
        ("model: {train: encoding}\ndata: {sources: [a]}", "nothing to train"),
        ("data: {sources: [a]}\noptimiser: {beta_1: 2}", "beta_1 is 2.0: expected a number from 0 to below 1"),
        ("data: {sources: [a]}\noptimiser: {ema: 1}", "ema is 1.0"),
        ("data: {sources: [a]}\noptimiser: {new_rate: -1}", "new_rate is -1.0: expected a finite number of at least 0"),
        ("data: {sources: [a]}\noptimiser: {warmup: -5}", "warmup is -5"),
        ("data: {sources: [a], workers: -1}", "data.workers is -1"),
        ("data: {sources: [a], held_out: 2}", "data.held_out is 2.0: expected a share"),
        ("data: {sources: [a]}\nmodel: {lora_rank: 0}", "lora_rank is 0"),
        ("data: {sources: [a]}\nvalidation: {every: 0}", "validation.every is 0: expected a whole number"),
        ("data: {sources: [a]}\nvalidation: {clips: 0}", "validation.clips is 0"),
        ("data: {sources: [a]}\nvalidation: {sampling_steps: 0}", "validation.sampling_steps is 0"),
        ("data: {sources: [a]}\nobjective: {log_scale_low: 5}", "log_scale_low and log_scale_high are 5.0 and 1.6"),
        ("a: [1", "is not YAML"),
        ("- 1", "holds list"),
    ],
)
def test_bad_recipes_are_one_sentence(tmp_path, text, sentence):
    (tmp_path / "bad.yaml").write_text(text)
    with pytest.raises(SightlineError, match=sentence) as caught:
        Recipe.from_yaml(tmp_path / "bad.yaml")
    assert "\n" not in str(caught.value)


def test_an_unknown_recipe_is_one_sentence(capsys):
    assert main(["train", "nothing-like-it"]) == 2
    assert "neither a file nor a shipped recipe" in capsys.readouterr().err
    assert main(["train", "debug", "--resume"]) == 2
    assert main(["train"]) == 0
    told = capsys.readouterr().out
    assert "RECIPE" in told and all(path.stem in told for path in RECIPES)


def test_the_command_line_overrides_a_recipe(tmp_path, monkeypatch):
    from sightline.training import trainer

    seen = []
    monkeypatch.setattr(trainer, "train", lambda recipe, resume: seen.append((recipe, resume)) or tmp_path)
    arguments = ["--optimiser.steps", "7", "--output", str(tmp_path), "--resume", "latest", "--model.train", "encoding"]
    assert main(["train", "debug", *arguments]) == 0
    recipe, resume = seen[0]
    assert (recipe.optimiser.steps, recipe.output, recipe.model.train, resume) == (
        7,
        str(tmp_path),
        "encoding",
        "latest",
    )
    assert recipe.model.encoding == {"name": "scope"}
    assert main(["train", "debug", "--resume=latest"]) == 0 and seen[1][1] == "latest"
