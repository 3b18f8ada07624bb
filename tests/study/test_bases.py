"""The models that rows start from: trained once, kept by their weights, and never mixed."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from sightline.backbones import shipped
from sightline.backbones.weights_digest import files_digest
from sightline.data.rendered_store import RenderedStore
from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from sightline.lab.models import lab_transformer
from sightline.settings import from_dict, to_builtin
from sightline.study import bases
from sightline.study.merge import merge_shares
from sightline.study.plan import Plan
from sightline.study.results import RunResult
from sightline.study.reuse import reuse_results
from sightline.study.row_training import RowTrainer
from sightline.study.study import merge
from sightline.study.study_file import read_study
from sightline.training.recipe import Recipe
from tests.study.conftest import longer


def test_a_base_is_trained_with_checkpoints_on_the_way(small_recipe, tmp_path, monkeypatch):
    recipes = []

    def train(recipe, *_):
        recipes.append(recipe)
        raise SightlineError("enough")

    monkeypatch.setattr(bases, "train", train)
    overrides = {"optimizer": {"max_steps": 40}, "checkpointing_steps": 100000, "validation": {"num_videos": 2}}
    with pytest.raises(SightlineError, match="enough"):
        bases.base_model("base", bases.Base("lab", str(small_recipe), overrides), tmp_path, RenderedStore(tmp_path))
    (recipe,) = recipes
    assert recipe.checkpointing_steps == 4 and recipe.validation.num_videos == 0
    assert recipe.checkpoints_total_limit == 1 and recipe.report_to == "none"


def write_base(folder, value):
    """A base that a study has trained, and the digest of its weights."""
    transformer = folder / "bases/base/pipeline/transformer"
    transformer.mkdir(parents=True, exist_ok=True)
    save_file({"weight": torch.full((2,), value)}, transformer / "model.safetensors")
    return files_digest(transformer)


def test_results_of_different_bases_are_not_joined(quick, tmp_path):
    study = dataclasses.replace(quick, bases={"base": bases.Base("lab", recipe="lab-pretrain")})
    plans = [Plan(study, "quick", tmp_path / name) for name in ("one", "two")]
    for seed, plan in enumerate(plans):
        plan.write_study()
        digest = write_base(plan.folder, float(seed))
        result = RunResult("quick", "SCoPE", seed, "all", {"loss": ["a"]}, {"loss": [0.5]}, base=digest)
        result.write(plan.folder / f"runs/all_SCoPE/{seed}")
    for call in (
        lambda: merge_shares([plan.folder for plan in plans], tmp_path / "merged"),
        lambda: reuse_results(plans[0], [plans[1].folder]),
    ):
        with pytest.raises(
            SightlineError, match=r"results of table all in .*two started from other weights than those of .*one"
        ):
            call()
    assert not (tmp_path / "merged").exists()


def test_a_run_does_not_go_on_from_another_base(quick, tmp_path):
    study = dataclasses.replace(quick, bases={"base": bases.Base("lab", recipe="lab-pretrain")})
    plan = Plan(study, "quick", tmp_path)
    plan.write_study()
    digest = write_base(plan.folder, 1.0)
    RunResult("quick", "SCoPE", 0, "all", base=digest).write(plan.folder / "runs/all_SCoPE/0")
    RowTrainer(plan).measurer("all")
    write_base(plan.folder, 2.0)
    with pytest.raises(
        SightlineError, match=r"results of table all in .* started from other weights than .*transformer"
    ):
        RowTrainer(plan).measurer("all")


def test_a_base_is_made_again_from_its_transformer_alone(tmp_path, monkeypatch):
    """As on another machine, whose checkout may lack the transformer of the lab model."""
    for name in ("vae", "text_encoder", "tokenizer"):
        (tmp_path / "weights/base").mkdir(parents=True, exist_ok=True)
        (tmp_path / "weights/base" / name).symlink_to(shipped.part(name))
    monkeypatch.setattr(shipped, "_WEIGHTS", tmp_path / "weights")
    transformer = lab_transformer(1, 1, 8).to(torch.bfloat16)
    transformer.save_pretrained(tmp_path / "bases/base/transformer")
    base = bases.Base("lab", recipe="lab-pretrain", layers=1)
    pipeline = bases.base_model("base", base, tmp_path / "bases", RenderedStore(tmp_path))
    assert files_digest(Path(pipeline) / "transformer") == files_digest(tmp_path / "bases/base/transformer")
    assert not (tmp_path / "bases/base/run").exists()


def test_trials_of_another_study_are_taken_if_its_base_is_the_same(quick, tmp_path):
    study = longer(quick, bases={"base": bases.Base("lab", recipe="lab-pretrain")})
    one, two, three = (Plan(study, name, tmp_path / name) for name in ("one", "two", "three"))
    for plan, value in ((one, 1.0), (three, 3.0)):
        plan.write_study()
        write_base(plan.folder, value)
    trial = next(task for task in one.tasks() if task.rate)
    (one.task_folder(trial)).mkdir(parents=True)
    (one.task_folder(trial) / "trial.json").write_text('{"loss": 0.5}')
    reuse_results(two, [one.folder])
    reuse_results(three, [one.folder])
    assert two.trials(trial.cell) == {trial.rate: 0.5} and three.trials(trial.cell) == {}


def test_reuse_takes_the_base_too(quick, tmp_path):
    study = dataclasses.replace(quick, bases={"base": bases.Base("lab", recipe="lab-pretrain")})
    one, two = (Plan(study, "quick", tmp_path / name) for name in ("one", "two"))
    one.write_study()
    digest = write_base(one.folder, 1.0)
    RunResult("quick", "SCoPE", 0, "all", base=digest).write(one.folder / "runs/all_SCoPE/0")
    assert reuse_results(two, [one.folder]) == 1
    assert files_digest(two.folder / "bases/base/transformer") == digest
    other = dataclasses.replace(study, bases={"base": bases.Base("lab", layers=7, recipe="lab-pretrain")})
    assert reuse_results(Plan(other, "other", tmp_path / "three"), [one.folder]) == 0
    assert not (tmp_path / "three/bases").exists()


@pytest.mark.parametrize("name", ["main", "scale"])
def test_bases_and_rows_share_their_rendered_clips(name):
    study = read_study(name)

    def clips(data):
        sources = [str(source.in_metres().settings()) for source in open_sources(data.sources)]
        return sources, (data.num_frames, data.stride, data.width, data.height, data.held_out_fraction, data.near_depth)

    for base in study.bases.values():
        trained = merge(dataclasses.asdict(Recipe.from_yaml(base.recipe)), base.overrides)
        data = from_dict(Recipe, to_builtin(trained), "").data
        assert all(clips(study.shared_recipe(table).data) == clips(data) for table in study.tables)
