"""The commands that work on existing runs: sightline evaluate compare and vbench."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from sightline.cli._console import print_line
from sightline.option_types import OptionalText

_Folders = Annotated[Positional[tuple[Path, ...]], arg(metavar="RUN ...", help_behavior_hint="")]


@dataclass
class Compare:
    """Compare runs: bootstrap intervals, paired over the same clips, and which differences are significant."""

    runs: _Folders = ()
    """Folders of standard, beyond or revisit runs, or of efficiency runs; differences are to the first."""
    seed: int = 0
    """Seed of the bootstrap resamples."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/compare")
    """Folder to write."""

    def run(self) -> None:
        from sightline.evaluation.compare import compare
        from sightline.files import require_folder_name

        require_folder_name(self.output)
        text, file = compare(self.runs, self.output, self.seed)
        print_line(text)
        print_line(f"wrote {file}")


@dataclass
class VBench:
    """Six VBench dimensions of runs and of their real videos, by the official package in an environment of its own."""

    runs: _Folders = ()
    """Folders of standard, beyond or revisit runs."""
    results: Annotated[tuple[str, ...], arg(metavar="LABEL=FILE ...", help_behavior_hint="")] = ()
    """Existing results files of VBench; GT=FILE is that of the real videos."""
    environment: Annotated[Path, arg(metavar="DIR")] = Path("~/.cache/sightline/vbench")
    """Virtual environment of VBench; created if it does not exist."""
    python: OptionalText = None
    """Python to create it with; VBench's pinned dependencies have wheels up to 3.11."""
    device: str = "cuda"
    """Device that VBench runs on."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/vbench")
    """Folder to write."""

    def run(self) -> None:
        from sightline.evaluation.vbench import judge

        print_line(judge(self.runs, self.results, self.environment, self.python, self.device, self.output))
