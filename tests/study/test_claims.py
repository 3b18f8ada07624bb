"""The claims of the paper, and how results judge them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from sightline.errors import SightlineError
from sightline.study.claims import Claim, ClaimVerdict, claims_markdown, judge_claims, read_claims, summary_of
from sightline.study.results import RunResult
from sightline.study.study import read_study
from tests.study.examples import invent_runs

RUNS = invent_runs({"UCPE": 0.0, "SCoPE": 0.1, "twin": 0.1}, metrics=("loss", "rot_err"))


def judge(runs: list[RunResult] = RUNS, **entry: Any) -> list[ClaimVerdict]:
    claim = Claim("It is so", "Table 1", **{"study": "main", "metric": "rot_err", **entry})
    return [judged.verdict for judged in judge_claims(runs, [claim])]


def test_shipped_claims_are_complete() -> None:
    claims = read_claims()
    assert len(claims) > 40
    assert {claim.study for claim in claims} == {
        "", "main", "revisit", "pe-design", "components", "data", "efficiency", "scale",
    }  # fmt: skip
    assert len({(claim.claim, claim.study, claim.metric) for claim in claims}) == len(claims)
    for claim in claims:
        if (
            claim.expect == "better"
            and claim.paper
            and claim.metric in ("rot_err", "trans_err", "cam_mc", "step_seconds")
        ):
            assert claim.paper[0] < claim.paper[1], claim.claim  # the paper's own figures support its claim


def test_better_and_worse() -> None:
    assert judge(rows=("SCoPE", "UCPE")) == ["holds"]
    assert judge(rows=("UCPE", "SCoPE")) == ["does not hold"]
    assert judge(rows=("SCoPE", "twin")) == ["not shown"]
    assert judge(rows=("SCoPE", "ReRoPE")) == ["not measured"]
    assert judge(rows=("SCoPE", "UCPE"), metric="return_dino") == ["not measured"]
    assert judge(rows=("SCoPE", "UCPE"), metric="new_parameters") == ["does not hold"]


def test_a_claim_on_times_of_a_shared_device_is_not_judged() -> None:
    [judged] = judge_claims(RUNS, [Claim("It is fast", "Table 9", "main", "step_seconds", ("SCoPE", "UCPE"))])
    assert judged.verdict == "not measured" and judged.ours.startswith("not compared: the time of a step")


def test_similar_rows() -> None:
    assert judge(rows=("SCoPE", "twin"), expect="similar", limit=0.05) == ["holds"]
    assert judge(rows=("SCoPE", "UCPE"), expect="similar", limit=0.05) == ["does not hold"]
    assert judge(rows=("SCoPE", "twin"), expect="similar", limit=1e-6) == ["not shown"]


def test_limits() -> None:
    share = {"metric": "reciprocal_share", "rows": ("SCoPE",)}  # 0.10, 0.11, 0.12
    assert judge(**share, expect="above", limit=0.5) == ["does not hold"]
    assert judge(**share, expect="below", limit=0.5) == ["holds"]
    assert judge(**share, expect="above", limit=0.11) == ["not shown"]
    assert judge(**{**share, "rows": ("another",)}, expect="above", limit=0.5) == ["not measured"]


def test_margins_at_two_sizes() -> None:
    small = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, "scale", "small", metrics=("rot_err",))
    large = invent_runs({"UCPE": 0.0, "SCoPE": 0.3}, "scale", "large", metrics=("rot_err",))
    margin = {"study": "scale", "rows": ("SCoPE", "UCPE"), "expect": "wider"}
    assert judge(small + large, **margin, table="large", than="small") == ["holds"]
    assert judge(small + large, **margin, table="small", than="large") == ["does not hold"]
    assert judge(large, **margin, table="large", than="small") == ["not measured"]
    assert judge(small + large, study="scale", rows=("SCoPE", "UCPE"), table="large") == ["holds"]


def test_every_table_of_the_study_and_its_variants() -> None:
    other = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, table="sfm", metrics=("rot_err",))
    longer = invent_runs({"UCPE": 0.1, "SCoPE": 0.0}, study="main-long", metrics=("rot_err",))
    entry = {"rows": ("SCoPE", "UCPE")}
    assert judge(RUNS + other + longer, **entry) == ["holds", "holds", "does not hold"]
    assert judge(RUNS + other + longer, **entry, table="sfm") == ["holds"]
    assert judge(RUNS, **{**entry, "study": "mai"}) == []


def test_without_a_common_unit_the_rescaled_error_is_judged() -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("cam_mc_rescaled",))
    [judged] = judge_claims(runs, [Claim("It is so", "Table 1", "main", "cam_mc", ("SCoPE", "UCPE"))])
    assert judged.verdict == "holds" and judged.claim.metric == "cam_mc_rescaled"


def test_a_failed_row_says_why() -> None:
    runs = [*RUNS, RunResult("main", "ReRoPE", 0, "metre", failure="Heads of 24 channels are too narrow.")]
    [judged] = judge_claims(runs, [Claim("It is so", "Table 1", "main", "rot_err", ("SCoPE", "ReRoPE"))])
    assert judged.ours == "Heads of 24 channels are too narrow." and judged.verdict == "not measured"


def test_the_table_of_claims() -> None:
    tested = Claim("It turns well", "Table 1", "main", "rot_err", ("SCoPE", "UCPE"), paper=(0.085, 0.113))
    untested = Claim("It looks well", "Table 7", untested="needs VBench")
    judged = judge_claims(RUNS, [tested, untested], everything=True)
    assert summary_of(judged) == "2 tests of the paper's claims: 1 holds, 1 not measured."
    *_, first, second = claims_markdown(judged).splitlines()
    assert first.startswith("| It turns well | Table 1 | main, metre | RotErr (rad) ↓ | 0.")
    assert first.endswith("| 0.085 against 0.113 (-25 %) | holds |")
    assert second == "| It looks well | Table 7 | - | - | needs VBench | - | - | not measured |"
    assert len(judge_claims(RUNS, [tested, untested])) == 1


@pytest.mark.parametrize(
    "entry, message",
    [
        ({"metric": "beauty"}, "metric is 'beauty': expected one of"),
        ({"rows": ["SCoPE"]}, r"2 row\(s\) to expect 'better' of"),
        ({"expect": "similar"}, "limit: expected a number"),
        ({"expect": "wider", "table": "large"}, "than: expected a table"),
        ({"paper": [1.0]}, "as many figures"),
        ({"expect": "nicer"}, "expect"),
    ],
)
def test_wrong_claims_are_refused(entry: dict[str, Any], message: str, tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "claims.yaml"
    whole = {"claim": "a", "place": "b", "study": "main", "metric": "rot_err", "rows": ["a", "b"], **entry}
    file.write_text(yaml.safe_dump([whole]))
    with pytest.raises(SightlineError, match=message):
        read_claims(file)


def test_shipped_claims_name_rows_and_tables_of_shipped_studies() -> None:
    studies = {name: read_study(name) for name in {claim.study for claim in read_claims()} - {""}}
    for claim in read_claims():
        if claim.untested:
            continue
        study = studies[claim.study]
        assert claim.table is None or claim.table in study.tables, claim.claim
        assert claim.than is None or claim.than in study.tables, claim.claim
        for table, rows in ((claim.table, claim.rows), (claim.than, claim.than_rows)):
            for row in rows:
                assert row in study.rows, f"{claim.claim}: {row}"
                assert table is None or not study.rows[row].tables or table in study.rows[row].tables, claim.claim
