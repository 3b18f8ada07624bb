"""What was made on pages that are closed. A page that is opened next can go on with it, so that a reload costs no keyframes."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

from sightline.studio.session import Session


@dataclass(frozen=True)
class ClosedPage:
    """settings: of the next film, as the fields of Generate were; None where a field held no number."""

    session: Session
    film_name: str
    settings: dict[str, Any] | None


class ClosedPages:
    """The last few, the newest of which is taken first. Each can be taken once: two pages never work on one session."""

    def __init__(self, limit: int = 4) -> None:  # pictures and depths stay in memory
        self._pages: deque[ClosedPage] = deque(maxlen=limit)

    def __len__(self) -> int:
        return len(self._pages)

    def keep(self, page: ClosedPage) -> None:
        """Nothing is kept of a page on which nothing was made."""
        if not page.session.is_untouched:
            self._pages.append(page)

    def take(self) -> ClosedPage | None:
        """The page that was closed last; None where there is none."""
        try:
            return self._pages.pop()
        except IndexError:
            return None
