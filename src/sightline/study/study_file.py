"""Studies as YAML files: those that ship, which study extends which, and bases, tables and rows that are like others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from sightline.documents import read_yaml
from sightline.errors import SightlineError
from sightline.settings import from_dict
from sightline.study.study import Study, merge

_SHIPPED = Path(__file__).parents[1] / "studies"
_EXPECTED = "a study in YAML"
_WITH_LIKE = ("bases", "tables", "rows")


def shipped_studies() -> list[str]:
    """Names of the studies that come with the package."""
    return sorted(file.stem for file in _SHIPPED.glob("*.yaml"))


def find_study(name: str | Path) -> Path:
    """The file of that path, or the shipped study of that name."""
    path, shipped = Path(name), _SHIPPED / f"{name}.yaml"
    for file in (path, shipped):
        if file.is_file():
            return file
    raise SightlineError(
        f"{str(name)!r} is neither a file nor a shipped study: expected a YAML file or one of {', '.join(shipped_studies())}."
    )


def read_study(name: str | Path) -> Study:
    """Read a study. `extends` names another one, whose settings hold where this one has none; `like`, in a base, a
    table or a row, names another one of its kind, whose settings hold where this one has none."""
    file = find_study(name)
    content: dict[str, Any] = {}
    for one in reversed(_chain(file)):
        # Before tables are replaced as a whole: those of a study that is extended can still be named.
        resolved = {part: _resolve(part, one[part], content.get(part), file) for part in _WITH_LIKE if part in one}
        content = {**content, **one, **resolved}
    study: Study = from_dict(Study, content, f"{file}: ")
    for cell in study.cells():  # a wrong setting of a row is refused now, not after hours
        try:
            study.row_recipe(cell)
        except SightlineError as error:
            raise SightlineError(f"{file}: {error}") from None
    return study


def _chain(file: Path) -> list[dict[str, Any]]:
    """The contents of a study, of the one that it extends, of the one that that one extends, and so on."""
    chain: list[dict[str, Any]] = []
    seen: set[Path] = set()
    while True:
        seen.add(file)
        chain.append(read_yaml(file, _EXPECTED))
        extends = chain[-1].pop("extends", None)
        if extends is None:
            return chain
        file = find_study(str(extends))
        if file in seen:
            raise SightlineError(f"{file}: extends leads back to it, expected a study that does not extend itself.")


def _resolve(part: str, entries: Any, extended: Any, file: Path) -> Any:
    """Bases, tables or rows, with the settings of those that they are like. extended: those of the study that is extended."""
    if not isinstance(entries, dict):
        return entries  # refused where types are checked
    known: dict[str, Any] = dict(extended) if isinstance(extended, dict) else {}
    for label, entry in entries.items():
        if isinstance(entry, dict) and "like" in entry:
            like = entry["like"]
            if not isinstance(like, str) or not isinstance(known.get(like), dict):
                raise SightlineError(
                    f"{file}: {part}.{label}.like is {like!r}: expected one of those above it, or of the study that this one "
                    f"extends ({', '.join(map(str, known)) or 'there are none'})."
                )
            entry = merge(known[like], {name: value for name, value in entry.items() if name != "like"})
        known[label] = entry
    return {label: known[label] for label in entries}
