"""sightline studio: a page to draw a camera path on a picture, preview it, generate the film and inspect the model.

The page is open to this machine alone, at http://127.0.0.1:8080. Films are written to folders in the output folder, as
`sightline generate` writes them. Ctrl-C (or `kill`) ends the studio and keeps finished films.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import FlagCreatePairsOff, arg

from sightline.cli._console import print_line
from sightline.cli._launch import clean_exit
from sightline.generation.model_options import ModelOptions
from sightline.option_types import OptionalText


def main(arguments: Sequence[str]) -> None:
    """Parse the arguments and run; only `run` imports torch, so that the help is quick."""
    command = tyro.cli(
        StudioCommand, prog="sightline studio", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    command.run()


@dataclass
class StudioCommand:
    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/studio")
    """Folder for films. The page reads and writes nothing outside it."""
    port: int = 8080
    """Port of the page; 0 takes any that is free."""
    host: str = "127.0.0.1"
    """Address to listen at. One that other machines can reach, such as 0.0.0.0, requires a token."""
    token: OptionalText = None
    """Access token: the page then opens only with ?token=... in its address."""

    def run(self) -> None:
        import threading

        from sightline.files import require_folder_name
        from sightline.studio.app import Studio

        require_folder_name(self.output)
        studio = Studio(self.options, self.output, host=self.host, port=self.port, token=self.token)
        with clean_exit():  # `kill` ends it as Ctrl-C does
            try:
                print_line(f"the studio is open at {studio.address} (Ctrl-C ends it)")
                threading.Event().wait()
            except KeyboardInterrupt:
                print_line(f"the studio is closed; films are in {self.output}")
            finally:
                studio.close()
