"""What the registry knows about one file format."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import get_args

from typing_extensions import get_type_hints

from sightline.cameras.formats._files import InputFile
from sightline.cameras.trajectory import Trajectory


@dataclass(frozen=True)
class Format:
    """One file format: `read(file, **options)`, `write(trajectory, path, **options)`, and `sniff(file)`, which tells from
    its content whether a file has this format."""

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
        return _option_names(self.read)

    @property
    def write_options(self) -> list[str]:
        return _option_names(self.write)


def _option_names(function: Callable[..., object]) -> list[str]:
    """The keys of a TypedDict that types `**options`, then the keyword-only parameters."""
    parameters = inspect.signature(function).parameters.values()
    names = [parameter.name for parameter in parameters if parameter.kind is parameter.KEYWORD_ONLY]
    for parameter in parameters:
        if parameter.kind is parameter.VAR_KEYWORD:
            (options,) = get_args(get_type_hints(function)[parameter.name])  # Unpack[...]
            names = [*get_type_hints(options), *names]
    return names
