"""Studies: which rows are trained on which base, with which seeds and budget, and what is measured. A YAML file sets them.

A study has tables (such as one per unit of length), and every table has rows. A row is a recipe with some settings changed: its
encoding, a component, its data. Everything else is the same for all rows of a table: base, clips, their order, noise, steps.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

from sightline.checks import check_seed, number, whole_number
from sightline.errors import SightlineError
from sightline.names import plain_name
from sightline.settings import from_dict, to_builtin
from sightline.study.results import Group
from sightline.training.recipe import Recipe

_WHOLE = ("encoding", "source_weights")  # settings that an override replaces as a whole


@dataclass(frozen=True)
class Rate:
    """Learning rates of a run: of the pretrained parameters, and of the encoding's own as a multiple of that."""

    learning_rate: float
    encoding_lr_scale: float = 1.0

    @property
    def name(self) -> str:
        """As the folder of its trial and the facts of a result name it, such as 0.001x20."""
        return f"{self.learning_rate:g}x{self.encoding_lr_scale:g}"


@dataclass(frozen=True)
class Base:
    """The camera-blind model that rows start from: one that exists, or one that the study trains first and its rows share."""

    model: str = "lab"
    """As a recipe's model.base."""
    recipe: str | None = None
    """The recipe that trains it, without a camera, from `model`, or from an untrained transformer where `layers` is given."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Settings of that recipe that are changed."""
    layers: int | None = None
    """Layers of an untrained transformer of the lab, which is trained with the VAE and text encoder of `model`."""
    heads: int = 5
    ffn: int = 1024

    @property
    def is_trained(self) -> bool:
        """Whether the study makes it, in DIR/bases."""
        return self.recipe is not None or self.layers is not None


@dataclass(frozen=True)
class TableConfig:
    """One table: settings that all of its rows share."""

    title: str = ""
    base: str = "base"
    """The name of one of the study's bases."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Settings of the recipe that are changed for this table."""
    videos: tuple[str, ...] = ()
    """Sources of the clips that are generated along their trajectories and along loops; none of them may be trained on."""
    budget_scale: float = 1.0
    """The steps, or the seconds, of this table's runs, as a multiple of the study's."""


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    encoding: dict[str, Any] | None = None
    """The camera encoding; none trains without a camera."""
    overrides: dict[str, Any] = field(default_factory=dict)
    """Other settings of the recipe that are changed."""
    tables: tuple[str, ...] = ()
    """The tables that have this row; without any, all of them."""


@dataclass(frozen=True)
class Measure:
    """What is measured on every trained model."""

    groups: tuple[Group, ...] = ("loss", "video", "revisit")
    """loss: held-out loss. video: PSNR and pose errors. revisit: the closed loops."""
    loss_clips: int = 128
    """Held-out clips whose loss is measured. The sweep of learning rates is judged on others, as many as are left up to this."""
    videos: int = 16
    """Clips that are generated along their true trajectories."""
    poses: int = 16
    """Of these, the clips whose cameras are estimated, which takes longer than generating them."""
    loops: int = 4
    """First frames from which the four loops of revisit are generated."""
    part: Literal["all", "held-out"] = "all"
    """Which scenes of the tables' `videos`."""
    num_inference_steps: int = 12
    guidance_scale: float = 1.0
    batch_size: int = 16
    """Clips that are measured together."""
    estimator: str = "direct"
    """How cameras are estimated from videos, as for sightline evaluate."""
    against: Literal["trajectory", "video"] = "trajectory"
    """What pose errors are measured to: the commanded trajectory, or what the estimator finds in the true video."""
    networks: tuple[Literal["lpips", "dino"], ...] = ()
    """lpips and dino, for the appearance metrics of revisit; one without its weights is left out with a note."""
    weights: dict[str, str] = field(default_factory=dict)
    """Files of their weights, by network."""
    time: bool = False
    """Measure the time of a training step and of a denoising step while nothing else runs."""
    history: int = 10
    """How often the losses and scalars of a run are noted on its way."""


