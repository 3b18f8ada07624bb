"""One clip that fails, two commands on one folder, and names that must not become paths."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from sightline import cli
from sightline.data.clip_spec import ClipSpec
from sightline.errors import SightlineError
from sightline.evaluation import report, vbench
from sightline.evaluation import run as running
from sightline.evaluation.cases import Selection, StandardCases
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.results import ClipResult, Counts, RunResults, read_result, write_result
from tests.data.conftest import make_take
from tests.data.layouts import write_dl3dv
from tests.evaluation.test_compare import SETTINGS

SMALL = "--num-frames 5 --size 64x64 --num-inference-steps 1 --guidance-scale 1 --metrics psnr --clips 3 -o out"


@pytest.fixture
def evaluate(model_folder, oracle, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(running, "draw_trajectories", lambda paths, file, *_: Path(file).touch())
    monkeypatch.setattr(report, "draw_plots", lambda *_: [])
    place = ["--model", str(model_folder / "model"), "--camera", str(model_folder / "one")]
    return lambda: cli.main(["evaluate", "standard", *place, *SMALL.split()])


def test_any_failure_of_one_clip_is_one_failed_clip_and_is_tried_again(evaluate, monkeypatch, capsys):
    def fails_at(real, call, error):
        def failing(*arguments, **options):
            calls.append(0)
            if len(calls) == call:
                raise error
            return real(*arguments, **options)

        calls = []
        return failing

    generate, score = running.generate, Suite.score
    monkeypatch.setattr(running, "generate", fails_at(generate, 1, ZeroDivisionError("while generating")))
    monkeypatch.setattr(Suite, "score", fails_at(score, 2, TypeError("while scoring")))
    assert evaluate() == cli.FAULT
    assert "2 of 3 clips were not generated or not scored, such as walkthrough-00900000-0" in capsys.readouterr().err
    results = read_result(RunResults, Path("out/results.json"))
    assert [[(failure.stage, failure.message) for failure in clip.failures] for clip in results.clips] == [
        [("generation", "an unexpected ZeroDivisionError (while generating): expected none; please report it.")],
        [],
        [("scoring", "an unexpected TypeError (while scoring): expected none; please report it.")],
    ]
    assert Path("out/clips/walkthrough-00900002-0/generated.mp4").is_file()  # the video is kept
    assert evaluate() == 0
    assert read_result(RunResults, Path("out/results.json")).failures == []


def test_a_second_command_is_refused_at_once(evaluate, monkeypatch, capsys):
    def second(*_, **__):
        outcomes.append(evaluate())
        raise KeyboardInterrupt

    outcomes = []
    monkeypatch.setattr(running, "generate", second)
    assert evaluate() == cli.INTERRUPTED and outcomes == [cli.FAULT]
    assert "out is being written by another command (process" in capsys.readouterr().err


def test_scenes_whose_names_look_alike_have_folders_of_their_own(tmp_path):
    for index, name in enumerate(("a/b", "a b", "a_b")):
        write_dl3dv(tmp_path, make_take(name, 5, index))
    spec = ClipSpec(5, width=32, height=32)
    cases = StandardCases(Selection((f"dl3dv:{tmp_path}",), 3, "all", 0.0, spec))
    assert sorted(cases.names) == ["dl3dv-1K_a_b-0", "dl3dv-1K_a_b-0-2", "dl3dv-1K_a_b-0-3"]


def write_run(folder, label, name="clip"):
    clip = ClipResult(name, name)
    results = RunResults(label, "standard", SETTINGS, Counts(1, 1, 1, 0, 0), {}, {}, {}, [clip])
    write_result(folder / "results.json", results)
    for file in ("generated.mp4", "true.mp4"):
        (folder / "clips" / name).mkdir(parents=True, exist_ok=True)
        (folder / "clips" / name / file).write_text(f"{file} of {label}")


def test_labels_become_folders_inside_the_output(tmp_path):
    output = tmp_path / "out"
    output.mkdir()
    (output / "precious.txt").write_text("stays")
    labels = ["..", "GT", ".", "a/b", "a b", "/etc"]
    for index, label in enumerate(labels):
        write_run(tmp_path / f"run{index}", label)
    videos = vbench.collect([tmp_path / f"run{index}" for index in range(len(labels))], output)
    assert set(videos) == {"GT", "..", "GT 2", ".", "a/b", "a b", "/etc"}
    assert (output / "precious.txt").read_text() == "stays"
    assert sorted(path.name for path in (output / "videos").iterdir()) == [
        "GT", "GT_2", "_", "_-2", "_etc", "a_b", "a_b-2",
    ]  # fmt: skip
    for label, each in videos.items():
        wanted = "true.mp4 of .." if label == "GT" else f"generated.mp4 of {label.removesuffix(' 2')}"
        assert (each.folder / "clip.mp4").read_text() == wanted


@pytest.mark.parametrize("name", ["../../x", "/tmp/x", "..", "", "a/b", ".hidden"])
def test_a_clip_s_name_that_is_no_name_is_refused(tmp_path, name):
    write_run(tmp_path / "run", "ours")
    file = tmp_path / "run" / "results.json"
    document = json.loads(file.read_text())
    document["clips"][0]["name"] = name
    file.write_text(json.dumps(document))
    with pytest.raises(SightlineError, match=r"the name of a clip is .*: expected letters, digits"):
        vbench.collect([tmp_path / "run"], tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_finished_run_is_refused_once_its_weights_are_replaced(evaluate, model_folder, monkeypatch, capsys):
    monkeypatch.setattr(running, "generate", lambda *_, **__: np.zeros((5, 64, 64, 3), np.uint8))
    assert evaluate() == 0
    weights = next((model_folder / "one").glob("*.safetensors"))
    before = weights.read_bytes()
    weights.write_bytes((model_folder / "two" / weights.name).read_bytes())
    try:
        assert evaluate() == cli.FAULT
    finally:
        weights.write_bytes(before)
    assert "out holds a run with model_files" in capsys.readouterr().err
