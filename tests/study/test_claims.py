"""The claims of the paper, and how results judge them."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest

from sightline.errors import SightlineError
from sightline.study.claims import TARGETS, Claim, Names, read_claims
from sightline.study.claims_table import claim_rows, claims_markdown, draw_claims, summary_of
from sightline.study.history import development
from sightline.study.judging import ClaimVerdict, judge_claims
from sightline.study.plan import Plan
from sightline.study.results import METRICS, RunResult
from sightline.study.show import judge_folders
from sightline.study.study import Study
from sightline.study.study_file import read_study, shipped_studies
from tests.study.examples import invent_runs

RUNS = invent_runs({"UCPE": 0.0, "SCoPE": 0.1, "twin": 0.1}, metrics=("loss", "rot_err"))


def judge(runs: list[RunResult] = RUNS, **entry: Any) -> list[ClaimVerdict]:
    claim = Claim("It is so", "Table 1", **{"study": "main", "metric": "rot_err", **entry})
    return [judged.verdict for judged in judge_claims(runs, [claim])]


def test_shipped_claims_are_complete() -> None:
    claims = read_claims()
    assert len(claims) > 40
    assert {claim.study for claim in claims} == {
        "", "main", "revisit", "pe-design", "components", "data", "efficiency", "scale", "scale-5b",
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


def test_not_worse() -> None:
    assert judge(rows=("SCoPE", "UCPE"), expect="not worse", limit=0.01) == ["holds"]
    assert judge(rows=("SCoPE", "twin"), expect="not worse", limit=0.01) == ["holds"]
    assert judge(rows=("UCPE", "SCoPE"), expect="not worse", limit=0.01) == ["does not hold"]
    assert judge(rows=("SCoPE", "twin"), expect="not worse", limit=1e-5) == ["not shown"]
    higher = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("psnr_moved",))
    verdicts = [
        judge(higher, rows=rows, metric="psnr_moved", expect="not worse", limit=0.01)
        for rows in (("SCoPE", "UCPE"), ("UCPE", "SCoPE"))
    ]
    assert verdicts == [["holds"], ["does not hold"]]


def test_claims_are_drawn_as_improvements(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Positive where the first row is better, whichever direction of the metric is."""
    drawn = []
    monkeypatch.setattr("sightline.study.claims_table.draw_intervals", lambda panels, file: drawn.extend(panels))
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("rot_err", "psnr_moved"))
    claims = [
        Claim("a", "Table 1", "main", metric, ("SCoPE", "UCPE"), paper=paper)
        for metric, paper in (("rot_err", (0.8, 1.0)), ("psnr_moved", ()))
    ]
    assert draw_claims(judge_claims(runs, claims), tmp_path / "claims.png")
    assert [panel.title for panel in drawn] == [
        "main, metre: RotErr (%)",
        "main, metre: PSNR where the view has moved (%)",
    ]
    for panel in drawn:
        (row,) = panel.rows
        assert row.value == pytest.approx(10, abs=0.5) and row.low < row.value < row.high and row.tone == "better"
    assert drawn[0].rows[0].points == [pytest.approx(20.0)]
    assert not draw_claims([], tmp_path / "claims.png")


def test_the_same_table_from_two_folders_is_refused(tmp_path: Path) -> None:
    study = shipped("debug")
    for name in ("one", "two"):
        plan = Plan(study, "debug", tmp_path / name)
        plan.write_study()
        RunResult("debug", "SCoPE", 0, "all", {"loss": ["a"]}, {"loss": [0.5]}).write(plan.folder / "runs/all_SCoPE/0")
    with pytest.raises(SightlineError, match="one both have results of debug, all: expected every table once"):
        judge_folders([tmp_path / "one", tmp_path / "two"])


def test_where_the_scalars_of_an_encoding_have_come_to() -> None:
    history = {
        "loss": [(10, 1.0)], "alpha_q/0": [(0, 0.0), (10, -0.3)], "alpha_k/0": [(10, 0.1)],
        "gate_at_0.1/0": [(10, 0.5)], "gate_at_10/0": [(0, 0.5), (10, 0.25)],
    }  # fmt: skip
    assert development(history) == {"alpha": pytest.approx(0.2), "gate_span": pytest.approx(0.25)}
    assert development({"loss": [(10, 1.0)]}) == {}


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


def test_studies_with_other_names() -> None:
    runs = invent_runs({"RE10K only": 0.0, "RE10K + DL3DV": 0.1}, study="data-5b", table="re10k", metrics=("cam_mc",))
    entry = {"study": "data", "metric": "cam_mc", "rows": ("+ orbit", "walkthrough only")}
    assert judge(runs, **entry) == []  # a variant tests the claims on rows that it has
    names = Names(rows=("RE10K + DL3DV", "RE10K only"))
    assert judge(runs, **entry, elsewhere={"data-5b": names}) == ["holds"]
    assert judge(runs, **entry, elsewhere={"data-5b": Names(names.rows, "another table")}) == []
    data = [claim for claim in judge_claims(runs) if claim.verdict == "holds"]
    assert [claim.claim.rows for claim in data] == [("RE10K + DL3DV", "RE10K only")]


