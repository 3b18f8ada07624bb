"""The history of keyframes: undo and redo."""

from __future__ import annotations

from dataclasses import dataclass, field

from sightline.studio.keyframes import Keyframes


@dataclass
class History:
    """Keyframes with undo and redo. `limit` states are kept."""

    current: Keyframes
    limit: int = 200
    _past: list[Keyframes] = field(default_factory=list)
    _future: list[Keyframes] = field(default_factory=list)

    @property
    def has_path(self) -> bool:
        """Whether there are keys to go back to: more than the camera of the picture."""
        return any(len(keyframes) > 1 for keyframes in (self.current, *self._past))

    def apply(self, keyframes: Keyframes) -> None:
        """Make these the current keyframes; what was undone before is forgotten."""
        self._past = [*self._past, self.current][-self.limit :]
        self._future = []
        self.current = keyframes

    def undo(self) -> bool:
        """Back to the state before the last change; False where there is none."""
        return self._step(self._past, self._future)

    def redo(self) -> bool:
        """Forward again; False where nothing was undone."""
        return self._step(self._future, self._past)

    def _step(self, source: list[Keyframes], target: list[Keyframes]) -> bool:
        if not source:
            return False
        target.append(self.current)
        self.current = source.pop()
        return True
