"""sightline train: train a model by a recipe, resume it, export it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.errors import SightlineError


def main(arguments: Sequence[str]) -> None:
    """`sightline train RECIPE [--section.setting value ...]`, `sightline train export RUN OUT`."""
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
    from sightline.training.overrides import override_encoding
    from sightline.training.recipe import Recipe

    name, *rest = arguments
    recipe = Recipe.from_yaml(name)
    resume, rest = _resume(rest)
    overrides, rest = _encoding_overrides(rest)
    encoding = override_encoding(recipe.model.encoding, overrides) if overrides else recipe.model.encoding
    if encoding is not None:  # before the other overrides: some of them need an encoding
        recipe = recipe.with_encoding(encoding)
    description = f"Settings of the recipe {name}. {_ENCODING_HELP}"
    recipe = tyro.cli(Recipe, default=recipe, args=rest, prog=f"sightline train {name}", description=description)
    if encoding is None:  # after them: some recipes need one until they are overridden
        recipe = recipe.with_encoding(None)
    from sightline.training.trainer import train

    run = train(recipe, resume)
    if os.environ.get("RANK", "0") == "0":  # one of several processes speaks
        print(f"finished: {run}")


_ENCODING_HELP = (
    "The camera encoding is overridden field by field, --model.encoding.name prope --model.encoding.branch own; "
    "--model.encoding none trains without a camera."
)
_HELP = f"""usage: sightline train RECIPE [--resume latest|PATH] [--section.setting VALUE ...]
       sightline train export RUN OUT [--checkpoint latest|PATH]
       sightline train plot RUN [RUN ...] [-o FILE]

RECIPE is a YAML file or a shipped name ({{shipped}}).
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


def _resume(arguments: list[str]) -> tuple[str | None, list[str]]:
    """--resume belongs to a run, not to its recipe."""
    arguments = [part for one in arguments for part in (one.split("=", 1) if one.startswith("--resume=") else [one])]
    if "--resume" not in arguments:
        return None, arguments
    place = arguments.index("--resume")
    if place + 1 == len(arguments) or arguments[place + 1].startswith("--"):
        raise SightlineError("--resume stands alone: expected latest or a checkpoint's folder after it.")
    return arguments[place + 1], arguments[:place] + arguments[place + 2 :]


@dataclass
class Export:
    """Write a run's model in the diffusers layout, or, with an output named *.safetensors, its camera alone."""

    run_folder: Annotated[Positional[Path], arg(metavar="RUN")]
    """The run's folder."""
    output: Annotated[Positional[Path], arg(metavar="OUT")]
    """A new folder for CameraWanTransformer3DModel.from_pretrained, or a .safetensors file for load_camera."""
    checkpoint: str = "latest"
    """latest, or a checkpoint's folder."""
    last_weights: bool = False
    """The last weights, even where the run kept a moving average."""

    dtype: Literal["float32", "bfloat16"] = "float32"
    """Of the weights in a folder; the camera's own stay float32."""
    shard_size: str = "5GB"
    """Largest file of a folder."""

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
    """Draw the loss curves of one run or several, with what validation found."""

    runs: Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN")]
    """Folders of runs."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("losses.png")
    """The picture: png, svg or pdf, by its name."""
    window: int = 100
    """Steps over which the training loss is averaged."""

    def run(self) -> None:
        from sightline.checks import whole_number
        from sightline.figures import check_figure_path
        from sightline.training.curves import draw_curves

        if not self.runs:
            raise SightlineError("no RUN is given: expected the folder of a run, or several.")
        draw_curves(self.runs, check_figure_path(self.output), whole_number("window", self.window))
        print(f"wrote {self.output}")
