"""Which clips of a run are still to be judged when it is started again."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.evaluation.compare import read_runs
from sightline.evaluation.results import Counts, RunResults, Sampling, to_json
from sightline.evaluation.run import Run, refuse_run_folder
from tests.evaluation.test_compare import SETTINGS


def write_scores(tmp_path, name, content):
    folder = tmp_path / "clips" / name
    folder.mkdir(parents=True)
    (folder / "scores.json").write_text(content)


@pytest.mark.parametrize("estimator, waiting", [("direct", [1, 3, 4]), ("given?path=poses", [1, 2, 3, 4])])
def test_what_is_damaged_unfilmed_or_waits_for_a_file_is_judged_again(tmp_path, estimator, waiting):
    def failed(stage):
        return json.dumps({"name": "x", "group": "x", "failures": [{"stage": stage, "message": "why"}]})

    contents = {
        "done": '{"name": "x", "group": "x", "failures": []}',
        "film": failed("generation"),
        "pose": failed("pose of the generated video"),
    }
    contents |= {"cut": '{"failures": [', "empty": "{}"}
    for name, content in contents.items():
        write_scores(tmp_path, name, content)
    run = Run("standard", tmp_path, SimpleNamespace(names=list(contents)), Sampling(1, 1.0), None, estimator)
    assert run.pending() == waiting


def test_a_summary_is_not_written_over_a_run(tmp_path):
    refuse_run_folder(tmp_path)
    (tmp_path / "settings.json").write_text("{}")
    with pytest.raises(SightlineError, match="holds a run: expected another -o"):
        refuse_run_folder(tmp_path)


def test_runs_of_other_clips_or_without_their_parts_are_not_compared(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
        settings = replace(SETTINGS, cases=replace(SETTINGS.cases, names_digest=json_digest([name])))
        document = to_json(RunResults(name, "standard", settings, Counts(0, 0, 0, 0, 0), {}, {}, {}, []))
        if name == "c":
            del document["settings"]
        (tmp_path / name / "results.json").write_text(json.dumps(document))
    with pytest.raises(SightlineError, match="b has names_digest"):
        read_runs([tmp_path / "a", tmp_path / "b"])
    with pytest.raises(SightlineError, match="has no settings: expected the results"):
        read_runs([tmp_path / "a", tmp_path / "c"])
