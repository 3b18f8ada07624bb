"""The camera-blind bases that rows start from. One that a study trains itself is trained once and shared by all rows."""

from __future__ import annotations

import dataclasses
import math
import shutil
from pathlib import Path

import torch

from sightline.backbones import shipped
from sightline.backbones.weights_digest import files_digest
from sightline.data.rendered_store import RenderedStore
from sightline.errors import SightlineError
from sightline.files import atomic_folder
from sightline.lab.models import assemble, lab_transformer
from sightline.locks import hold_lock
from sightline.settings import from_dict, to_builtin
from sightline.study.plan import Plan
from sightline.study.results import RunResult, read_results
from sightline.study.study import Base, merge
from sightline.training import checkpoint
from sightline.training.export import export
from sightline.training.recipe import Recipe
from sightline.training.resume import is_finished
from sightline.training.trainer import train

_CHECKPOINT_STEPS = 500  # at most: a training that is limited in time has no number of steps to divide


def base_model(
    name: str, base: Base, folder: Path, store: RenderedStore, seconds_left: float | None = None
) -> str | None:
    """The `model.base` of the rows of a base; trains it first where the study asks for that.

    folder: DIR/bases. seconds_left: stop the training after this time with a checkpoint; None is then returned.
    """
    if not base.is_trained:
        return base.model
    pipeline = folder / name / "pipeline"
    if pipeline.is_dir():
        return str(pipeline)
    folder.mkdir(parents=True, exist_ok=True)
    with hold_lock(folder / f".{name}.lock", pipeline, patience=math.inf):
        if pipeline.is_dir() or _train_base(base, folder / name, store, seconds_left):
            return str(pipeline)
    return None


def copy_bases(source: Plan, plan: Plan) -> None:
    """Take the bases that another folder has trained with the same settings, where this one has none of its own yet."""
    trained = {name: _weights(source, name) for name, base in source.study.bases.items() if base.is_trained}
    for name, base in plan.study.bases.items():
        same = [folder for other, folder in trained.items() if source.study.bases[other] == base and folder.is_dir()]
        if base.is_trained and same and not _weights(plan, name).is_dir():
            with atomic_folder(plan.folder / "bases" / name / "transformer") as temporary:
                shutil.copytree(same[0], temporary, dirs_exist_ok=True)


def _weights(plan: Plan, name: str) -> Path:
    """The transformer of a trained base. All else in its pipeline is that of the model whose VAE and text encoder it has."""
    folder = plan.folder / "bases" / name
    return next(
        (path for path in (folder / "pipeline/transformer", folder / "transformer") if path.is_dir()),
        folder / "transformer",
    )


def require_base_of_results(plan: Plan, table: str) -> None:
    """Refuse to go on where results of a table started from other weights than its base has."""
    name = plan.study.tables[table].base
    if not plan.study.bases[name].is_trained:
        return
    digest = files_digest(_weights(plan, name))
    for result in read_results(plan.folder):
        if result.table == table and result.failure is None and result.base != digest:
            raise SightlineError(
                f"results of table {table} in {plan.folder} started from other weights than {_weights(plan, name)}: expected the "
                "base that they started from, or a new folder."
            )


def have_same_base(source: Plan, source_table: str, plan: Plan, table: str) -> bool:
    """Whether rows of two tables, whose bases have the same settings, start from the same weights. A base that is not trained
    by its study is."""
    names = source.study.tables[source_table].base, plan.study.tables[table].base
    if not plan.study.bases[names[1]].is_trained:
        return True
    folders = [_weights(one, name) for one, name in zip((source, plan), names, strict=True)]
    return all(folder.is_dir() for folder in folders) and files_digest(folders[0]) == files_digest(folders[1])


class SameBase:
    """Refuses results of one table that started from different weights.

    plan: of the folder whose results and bases they are joined with.
    """

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._known: dict[str, tuple[str, Path]] = {}  # by table: the digest, and where it was found
        for result in read_results(plan.folder):
            if result.base:
                self._known.setdefault(result.table, (result.base, plan.folder))

    def require(self, table: str, result: RunResult, folder: Path) -> None:
        """Refuse a result of a folder that started from other weights than those of this table before it."""
        if result.failure is not None:
            return
        name = self._plan.study.tables[table].base
        if table not in self._known:
            transformer = _weights(self._plan, name)
            is_here = self._plan.study.bases[name].is_trained and transformer.is_dir()
            self._known[table] = (files_digest(transformer), self._plan.folder) if is_here else (result.base, folder)
        digest, place = self._known[table]
        if result.base != digest:
            raise SightlineError(
                f"results of table {table} in {folder} started from other weights than those of {place}: expected one base for "
                f"all of them; begin a new folder with --reuse {place}, or with a copy of {place / 'bases'}."
            )


def _train_base(base: Base, folder: Path, store: RenderedStore, seconds_left: float | None) -> bool:
    """Whether the base is finished."""
    if base.model.startswith("tiny:"):
        raise SightlineError(
            f"bases: model is {base.model!r}, a miniature in no file: expected lab, or a lab model's folder."
        )
    # Where `layers` is given, the transformer of the model is not needed.
    is_lab = base.model == "lab" and base.layers is not None
    root = shipped.part("vae").parent if is_lab else Path(shipped.resolve(base.model))
    vae, text, transformer = root / "vae", root, folder / "transformer"
    if transformer.is_dir():  # trained by an earlier command, or taken from another folder
        assemble(folder / "pipeline", vae, text, transformer)
        return True
    start = base.model
    if base.layers is not None:
        start = str(folder / "start")
        if not Path(start).is_dir():
            assemble(Path(start), vae, text, lab_transformer(base.layers, base.heads, base.ffn))
    if base.recipe is None:
        assemble(folder / "pipeline", vae, text, Path(start) / "transformer")
        return True
    settings = merge(dataclasses.asdict(Recipe.from_yaml(base.recipe)), base.overrides)
    settings = merge(settings, {"model": {"base": start, "encoding": None}, "output": str(folder / "run")})
    recipe: Recipe = from_dict(Recipe, to_builtin(settings), "bases: ")
    recipe = dataclasses.replace(
        recipe,
        validation=dataclasses.replace(recipe.validation, num_videos=0),
        checkpointing_steps=max(
            1, min(recipe.optimizer.max_steps // 10, _CHECKPOINT_STEPS)
        ),  # a killed one repeats little
        checkpoints_total_limit=1,
        report_to="none",
    )
    run = train(recipe, "latest", seconds_left, store)
    if not is_finished(checkpoint.read_state(checkpoint.list_checkpoints(run / "checkpoints")[-1]), recipe):
        return False
    export(run, transformer, dtype=torch.bfloat16)
    assemble(folder / "pipeline", vae, text, transformer)
    return True
