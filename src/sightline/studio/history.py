"""The history of keyframes: undo and redo."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from sightline.studio.keyframes import Keyframes

PathMode = Literal["move", "keys", "file"]  # what the camera follows: typed moves, keyframes or a trajectory file


@dataclass
class History:
    """Keyframes with undo and redo, each with what the camera followed while they were current. `limit` states are kept."""

    current: Keyframes
    limit: int = 200
    _past: list[tuple[Keyframes, PathMode]] = field(default_factory=list)
    _future: list[tuple[Keyframes, PathMode]] = field(default_factory=list)

    @property
    def has_path(self) -> bool:
        """Whether there are keys to go back or forward to: more than the camera of the picture."""
        known = (keyframes for keyframes, _ in (*self._past, *self._future))
        return any(len(keyframes) > 1 for keyframes in (self.current, *known))

    def apply(self, keyframes: Keyframes, mode: PathMode = "keys") -> None:
        """Make these the current keyframes; what was undone before is forgotten. mode: what the camera followed until now."""
        self._past = [*self._past, (self.current, mode)][-self.limit :]
        self._future = []
        self.current = keyframes

    def undo(self, mode: PathMode = "keys") -> PathMode | None:
        """Back to the state before the last change; returns what the camera followed then, or None where there is none.

        mode: what it follows now.
        """
        if not self._past:
            return None
        self._future = [*self._future, (self.current, mode)]
        *self._past, (self.current, before) = self._past
        return before

    def redo(self, mode: PathMode = "keys") -> PathMode | None:
        """Forward again; None where nothing was undone."""
        if not self._future:
            return None
        self._past = [*self._past, (self.current, mode)]
        *self._future, (self.current, after) = self._future
        return after
