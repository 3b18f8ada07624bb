"""result.json: what is written is read again, and damaged files are refused in one sentence."""

from __future__ import annotations

import json

import pytest

from sightline.errors import SightlineError
from sightline.study.results import RunResult, read_result, read_results, scene_of

RESULT = RunResult(
    study="main",
    row="SCoPE",
    seed=1,
    table="metres",
    clips={"loss": ["orbit-1", "orbit-2"], "revisit": ["orbit-1/loop_truck"]},
    metrics={"loss": [0.5, None], "return_ratio": [0.25]},
    cost={"steps": 3.0, "new_parameters": 74.0},
    learning_rate=1e-3,
    history={"alpha_q/0": [(0, 0.0), (10, 0.125)]},
    facts={"reciprocal_share": 0.3},
)


def test_what_is_written_is_read_again(tmp_path):
    failed = RunResult("main", "UCPE", 1, "metres", failure="heads is 3: expected a multiple of ratio 8.")
    RESULT.write(tmp_path / "runs/b/1")
    failed.write(tmp_path / "runs/a/1")
    assert read_results(tmp_path) == [failed, RESULT]


def test_the_mean_is_over_the_clips_that_could_be_measured():
    assert RESULT.mean("loss") == 0.5
    assert RESULT.mean("psnr_moved") is None


def test_loops_of_one_first_frame_are_one_scene():
    assert scene_of("orbit-1/loop_truck") == scene_of("orbit-1/loop_orbit") == scene_of("orbit-1") == "orbit-1"


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"metrics": {"loss": [0.5]}}, "metrics.loss has 1 values: expected 2, one per clip."),
        ({"metrics": {"speed": [0.5]}}, "metrics has 'speed': expected some of loss"),
        ({"history": {"loss": [[1, "a"]]}}, "history.loss[0] is 'a': expected"),
        ({"history": {"loss": [[1, 2, 3]]}}, "history.loss[0] is a list of 3: expected a list of 2"),
        ({"seed": None}, "seed is None: expected a whole number"),
    ],
)
def test_a_damaged_result_is_refused_in_one_sentence(tmp_path, change, sentence):
    file = RESULT.write(tmp_path)
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with pytest.raises(SightlineError) as error:
        read_result(file)
    assert sentence in str(error.value)
