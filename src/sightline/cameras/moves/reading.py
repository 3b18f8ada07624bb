"""What a verb with its direction means, and how one is refused that means nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NoReturn

from sightline.cameras.moves.wording import PACES, SUGGESTIONS, TIMES
from sightline.cameras.moves.words import (
    DIRECTIONS,
    FORMS,
    HINTS,
    INSTEAD,
    MORE_AND_LESS,
    MOVES,
    VERBS,
    Reading,
    nearest,
)
from sightline.errors import SightlineError


def refuse_verb(words: Sequence[str], error: Callable[[str], SightlineError]) -> NoReturn:
    """Say which word of a verb that is none is not understood, or that there are two verbs."""
    known = [word for word in words if word in FORMS]
    if len(known) == len(words) > 1:
        raise error(f"found {' and '.join(known)}, expected one move, or 'and', '+', 'then' or a comma between them")
    strange = next(word for word in words if word not in FORMS)
    if strange in SUGGESTIONS:
        raise error(f"found the word {strange!r}, expected {SUGGESTIONS[strange]}")
    close = nearest(strange, [*VERBS, *DIRECTIONS, *PACES, *TIMES])
    raise error(f"found the word {strange!r}, expected one of {', '.join(MOVES)}{close}")


def reading_of(verb: str, direction: str, words: Sequence[str], error: Callable[[str], SightlineError]) -> Reading:
    """The move and the sign of a verb with its direction. words: those that make the verb."""
    if verb not in FORMS:
        refuse_verb(words, error)
    verb = FORMS[verb]
    directions = VERBS[verb]
    if direction not in directions:
        if not direction:
            raise error(f"found {verb!r} alone, expected a direction: {', '.join(filter(None, directions))}")
        instead = INSTEAD.get((verb, direction))
        takes = ", ".join(filter(None, directions)) or "no direction"
        raise error(f"found the direction {direction!r}, expected {instead or f'{takes} with {verb}'}")
    return directions[direction]


def note_on(verb: str, direction: str, reading: Reading) -> str:
    """What a name that other tools use differently means here, or which move another name stands for; else empty."""
    if (verb, direction) in HINTS:
        return HINTS[verb, direction]
    meaning = MORE_AND_LESS.get(reading.move, ("", ""))[reading.sign < 0]
    name, move = f"{verb} {direction}".strip(), f"{reading.move} {meaning}".strip()
    if verb == reading.move or name == move:
        return ""
    return f"{name.replace('_', ' ')} is read as {move.replace('_', ' ')}."
