"""The one exception a user of this package is meant to read."""

from __future__ import annotations


class SightlineError(ValueError):
    """Bad input, told in one sentence: the argument, file or line, what was found, what is expected."""