@dataclass(frozen=True)
class Study:
    """All settings of a study."""

    title: str
    recipe: str
    rows: dict[str, Row]
    """By label, in the order of the tables."""
    bases: dict[str, Base] = field(default_factory=lambda: {"base": Base()})
    tables: dict[str, TableConfig] = field(default_factory=lambda: {"all": TableConfig()})
    overrides: dict[str, Any] = field(default_factory=dict)
    """Settings of the recipe that are changed for all rows."""
    seeds: tuple[int, ...] = (0, 1, 2)
    steps: int | None = None
    """The same number of steps for every run."""
    seconds: float | None = None
    """Or the same time: as many steps as a row takes in it alone on the device, which is measured once."""
    timed_batch_size: int | None = None
    """Clips of a step whose time is measured for `seconds`, if not the recipe's: as many as fill the device, so that the time is
    that of the row's arithmetic. With few clips, a GPU waits for the process that starts its kernels."""
    rates: tuple[Rate, ...] = ()
    """Learning rates that every row tries; the best one by held-out loss trains all of its seeds. None takes the recipe's."""
    sweep_steps: int = 200
    """Steps of each of these trials."""
    measure: Measure = field(default_factory=Measure)

    def __post_init__(self) -> None:
        if (self.steps is None) == (self.seconds is None):
            raise SightlineError("steps and seconds: expected exactly one of the two, the same for every row.")
        if self.steps is not None:
            whole_number("steps", self.steps)
        if self.seconds is not None:
            number("seconds", self.seconds, above=0.0)
        if self.timed_batch_size is not None:
            whole_number("timed_batch_size", self.timed_batch_size)
            if self.seconds is None:
                raise SightlineError(f"timed_batch_size is {self.timed_batch_size}: expected it beside seconds only.")
        whole_number("sweep_steps", self.sweep_steps)
        if len({rate.name for rate in self.rates}) < len(self.rates):
            raise SightlineError(
                f"rates is {', '.join(rate.name for rate in self.rates)}: expected every learning_rate x scale once."
            )
        if not self.rows or not self.seeds or len(set(self.seeds)) < len(self.seeds):
            raise SightlineError("rows and seeds: expected at least one of each, and every seed once.")
        for seed in self.seeds:
            check_seed(seed)
        for name in ("loss_clips", "videos", "loops", "num_inference_steps", "batch_size", "history"):
            whole_number(f"measure.{name}", getattr(self.measure, name))
        number("measure.poses", self.measure.poses, at_least=0)
        self._check_names()

    def _check_names(self) -> None:
        for name, table in self.tables.items():
            number(f"tables.{name}.budget_scale", table.budget_scale, above=0.0)
            if table.base not in self.bases:
                raise SightlineError(f"tables.{name}.base is {table.base!r}: expected one of {', '.join(self.bases)}.")
            needs_videos = {"video", "revisit"} & set(self.measure.groups)
            if needs_videos and not table.videos:
                raise SightlineError(f"tables.{name}.videos is empty: expected sources of clips to generate.")
        for label, row in self.rows.items():
            for table_name in row.tables:
                if table_name not in self.tables:
                    raise SightlineError(
                        f"rows.{label}.tables has {table_name!r}: expected some of {', '.join(self.tables)}."
                    )
        cells = self.cells()
        if len({cell.name.casefold() for cell in cells}) < len(cells):
            raise SightlineError("rows: expected labels that still differ as names of folders.")

    def cells(self) -> list[Cell]:
        """Every row of every table."""
        return [
            Cell(table, label)
            for table in self.tables
            for label, row in self.rows.items()
            if not row.tables or table in row.tables
        ]

    def steps_of(self, table: str) -> int | None:
        """The steps of every run of a table; None where the time decides."""
        return None if self.steps is None else max(1, round(self.steps * self.tables[table].budget_scale))

    def seconds_of(self, table: str) -> float | None:
        """The time of every run of a table; None where the number of steps is given."""
        return None if self.seconds is None else self.seconds * self.tables[table].budget_scale

    @cached_property
    def _unchanged_recipe(self) -> Recipe:
        """As its file has it, which is read once: a plan of a study asks for the recipe of every row many times."""
        return Recipe.from_yaml(self.recipe)

    def shared_recipe(self, table: str) -> Recipe:
        """The recipe of a table before its rows change it, which decides what all of them are measured on."""
        settings = dataclasses.asdict(self._unchanged_recipe)
        for overrides in (self.overrides, self.tables[table].overrides):
            settings = merge(settings, overrides)
        return _recipe(settings, f"the recipe of table {table}")

    def row_recipe(self, cell: Cell) -> Recipe:
        """The recipe of a row, without seed, steps and output."""
        row, settings = self.rows[cell.row], dataclasses.asdict(self.shared_recipe(cell.table))
        settings = merge(settings, {"model": {"encoding": row.encoding}})
        return _recipe(merge(settings, row.overrides), f"row {cell.row}")


@dataclass(frozen=True)
class Cell:
    """A row of a table."""

    table: str
    row: str

    @property
    def name(self) -> str:
        """The name of its folder."""
        return plain_name(f"{self.table} {self.row}")


def _recipe(settings: dict[str, Any], place: str) -> Recipe:
    recipe: Recipe = from_dict(Recipe, to_builtin(settings), f"{place}: ")
    return recipe


def merge(settings: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """The settings with some of them replaced, section by section."""
    merged = dict(settings)
    for name, value in overrides.items():
        both = isinstance(value, dict) and isinstance(merged.get(name), dict) and name not in _WHOLE
        merged[name] = merge(merged[name], value) if both else value
    return merged
