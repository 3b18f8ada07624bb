"""What the registry knows about one file format."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass

from sightline.cameras.formats._files import InputFile
from sightline.cameras.trajectory import Trajectory


@dataclass(frozen=True)
class Format:
    """One file format. `read(file, **options)`, `write(trajectory, path, **options)`; `sniff(file)` looks at content."""

    name: str
    title: str
    convention: str  # one line: direction, axes, units
    loses: str  # one line: what a written file cannot carry
    read: Callable[..., Trajectory]
    write: Callable[..., None]
    sniff: Callable[[InputFile], bool]
    extension: str | None = None  # names this format alone when saving
    carries_xi: bool = False

    @property
    def read_options(self) -> list[str]:
        return _keyword_only(self.read)

    @property
    def write_options(self) -> list[str]:
        return _keyword_only(self.write)


def _keyword_only(function: Callable[..., object]) -> list[str]:
    return [p.name for p in inspect.signature(function).parameters.values() if p.kind is p.KEYWORD_ONLY]
