"""The one exception a user of this package is meant to read."""

from __future__ import annotations


class SightlineError(ValueError):
    """Bad input, told in one sentence: the argument, file or line, what was found, what is expected.

    frame: the frame of a trajectory that is to blame, where there is one; file readers turn it into a line.
    """

    def __init__(self, sentence: str, frame: int | None = None) -> None:
        super().__init__(sentence)
        self.frame = frame
