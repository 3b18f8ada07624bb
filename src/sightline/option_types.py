"""Types of command-line options that may be left out, for tyro. Their help text says what happens without them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tyro.conf import arg

# Without the hint, the help would add "default: None".
OptionalText = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
OptionalName = Annotated[str | None, arg(metavar="NAME", help_behavior_hint="")]
OptionalFile = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
OptionalSize = Annotated[str | None, arg(metavar="WIDTHxHEIGHT", help_behavior_hint="")]
OptionalInt = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
OptionalFloat = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
