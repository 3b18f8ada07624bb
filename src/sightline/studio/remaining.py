"""The time that a task will still take, judged by how fast it has come along so far."""

from __future__ import annotations

import time
from collections.abc import Callable

_MIN_FRACTION = 0.02  # of the work, before which nothing can be said


class Remaining:
    """clock: seconds, in which only differences matter."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._start: tuple[float, float] | None = None  # the first fraction and its time
        self._seconds: float | None = None

    def update(self, fraction: float) -> None:
        """fraction: of the work that is done. The first one is where the measurement starts."""
        now = self._clock()
        if self._start is None:
            self._start = (fraction, now)
            return
        done = fraction - self._start[0]
        if done >= _MIN_FRACTION:
            self._seconds = (now - self._start[1]) * (1 - fraction) / done

    def __str__(self) -> str:
        """In words, such as "about 20 s left"; empty as long as nothing can be said."""
        return "" if self._seconds is None else f"about {duration(self._seconds)} left"


def with_remaining(words: str, remaining: Remaining) -> str:
    """Words on how far a task has come, and the time that is left where something can be said of it."""
    return ", ".join(filter(None, (words, str(remaining))))


def duration(seconds: float) -> str:
    """Rounded as it is said: 7 s, 40 s, 5 min, 2.5 h."""
    if seconds < 10:
        return f"{max(seconds, 1):.0f} s"
    if seconds < 90:
        return f"{5 * round(seconds / 5)} s"
    minutes = seconds / 60
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"