def test_without_a_common_unit_the_rescaled_error_is_judged() -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("cam_mc_rescaled",))
    [judged] = judge_claims(runs, [Claim("It is so", "Table 1", "main", "cam_mc", ("SCoPE", "UCPE"))])
    assert judged.verdict == "holds" and judged.claim.metric == "cam_mc_rescaled"


def test_a_metric_without_a_value_says_so() -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, metrics=("rot_err",))
    for run in runs:
        run.metrics["rot_err"][:] = [None] * 6  # no camera was found
    [judged] = judge_claims(runs, [Claim("It is so", "Table 1", "main", "rot_err", ("SCoPE", "UCPE"))])
    assert judged.ours == "no value on any clip." and judged.verdict == "not measured"


def test_a_failed_row_says_why() -> None:
    runs = [*RUNS, RunResult("main", "ReRoPE", 0, "metre", failure="Heads of 24 channels are too narrow.")]
    [judged] = judge_claims(runs, [Claim("It is so", "Table 1", "main", "rot_err", ("SCoPE", "ReRoPE"))])
    assert judged.ours == "Heads of 24 channels are too narrow." and judged.verdict == "not measured"


def test_a_claim_is_named_once_for_all_of_its_tables() -> None:
    other = invent_runs({"UCPE": 0.0, "SCoPE": 0.1}, table="sfm", metrics=("rot_err",))
    claims = [Claim(text, "Table 1", "main", "rot_err", ("SCoPE", "UCPE")) for text in ("It turns well", "It turns")]
    rows = claim_rows(judge_claims([*RUNS, *other], claims))
    assert [row[:3] for row in rows] == [
        ["It turns well", "Table 1", "main, metre"],
        ["", "", "main, sfm"],
        ["It turns", "Table 1", "main, metre"],
        ["", "", "main, sfm"],
    ]


def test_a_difference_that_is_rounded_to_nothing_has_no_sign() -> None:
    runs = invent_runs({"UCPE": 0.0, "SCoPE": 0.0}, metrics=("rot_err",))
    for run in runs:
        run.metrics["rot_err"] = [1.0 - 1e-6 * (run.row == "SCoPE")] * 6
    [judged] = judge_claims(runs, [Claim("It turns well", "Table 1", "main", "rot_err", ("SCoPE", "UCPE"))])
    assert judged.difference.endswith("(0.0 %)")


def test_the_table_of_claims() -> None:
    tested = Claim("It turns well", "Table 1", "main", "rot_err", ("SCoPE", "UCPE"), paper=(0.085, 0.113))
    untested = Claim("It looks well", "Table 7", untested="needs VBench")
    judged = judge_claims(RUNS, [tested, untested], everything=True)
    assert summary_of(judged) == "2 tests of the paper's claims: 1 holds, 1 not measured."
    assert summary_of([*judged, judged[0]]).endswith("3 tests of the paper's claims: 2 hold, 1 not measured.")
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
        ({"elsewhere": {"main-5b": {"rows": ["a"]}}}, r"elsewhere.main-5b.rows: expected 2 row\(s\)"),
    ],
)
def test_wrong_claims_are_refused(entry: dict[str, Any], message: str, tmp_path: Path) -> None:
    import yaml

    file = tmp_path / "claims.yaml"
    whole = {"claim": "a", "place": "b", "study": "main", "metric": "rot_err", "rows": ["a", "b"], **entry}
    file.write_text(yaml.safe_dump([whole]))
    with pytest.raises(SightlineError, match=message):
        read_claims(file)


@functools.cache
def shipped(name: str) -> Study:
    return read_study(name)


def fits(claim: Claim, study: Study) -> bool:
    """Whether a study has the rows and tables that a claim names."""
    names = [(claim.table, claim.rows), (claim.than, claim.than_rows)]
    return all(
        (table is None or table in study.tables)
        and row in study.rows
        and (table is None or not study.rows[row].tables or table in study.rows[row].tables)
        for table, rows in names
        for row in rows
    )


def test_shipped_claims_name_rows_and_tables_of_shipped_studies() -> None:
    for claim in (*read_claims(), *read_claims(TARGETS)):
        if not claim.untested:
            for name in (claim.study, *claim.elsewhere):
                assert fits(claim.as_in(name), shipped(name)), f"{claim.claim}: {name}"


NOT_ON_5B = {  # claims of a study that its variant for real models does not test: they need other rows, or videos
    "main": 2,  # training without a camera
    "components": 2,  # the same clips in two units
    "data": 2,  # training without Normalize-Gate-Inject
    "scale": 4,  # pose errors: the experts of 14B are trained apart and make no videos
}


@pytest.mark.parametrize("name", [name for name in shipped_studies() if name.endswith("-5b")])
def test_studies_of_real_models_test_the_claims(name: str) -> None:
    study, lab = shipped(name), name.removesuffix("-5b")
    claims = [claim.as_in(name) for claim in read_claims() if claim.study in (lab, name)]
    tested = [claim for claim in claims if fits(claim, study)]
    assert len(claims) - len(tested) == NOT_ON_5B.get(lab, 0)
    assert tested
    for claim in tested:
        group = METRICS[claim.metric].group if claim.metric in METRICS else None
        assert group is None or group in study.measure.groups, claim.claim
