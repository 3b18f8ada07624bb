"""The paper's claims and the targets of this project, as two YAML files list them. judging.py compares them with results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from sightline.checks import shown
from sightline.documents import read_yaml
from sightline.errors import SightlineError
from sightline.settings import from_dict
from sightline.study.results import COST, METRICS

SHIPPED = Path(__file__).parent / "claims.yaml"
TARGETS = Path(__file__).parent / "targets.yaml"
Expectation = Literal["better", "not worse", "similar", "above", "below", "wider"]
_ROWS: dict[Expectation, int] = {"better": 2, "not worse": 2, "similar": 2, "above": 1, "below": 1, "wider": 2}
FACTS = ("reciprocal_share", "alpha", "gate_span")  # of RunResult.facts, those that a claim may be about


@dataclass(frozen=True)
class Names:
    """Rows and tables of a claim as another study calls them; what is not given is as in the claim."""

    rows: tuple[str, ...] = ()
    table: str | None = None


@dataclass(frozen=True)
class Claim:
    """One claim. place: in the paper. study, table, metric, rows: where it is tested; without a table, in every one of the study.

    expect: of rows [a, b]: a is `better` than b; a is `not worse` than b by more than the relative `limit`; a is `similar` to
        b, within the relative `limit`; or the relative margin of a over b is `wider` in `table` than in the table `than`, whose
        rows are `than_rows` where they have other names.
        Of rows [a]: its mean is `above` or `below` the `limit`.
    elsewhere: the names of studies that test the claim on other rows or tables, such as data-5b. Other variants of the study,
        such as main-5b and main-seconds, test it where they have its rows.
    paper: the paper's figures of the rows. untested: why no study tests the claim; nothing else is then given.
    """

    claim: str
    place: str
    study: str = ""
    metric: str = ""
    rows: tuple[str, ...] = ()
    expect: Expectation = "better"
    table: str | None = None
    than: str | None = None
    than_rows: tuple[str, ...] = ()
    limit: float | None = None
    elsewhere: dict[str, Names] = field(default_factory=dict)
    paper: tuple[float, ...] = ()
    untested: str = ""

    def __post_init__(self) -> None:
        known = (*METRICS, *COST, *FACTS)
        if self.untested:
            return
        if self.metric not in known:
            raise SightlineError(f"metric is {shown(self.metric)}: expected one of {', '.join(known)}.")
        if not self.study or len(self.rows) != _ROWS[self.expect] or len(self.paper) not in (0, len(self.rows)):
            raise SightlineError(
                f"study, rows, paper: expected the name of a study, {_ROWS[self.expect]} row(s) to expect {self.expect!r} of, "
                "and as many figures of the paper or none."
            )
        if (self.limit is None) != (self.expect in ("better", "wider")):
            raise SightlineError(
                "limit: expected a number with not worse, similar, above and below, and none with the others."
            )
        if (self.expect == "wider") != (self.than is not None and self.table is not None):
            raise SightlineError(
                "than: expected a table to compare `table` with where the margin should be wider, else none."
            )
        for study, names in self.elsewhere.items():
            if len(names.rows) not in (0, len(self.rows)):
                raise SightlineError(
                    f"elsewhere.{study}.rows: expected {len(self.rows)} row(s), or none for the same ones."
                )

    def as_in(self, study: str) -> Claim:
        """The claim with the names that a study has for its rows and table."""
        names = self.elsewhere.get(study)
        if names is None:
            return self
        return replace(self, rows=names.rows or self.rows, table=names.table or self.table)


def read_claims(file: Path = SHIPPED) -> list[Claim]:
    """The claims of a YAML file, by default those of the paper; TARGETS has those of this project."""
    entries = read_yaml(file, "claims in YAML", list)
    return [from_dict(Claim, entry, f"{file}: claim {number}: ") for number, entry in enumerate(entries, start=1)]
