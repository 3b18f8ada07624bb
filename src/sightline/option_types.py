"""Types of command-line options for tyro, and the check of their numbers.

The help text of an option that may be left out says what happens without it.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from sightline.checks import check_seed, number

# Without the hint, the help would add "default: None".
OptionalText = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
OptionalName = Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")]
OptionalFile = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
OptionalSize = Annotated[str | None, arg(metavar="WIDTHxHEIGHT", help_behavior_hint="")]
OptionalInt = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
OptionalFloat = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]


def check_options(command: Any) -> None:
    """Refuse numbers that are not finite, and seeds that torch does not take, in the options of a command and of its parts.

    Python's float() accepts nan, inf and 1e999, so tyro does too.
    """
    for field in dataclasses.fields(command):
        value = getattr(command, field.name)
        if dataclasses.is_dataclass(value):
            check_options(value)
        elif isinstance(value, float):
            number(field.name, value)
        elif field.name == "seed":
            check_seed(value)
