"""sightline lab: make and measure the tiny model that ships with the package. See docs/lab.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, arg


def main(arguments: Sequence[str]) -> None:
    commands = {"vae": Vae}
    tyro.extras.subcommand_cli_from_dict(
        commands, args=list(arguments), prog="sightline lab", description=__doc__, config=(FlagCreatePairsOff,)
    ).run()


@dataclass
class Vae:
    """Train the video autoencoder on procedural worlds."""

    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/vae")
    """Folder for the VAE, in diffusers' layout, and what was measured."""
    seconds: float = 400.0
    """How long to train; the learning rate falls to 0 over this time."""
    clips: int = 8_000
    """Clips to film first, over all styles; they stay in the device's memory."""
    batch: int = 8
    held_out: int = 64
    """Clips of held-out scenes to measure on."""
    seed: int = 0

    def run(self) -> None:
        from sightline.lab.vae_training import train_vae

        train_vae(
            self.output,
            seconds=self.seconds,
            clips=self.clips,
            batch=self.batch,
            held_out=self.held_out,
            seed=self.seed,
        )
