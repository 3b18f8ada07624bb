"""sightline train: train a model from a recipe, resume a run, export it, and plot its losses."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.cli._launch import clean_exit
from sightline.errors import SightlineError
from sightline.quiet import one_progress_bar


def main(arguments: Sequence[str]) -> None:
    """`sightline train RECIPE [--section.setting VALUE ...]`, `sightline train export RUN OUTPUT`, `sightline train plot RUN`."""
    if not arguments or arguments[0] in ("-h", "--help"):
        from sightline.training.recipe import shipped_recipes

        print(_HELP.format(shipped=", ".join(shipped_recipes())))
        return
    if arguments[0] == "export":
        tyro.cli(Export, args=arguments[1:], prog="sightline train export", config=(FlagCreatePairsOff,)).run()
        return
    if arguments[0] == "plot":
        tyro.cli(Plot, args=arguments[1:], prog="sightline train plot").run()
        return
    _train(*arguments)


def _train(name: str, *arguments: str) -> None:
    from sightline.checks import number
    from sightline.training.overrides import override_encoding
    from sightline.training.recipe import Recipe

    recipe = Recipe.from_yaml(name)
    resume, rest = _option("--resume", "latest or a checkpoint's folder", list(arguments))
    stop_after, rest = _option("--stop-after", "a number of seconds", rest)
    overrides, rest = _encoding_overrides(rest)
    encoding = override_encoding(recipe.model.encoding, overrides) if overrides else recipe.model.encoding
    if encoding is not None:  # set before the other overrides, some of which need an encoding
        recipe = recipe.with_encoding(encoding)
    description = f"Settings of the recipe {name}. {_ENCODING_HELP}"
    # Checked outside tyro, which would print the sentence of an error in a box.
    unchecked: type[Recipe] = type("Recipe", (Recipe,), {"__post_init__": lambda self: None})
    default = unchecked(**_values(recipe))
    parsed = tyro.cli(unchecked, default=default, args=rest, prog=f"sightline train {name}", description=description)
    recipe = Recipe(**_values(parsed))
    if encoding is None:  # removed after them: some recipes need an encoding until they are overridden
        recipe = recipe.with_encoding(None)
    from sightline.training.trainer import train

    one_progress_bar()
    with clean_exit():
        run = train(recipe, resume, None if stop_after is None else number("--stop-after", stop_after, above=0.0))
    if os.environ.get("RANK", "0") == "0":  # only one of several processes prints
        print(f"finished: {run}" if stop_after is None else f"wrote {run}")


def _values(recipe: Any) -> dict[str, Any]:
    return {field.name: getattr(recipe, field.name) for field in fields(recipe)}


_ENCODING_HELP = (
    "The camera encoding is overridden field by field, --model.encoding.name prope --model.encoding.branch own; "
    "--model.encoding none trains without a camera."
)
_HELP = f"""usage: sightline train RECIPE [--resume latest|PATH] [--stop-after SECONDS] [--section.setting VALUE ...]
       sightline train export RUN OUTPUT [--checkpoint latest|PATH]
       sightline train plot RUN [RUN ...] [-o FILE]

RECIPE is a YAML file or a shipped name ({{shipped}}).
--resume continues from a checkpoint. --stop-after writes one and ends that many seconds after the start of the command; the next
command with --resume latest continues, with the learning rate and the clock of optimizer.max_seconds where this one stopped.
Any setting can be overridden: sightline train debug --optimizer.max-steps 20 --output outputs/try.
{_ENCODING_HELP}
sightline train RECIPE --help lists the settings with the recipe's values.
On several processes: accelerate launch --num_processes 8 -m sightline train RECIPE"""


def _encoding_overrides(arguments: list[str]) -> tuple[dict[str, str], list[str]]:
    """The values of --model.encoding and --model.encoding.FIELD by field, and the other arguments."""
    overrides: dict[str, str] = {}
    others: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, value = argument.partition("=")
        if option != "--model.encoding" and not option.startswith("--model.encoding."):
            others.append(argument)
            continue
        if not equals:
            value = next(remaining, "--")
        if not value or value.startswith("--"):
            raise SightlineError(f"{option} has no value: expected {option} VALUE.")
        overrides[option.removeprefix("--model.encoding").removeprefix(".").replace("-", "_")] = value
    return overrides, others


def _option(name: str, expected: str, arguments: list[str]) -> tuple[str | None, list[str]]:
    """The value of an option that is no setting of the recipe, and the other arguments."""
    found: str | None = None
    others: list[str] = []
    remaining = iter(arguments)
    for argument in remaining:
        option, equals, value = argument.partition("=")
        if option != name:
            others.append(argument)
            continue
        found = value if equals else next(remaining, "--")
        if not found or found.startswith("--"):
            raise SightlineError(f"{name} stands alone: expected {expected} after it.")
    return found, others


@dataclass
class Export:
    """Write a run's model in diffusers' layout or, if OUTPUT is named *.safetensors, its camera weights alone."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run's folder."""
    output: Annotated[Positional[Path], arg(metavar="OUTPUT")]
    """A new folder with the model in diffusers' layout, or a .safetensors file for sl.load_pipeline(camera=...)."""
    checkpoint: str = "latest"
    """latest, or the folder of a checkpoint."""
    last_weights: bool = False
    """Export the last weights even if the run kept a moving average of them."""
    dtype: Literal["float32", "bfloat16"] = "float32"
    """The dtype of the weights in a folder. Those of the camera encoding are always float32."""
    shard_size: str = "5GB"
    """The largest size of a file in a folder."""

    def run(self) -> None:
        import torch

        from sightline.training.export import export

        written = export(
            self.run_folder,
            self.output,
            self.checkpoint,
            False if self.last_weights else None,
            dtype=getattr(torch, self.dtype),
            shard_size=self.shard_size,
        )
        print(f"wrote {written}")


@dataclass
class Plot:
    """Draw the training and validation losses of one run or several."""

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]
    """The folders of the runs."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("losses.png")
    """The figure to write, as .png, .svg or .pdf."""
    window: int = 100
    """The training loss is averaged over this many steps."""

    def run(self) -> None:
        from sightline.checks import whole_number
        from sightline.figures import check_figure_path
        from sightline.training.curves import draw_curves

        if not self.runs:
            raise SightlineError("no RUN is given: expected the folder of a run, or several.")
        draw_curves(self.runs, check_figure_path(self.output), whole_number("window", self.window))
        print(f"wrote {self.output}")
