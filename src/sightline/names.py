"""Names that become files and folders. Labels, scenes and names in files may hold anything; what becomes a path is plain."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable

from sightline.errors import SightlineError

_LONGEST = 150  # bytes: file systems allow 255, and endings are still to come
_NOT_PLAIN = re.compile(r"[^\w.@+-]+")


def plain_name(text: str) -> str:
    """The text as the name of one file or folder: letters, digits and . _ - @ +, not hidden, not too long, never . or .."""
    name = re.sub(r"^\.+", "_", _NOT_PLAIN.sub("_", text)) or "_"
    if len(name.encode()) > _LONGEST:
        digest = hashlib.sha256(text.encode(errors="replace")).hexdigest()[:16]
        name = f"{name.encode()[: _LONGEST - 17].decode(errors='ignore')}-{digest}"
    return name


def unique_names(texts: Iterable[str], taken: Iterable[str] = ()) -> list[str]:
    """A plain name for each text, all different: a name that another text or `taken` has already gets -2, -3, ...

    Names that differ only in case count as equal, as some file systems see them.
    """
    used = {name.casefold() for name in taken}
    names = []
    for text in texts:
        name, number = plain_name(text), 1
        while name.casefold() in used:
            number += 1
            name = plain_name(f"{text}-{number}")
        used.add(name.casefold())
        names.append(name)
    return names


def require_plain_name(what: str, name: str) -> str:
    """Refuse a name that is not plain, where it is read from a file or given by the user."""
    if not isinstance(name, str) or plain_name(name) != name:
        raise SightlineError(f"{what} is {name!r}: expected letters, digits and . _ - @ +, as in a file name.")
    return name
