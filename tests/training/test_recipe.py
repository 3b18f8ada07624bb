"""Recipes: reading, writing, overriding, and errors."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest

from sightline.cli import main
from sightline.data.sources import open_source
from sightline.errors import SightlineError
from sightline.lab.models import HELD_OUT_SEED
from sightline.training import recipe as recipe_module
from sightline.training.recipe import DataConfig, Recipe, find_recipe

RECIPES = sorted((Path(recipe_module.__file__).parents[1] / "recipes").glob("*.yaml"))


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_every_shipped_recipe_reads_and_survives_writing(path, tmp_path):
    recipe = Recipe.from_yaml(path)
    (tmp_path / "again.yaml").write_text(recipe.to_yaml())
    assert Recipe.from_yaml(tmp_path / "again.yaml") == recipe
    assert find_recipe(path.stem) == path


@pytest.mark.parametrize("path", RECIPES, ids=lambda path: path.stem)
def test_no_shipped_recipe_trains_on_held_out_worlds(path):
    for text in Recipe.from_yaml(path).data.sources:
        if text.startswith("worlds:"):
            source = open_source(text)
            assert max(int(source.scene(shot)) for shot in source.shots()) < HELD_OUT_SEED


def test_the_paper_s_numbers_are_the_paper_s():
    recipe = Recipe.from_yaml("paper-5b")
    o, v = recipe.optimizer, recipe.validation
    assert (o.learning_rate, o.adam_beta1, o.adam_beta2, o.adam_epsilon) == (2e-5, 0.9, 0.999, 1e-8)
    assert (o.weight_decay, o.min_lr_ratio, o.max_grad_norm) == (1e-2, 0.1, 1.0)
    assert (recipe.data.num_frames, recipe.data.width, recipe.data.height) == (81, 832, 480)
    assert (v.every_steps, v.num_clips, v.num_videos) == (5000, 100, 100)
    assert (v.num_inference_steps, v.guidance_scale) == (50, 5.0)
    assert recipe.model.trainable == "paper" and recipe.model.gradient_checkpointing and recipe.dtype == "bfloat16"
    high, low = Recipe.from_yaml("paper-14b-high"), Recipe.from_yaml("paper-14b-low")
    assert (high.model.component, low.model.component) == ("transformer", "transformer_2")
    assert high.objective.sigma_min == low.objective.sigma_max == 0.9
    for expert in (high, low):  # the same but for the expert, its noise levels and what 14B needs
        objective = dataclasses.replace(expert.objective, sigma_min=0.0, sigma_max=1.0)
        assert (expert.optimizer, expert.validation, objective) == (o, v, recipe.objective)


@pytest.mark.parametrize(
    "path", [path for path in RECIPES if path.stem.startswith("paper")], ids=lambda path: path.stem
)
def test_the_paper_s_recipes_say_where_each_value_comes_from(path):
    sections = path.read_text().split("\n\n")
    for section in (section for section in sections if section.startswith(("objective", "optimizer", "validation"))):
        unmarked = [line for line in section.splitlines()[1:] if not re.search(r"# (paper|wan|ours)\b", line)]
        assert not unmarked


@pytest.mark.parametrize(
    "text, sentence",
    [
        ("model: {bose: x}", "model.bose is no setting: expected one of base"),
        ("speed: 3", "speed is no setting"),
        ("optimizer: {learning_rate: fast}", "optimizer.learning_rate is 'fast': expected a finite number"),
        ("optimizer: {max_steps: 2.5}", "optimizer.max_steps is 2.5: expected a whole number"),
        ("model: {trainable: some}", "model.trainable is 'some': expected one of paper"),
        ("model: [1]", "model holds list: expected settings"),
        ("model: {compile: yes please}", "model.compile is 'yes please': expected true or false"),
        ("data: {sources: [a], source_weights: [1, 2]}", "source_weights is a list of 2: expected an object"),
        ("data: {sources: [a], source_weights: {a: 0}}", "source_weights.a is 0.0: expected a finite number above 0"),
        ("data: {sources: [a], subset: [b]}", "data.subset is given with sources"),
        ("data: {sources: [a], validation_cache: b}", "data.validation_cache is given with sources"),
        ("data: {sources: [a]}\nobjective: {text_dropout: 2}", "text_dropout is 2"),
        ("data: {sources: [a]}\nobjective: {sigma_min: 0.9, sigma_max: 0.5}", "sigma_min and sigma_max"),
        ("dtype: bfloat16", "either a cache or sources"),
        ("model: {trainable: encoding}\ndata: {sources: [a]}", "nothing to train"),
        ("data: {sources: [a]}\noptimizer: {adam_beta1: 2}", "adam_beta1 is 2.0: expected a number from 0 to below 1"),
        ("data: {sources: [a]}\noptimizer: {ema_decay: 1}", "ema_decay is 1.0"),
        (
            "data: {sources: [a]}\noptimizer: {encoding_lr_scale: -1}",
            "encoding_lr_scale is -1.0: expected a finite number of at least 0",
        ),
        ("data: {sources: [a]}\noptimizer: {warmup_steps: -5}", "warmup_steps is -5"),
        ("data: {sources: [a], num_workers: -1}", "data.num_workers is -1"),
        ("data: {sources: [a], held_out_fraction: 2}", "data.held_out_fraction is 2.0: expected a fraction"),
        ("data: {sources: [a]}\nmodel: {lora_rank: 0}", "lora_rank is 0"),
        ("data: {sources: [a]}\nvalidation: {every_steps: 0}", "validation.every_steps is 0: expected a whole number"),
        ("data: {sources: [a]}\nvalidation: {num_clips: 0}", "validation.num_clips is 0"),
        ("data: {sources: [a]}\nvalidation: {num_inference_steps: 0}", "validation.num_inference_steps is 0"),
        ("data: {sources: [a]}\nobjective: {log_scale_min: 5}", "log_scale_min and log_scale_max are 5.0 and 1.6"),
        ("data: {sources: [a]}\noptimizer: {learning_rate: 1e30}", "learning_rate is 1e\\+30: expected .* at most 1"),
        (
            "data: {sources: [a]}\noptimizer: {learning_rate: 0.1, encoding_lr_scale: 20}",
            "learning_rate x encoding_lr_scale is 2.0",
        ),
        ("data: {sources: [a]}\noptimizer: {weight_decay: 1e30}", "learning_rate x weight_decay is 2e\\+25: expected"),
        ("data: {sources: [a]}\noptimizer: {min_lr_ratio: 1e30}", "min_lr_ratio is 1e\\+30: expected a fraction"),
        ("data: {sources: [a]}\noptimizer: {max_seconds: 0}", "max_seconds is 0.0: expected a finite number above 0"),
        ("data: {sources: [a]}\nobjective: {shift: 1.0e+30}", "objective.shift is 1e.30: .* of at most 1000"),
        ("data: {sources: [a]}\noptimizer: {max_seconds: .inf}", "max_seconds is inf"),
        ("data: {sources: [a]}\nseed: -5", "seed is -5: expected a whole number from 0"),
        ("data: &d {sources: [a]}\nmodel: *d", "it has an alias"),
        ("data: {sources: [2026-01-01]}", "it has a date"),
        ("a: [1", "is not YAML"),
        ("- 1", "holds a list"),
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
    for option, sentence in (
        ("--optimizer.max-steps=-1", "optimizer.max_steps is -1: expected a whole number of at least 1."),
        (
            "--validation.guidance-scale=-1",
            "validation.guidance_scale is -1.0: expected a finite number of at least 0.",
        ),
    ):
        capsys.readouterr()
        assert main(["train", "debug", option]) == 2
        assert capsys.readouterr().err == f"sightline: {sentence}\n"
    assert main(["train"]) == 0
    told = capsys.readouterr().out
    assert "RECIPE" in told and all(path.stem in told for path in RECIPES)


def test_the_command_line_overrides_a_recipe(tmp_path, monkeypatch):
    from sightline.training import trainer

    seen = []
    monkeypatch.setattr(trainer, "train", lambda recipe, resume, stop_after: seen.append((recipe, resume)) or tmp_path)
    arguments = [
        "--optimizer.max_steps",
        "7",
        "--output",
        str(tmp_path),
        "--resume",
        "latest",
        "--model.trainable",
        "encoding",
    ]
    assert main(["train", "debug", *arguments]) == 0
    recipe, resume = seen[0]
    assert (recipe.optimizer.max_steps, recipe.output, recipe.model.trainable, resume) == (
        7,
        str(tmp_path),
        "encoding",
        "latest",
    )
    assert recipe.model.encoding == {"name": "scope"}
    assert main(["train", "debug", "--resume=latest"]) == 0 and seen[1][1] == "latest"
    assert main(["train", "debug", "-o", "here"]) == 0 and seen[2][0].output == "here"


SCOPE = {"name": "scope", "gate_hidden": 8}


@pytest.mark.parametrize(
    "arguments, encoding",
    [
        (["--model.encoding.name", "prope", "--model.encoding.branch", "own"], {"name": "prope", "branch": "own"}),
        (["--model.encoding.branch=own", "--model.encoding.name=prope"], {"name": "prope", "branch": "own"}),
        (["--model.encoding.name", "gta"], {"name": "gta"}),  # scope's settings do not belong to it
        (["--model.encoding.name", "scope"], SCOPE),
        (
            ["--model.encoding.gate-hidden", "4", "--model.encoding.flip", "false"],
            SCOPE | {"gate_hidden": 4, "flip": False},
        ),
        (["--model.encoding.alpha", "-1", "--model.encoding.terms=ad"], SCOPE | {"alpha": -1.0, "terms": "ad"}),
        (["--model.encoding.alpha", "none"], SCOPE | {"alpha": None}),
        (["--model.encoding", "none"], None),
        (["--model.encoding=none"], None),
    ],
)
def test_the_command_line_overrides_the_encoding(tmp_path, monkeypatch, arguments, encoding):
    from sightline.training import trainer

    seen = []
    monkeypatch.setattr(trainer, "train", lambda recipe, resume, stop_after: seen.append(recipe) or tmp_path)
    (tmp_path / "recipe.yaml").write_text("model: {encoding: {name: scope, gate_hidden: 8}}\ndata: {sources: [a]}\n")
    assert main(["train", str(tmp_path / "recipe.yaml"), *arguments, "--seed", "3"]) == 0
    assert seen[0].model.encoding == encoding and seen[0].seed == 3


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["--model.encoding.name", "what"], "model.encoding.name is 'what': expected one of cameractrl"),
        (
            ["--model.encoding.branch", "own"],
            "model.encoding.branch is no setting of scope: expected one of name, gate_hidden",
        ),
        (["--model.encoding.name=rerope", "--model.encoding.flip=1"], "model.encoding.flip is no setting of rerope"),
        (["--model.encoding.gate_hidden", "many"], "model.encoding.gate_hidden is 'many': expected a whole number"),
        (["--model.encoding.gate_hidden", "0"], "model.encoding: gate_hidden is 0"),
        (["--model.encoding.flip", "maybe"], "model.encoding.flip is 'maybe': expected true or false"),
        (["--model.encoding.terms", "x"], "model.encoding.terms is 'x': expected one of"),
        (["--model.encoding.flip"], "--model.encoding.flip has no value"),
        (["--model.encoding", "prope"], "model.encoding is 'prope': expected none alone"),
        (["--model.encoding", "none", "--model.encoding.name", "gta"], "model.encoding is 'none': expected none alone"),
    ],
)
def test_an_encoding_that_cannot_be_is_one_sentence(capsys, arguments, sentence):
    assert main(["train", "debug", *arguments]) == 2
    said = capsys.readouterr().err.strip()
    assert sentence in said and "\n" not in said


def test_an_encoding_is_overridden_together_with_what_is_trained(tmp_path, monkeypatch):
    from sightline.training import trainer

    seen = []
    monkeypatch.setattr(trainer, "train", lambda recipe, resume, stop_after: seen.append(recipe.model) or tmp_path)
    (tmp_path / "encoding.yaml").write_text(
        "model: {encoding: {name: scope}, trainable: encoding}\ndata: {sources: [a]}\n"
    )
    arguments = ["--model.encoding", "none", "--model.trainable", "all"]
    assert main(["train", str(tmp_path / "encoding.yaml"), *arguments]) == 0
    assert (seen[0].encoding, seen[0].trainable) == (None, "all")
    assert main(["train", "lab-pretrain", "--model.trainable", "encoding", "--model.encoding.name", "gta"]) == 0
    assert (seen[1].encoding, seen[1].trainable) == ({"name": "gta"}, "encoding")


def test_a_field_of_no_encoding_is_one_sentence(capsys):
    assert main(["train", "lab-pretrain", "--model.encoding.flip", "false"]) == 2
    assert "set without an encoding: expected model.encoding.name, one of cameractrl" in capsys.readouterr().err


def test_the_help_tells_how_an_encoding_is_overridden(capsys):
    assert main(["train", "--help"]) == 0
    assert "--model.encoding.name prope" in capsys.readouterr().out


def test_changes_of_a_recipe_include_what_is_gone():
    data = DataConfig(cache=("a",), source_weights={"re10k": 2.0})
    earlier, later = Recipe(data=data), Recipe(data=DataConfig(cache=("a", "b")), seed=1)
    assert sorted(later.changes_from(earlier)) == [
        "data.cache: ('a',) -> ('a', 'b')", "data.source_weights.re10k: 2.0 -> None", "seed: 0 -> 1",
    ]  # fmt: skip
