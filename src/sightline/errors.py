"""The exceptions that a user of this package is meant to read."""

from __future__ import annotations

_MAX_LETTERS = 1000  # of a message: a value in it may be of any length


class SightlineError(ValueError):
    """Bad input, described in one sentence: the argument, file or line, the value it has, and what is expected.

    frame: the frame of a trajectory that is to blame, where there is one; file readers turn it into a line.
    """

    def __init__(self, sentence: str, frame: int | None = None) -> None:
        if len(sentence) > _MAX_LETTERS:
            sentence = f"{sentence[: _MAX_LETTERS // 2]} ... {sentence[-_MAX_LETTERS // 2 :]}"
        super().__init__(sentence.replace("\n", " "))
        self.frame = frame


class LoadError(SightlineError, OSError):
    """A model whose files are missing or cannot be read. It is an OSError as well, which callers of diffusers expect there."""
