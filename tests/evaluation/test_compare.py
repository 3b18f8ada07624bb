"""Runs beside each other, what a video costs, and VBench's own results: known answers."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from sightline import cli
from sightline.errors import SightlineError
from sightline.evaluation import compare, efficiency, vbench
from sightline.evaluation.gather import mean_scores
from sightline.evaluation.results import (
    CaseSettings,
    ClipResult,
    Counts,
    Failure,
    RunResults,
    RunSettings,
    Sampling,
    VideoScores,
    write_result,
)

RANDOM = np.random.default_rng(0)
CASES = CaseSettings(
    sources=[{"name": "walkthrough"}], clips=12, names_digest="", part="all", held_out=None, num_frames=5, stride=1,
    width=64, height=64, near_depth=False, with_caption=12, default_caption="a video", unreadable_shots=0,
)  # fmt: skip
SETTINGS = RunSettings(
    protocol="standard", model="the lab model", camera=None, dtype="float32", sampling=Sampling(1, 1.0), cases=CASES,
    estimator="direct", against="trajectory", metrics=["psnr"], left_out={}, weights={}, sightline="0",
)  # fmt: skip


def changed(name, value):
    """The settings with another value of one, wherever it belongs."""
    for part in ("sampling", "cases"):
        if hasattr(getattr(SETTINGS, part), name):
            return replace(SETTINGS, **{part: replace(getattr(SETTINGS, part), **{name: value})})
    return replace(SETTINGS, **{name: value})


def write_run(folder, errors, label="run", failed=(), groups=None, settings=SETTINGS):
    """A run whose clips have these rotation errors; a failed clip has none."""
    clips = []
    for number, error in enumerate(errors):
        scores = {} if number in failed else {"rot_err_raw": float(error), "psnr": 20 + 0.001 * number}
        failures = [Failure("pose of the generated video", "lost")] if number in failed else []
        group = f"clip{number}" if groups is None else f"image{groups[number]}"
        clips.append(
            ClipResult(
                f"clip{number}",
                group,
                "walkthrough",
                "a <room>",
                num_frames=5,
                generated=VideoScores(scores),
                failures=failures,
            )
        )
    counts = Counts(len(clips), len(clips), len(clips) - len(failed), len(failed), 0)
    means = mean_scores(clips, [clip.generated for clip in clips])
    write_result(folder / "results.json", RunResults(label, "standard", settings, counts, means, {}, {}, clips))
    return folder


def test_a_small_difference_on_every_clip_is_seen_through_a_large_spread(tmp_path, capsys):
    errors = RANDOM.uniform(0.1, 1.0, 12)
    paths = [
        write_run(tmp_path / "a", errors, "a"),
        write_run(
            tmp_path / "b",
            errors - 0.02 + RANDOM.normal(0, 0.005, 12),
            "b",
            failed=(3,),
            settings=changed("num_inference_steps", 2),
        ),
        write_run(tmp_path / "c", RANDOM.permutation(errors), "c"),
    ]
    assert cli.main(["evaluate", "compare", *map(str, paths), "-o", str(tmp_path / "out")]) == 0
    told = capsys.readouterr().out
    rows = {
        (one["key"], one["run"]): one for one in json.loads((tmp_path / "out/compare.json").read_text())["differences"]
    }
    closer, shuffled = rows["rot_err_raw", "b"], rows["rot_err_raw", "c"]
    assert closer["significant"] and closer["n"] == 11 and closer["difference"] == pytest.approx(-0.02, abs=0.004)
    low, high = closer["difference_interval"]
    assert low < closer["difference"] < high < 0 and not shuffled["significant"]
    assert not rows["psnr", "b"]["significant"]  # equal on every clip
    assert rows["failed", "b"]["n"] == 12 and rows["failed", "b"]["difference"] == pytest.approx(1 / 12)
    assert "| clips without a pose ↓ | b | 12 of 12 | 0.08333 |" in told
    assert "| b | 11 of 12 |" in told and "| better |" in told and "not significant" in told
    assert "| 12 | 11 | 1 |" in told and "b, clip3, pose of the generated video: lost" in told
    assert "The runs differ in num_inference_steps: a 1, b 2, c 1." in told
    page = (tmp_path / "out/compare.html").read_text()
    assert page.count('class="clip"') == 12 and "a &lt;room&gt;" in page and "<room>" not in page


def test_clips_of_one_image_are_one_and_few_pairs_are_never_significant(tmp_path):
    errors = RANDOM.uniform(0.1, 1.0, 12)
    runs = compare.read_runs([
        write_run(tmp_path / "a", errors, groups=np.arange(12) // 4),
        write_run(tmp_path / "b", errors - 0.05, groups=np.arange(12) // 4),
    ])  # fmt: skip
    assert [run.label for run in runs] == ["a", "b"]  # told apart by their folders
    again = compare.read_runs([tmp_path / "a", write_run(tmp_path / "other" / "a", errors)])
    assert [run.label for run in again] == ["run 1", "run 2"]
    none, row = compare.differences(runs)[:2]
    assert none.key == "failed" and none.mean == none.difference == 0 and not none.significant
    assert row.n == 3 and row.difference == pytest.approx(-0.05) and not row.significant


def test_the_interval_covers_the_mean_as_often_as_it_says():
    covered = 0
    for trial in range(200):
        low, high = compare.bootstrap(np.random.default_rng(trial).normal(1.0, 2.0, 40), seed=trial, resamples=500)
        covered += low <= 1.0 <= high
    assert 180 <= covered <= 199  # 95 % of 200, a little less for a percentile interval


def test_runs_that_did_something_else_are_refused(tmp_path):
    first = write_run(tmp_path / "a", [0.1])
    for number, (name, value) in enumerate([("estimator", "colmap"), ("clips", 3), ("num_frames", 9)]):
        with pytest.raises(SightlineError, match=f"has {name}"):
            compare.read_runs([first, write_run(tmp_path / str(number), [0.1], settings=changed(name, value))])


VIDEO = "--num-frames 5 --size 64x64 --num-inference-steps 3"


def test_efficiency_measures_several_methods_by_one_command_and_runs_are_compared(model_folder, tmp_path, capsys):
    own, others = tmp_path / "own", tmp_path / "others"
    line = ["evaluate", "efficiency", "--model", str(model_folder / "model"), *VIDEO.split(), "--guidance-scale", "1"]
    assert cli.main([*line, "--camera", str(model_folder / "one"), "--runs", "2", "-o", str(own)]) == 0
    found = json.loads((own / "results.json").read_text())
    (method,) = found["methods"]
    assert [len(steps) for steps in method["seconds_of_each_step"]] == [3, 3] and method["encoding"] == "scope"
    assert 0 < method["step_seconds"]["mean"] < float("inf") and 0 < method["peak_gb"] < 100
    told = capsys.readouterr().out
    assert "Peak memory (GB)" in told and "1 pass a step" in told and "| one | Additive Q/K injection |" in told

    methods = ["--methods", "scope?gate_hidden=4", "cameractrl", str(model_folder / "two"), "stock"]
    assert cli.main([*line, *methods, "-o", str(others)]) == 0
    found = json.loads((others / "results.json").read_text())
    assert [one["encoding"] for one in found["methods"]] == ["scope", "cameractrl", "scope", "stock"]
    assert [one["label"] for one in found["methods"]] == ["scope?gate_hidden=4", "cameractrl", "two", "stock"]
    assert found["settings"]["paper"] is None and not any(one["failure"] for one in found["methods"])

    capsys.readouterr()
    assert cli.main(["evaluate", "compare", str(own), str(others), "-o", str(tmp_path / "both")]) == 0
    told = capsys.readouterr().out
    assert told.count("\n| ") == 7 and "over one" in told and "compare.md" in told
    ratios = json.loads((tmp_path / "both/compare.json").read_text())["over_first"]
    assert ratios[0] == 1 and len(ratios) == 5
    assert f"The runs differ in videos: {own} 2, {others} 1." in told  # of other steps or passes it would say so, too
    assert f"The sentence above the table is about {own}." in told
    run = write_run(tmp_path / "run", [0.1])
    assert cli.main(["evaluate", "compare", str(own), str(run), "-o", str(tmp_path / "no")]) == cli.FAULT
    assert "efficiency runs are given with runs of another protocol" in capsys.readouterr().err
    content = json.loads((others / "results.json").read_text())
    content["settings"]["num_frames"] = 9
    (others / "results.json").write_text(json.dumps(content))
    assert cli.main(["evaluate", "compare", str(own), str(others), "-o", str(tmp_path / "no")]) == cli.FAULT
    assert "has num_frames 9: expected 5" in capsys.readouterr().err
    assert cli.main([*line, "--methods", "ucpee", "-o", str(tmp_path / "no")]) == cli.FAULT
    assert "methods has 'ucpee'" in capsys.readouterr().err


def test_efficiency_by_the_paper_s_protocol_has_its_methods_steps_and_guidance(
    model_folder, tmp_path, capsys, monkeypatch
):
    asked = []
    real = efficiency.generate
    monkeypatch.setattr(
        efficiency, "generate", lambda *a, **k: asked.append(k) or real(*a, **{**k, "num_inference_steps": 2})
    )
    line = f"evaluate efficiency --protocol paper --model {model_folder / 'model'} --size 64x64 --num-frames 5 --no-warm-up"
    assert cli.main([*line.split(), "-o", str(tmp_path / "out")]) == cli.FAULT
    found = json.loads((tmp_path / "out/results.json").read_text())
    assert [one["label"] for one in found["methods"]] == ["ucpe", "prope", "scope"]
    # The heads of the tiny model are too few for one and too narrow for the other: the last one goes on, and the exit code tells.
    ucpe, prope, scope = (one["failure"] for one in found["methods"])
    assert "heads" in ucpe and "multiple of 8" in prope and scope is None
    assert (asked[0]["num_inference_steps"], asked[0]["guidance_scale"]) == (50, 5.0)
    assert found["settings"]["paper"]["deviations"] == [
        "size is 64x64, the paper's 832x480",
        "num_frames is 5, the paper's 81",
        "the model is another than the paper's Wan-AI/Wan2.2-TI2V-5B-Diffusers",
    ]
    told, error = capsys.readouterr()
    assert "2 passes a step" in told and "num_frames is 5, the paper" in told
    assert "2 of 3 methods were not measured, such as ucpe" in error


def vbench_results(file, value):
    one = [{"video_path": f"{number}.mp4", "video_results": value} for number in range(3)]
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({name: [value, one] for name in vbench.DIMENSIONS}))
    return file


def test_vbench_s_own_results_make_the_table_with_the_real_videos_first(tmp_path, capsys):
    ours, real = vbench_results(tmp_path / "ours.json", 0.9), vbench_results(tmp_path / "real.json", 0.95)
    line = ["--results", f"scope={ours}", f"GT={real}", "-o", str(tmp_path / "out")]
    assert cli.main(["evaluate", "vbench", *line]) == 0
    rows = [one for one in capsys.readouterr().out.splitlines() if one.startswith("| ")]
    assert rows[2].startswith("| GT | 0.95 |") and rows[3].startswith("| scope | 0.9 |")
    (tmp_path / "ours.json").write_text('{"subject_consistency": [0.5, []]}')
    assert cli.main(["evaluate", "vbench", *line]) == cli.FAULT
    assert "found no number for background_consistency" in capsys.readouterr().err


def test_vbench_runs_in_its_own_environment_or_says_why_not(tmp_path, capsys):
    run = write_run(tmp_path / "run", [0.1, 0.2, 0.3], "scope")
    for name in ("clip0", "clip1"):
        (run / "clips" / name).mkdir(parents=True)
        for video in ("generated.mp4", "true.mp4"):
            (run / "clips" / name / video).write_bytes(b"video")
    environment, output = tmp_path / "environment", tmp_path / "out"
    python = environment / "bin" / "python"
    python.parent.mkdir(parents=True)
    (environment / "ready").touch()
    # In the place of the package: writes what it writes, for as many videos as it is given.
    python.write_text(
        f"#!{sys.executable}\nimport json, os, sys\n_, _, videos, name, output, device, names = sys.argv[1:]\n"
        "entries = [[f, 1] for f in os.listdir(videos)]\n"
        "document = {d: [0.5, entries] for d in json.loads(names)}\n"
        "open(f'{output}/{name}_eval_results.json', 'w').write(json.dumps(document))\n"
    )
    python.chmod(0o755)
    line = ["evaluate", "vbench", str(run), "--environment", str(environment), "-o", str(output)]
    assert cli.main(line) == 0
    told = capsys.readouterr().out
    assert told.count("| 3 | 2 | 1 |") == 2 and told.index("| GT |") < told.index("| scope |")
    assert sorted(os.listdir(output / "videos" / "GT")) == ["clip0.mp4", "clip1.mp4"]

    python.write_text("#!/bin/sh\necho 'cannot reach the hub.' >&2\nexit 3\n")
    assert cli.main([*line[:-1], str(tmp_path / "again")]) == cli.FAULT
    assert "which needs its weights" in (error := capsys.readouterr().err) and "(cannot reach the hub)" in error
    failing = tmp_path / "python"
    failing.write_text("#!/bin/sh\necho no venv >&2\nexit 1\n")
    failing.chmod(0o755)
    other = ["--environment", str(tmp_path / "new"), "--python", str(failing)]
    assert cli.main(["evaluate", "vbench", str(run), *other, "-o", str(tmp_path / "third")]) == cli.FAULT
    assert "an environment for VBench cannot be made (no venv)" in capsys.readouterr().err
    assert not Path(tmp_path / "new" / "ready").exists()


@pytest.mark.parametrize(
    "change", [{"guidance_scale": float("nan")}, {"seed": -5}, {"camera_guidance_scale": float("inf")}]
)
def test_sampling_that_no_clip_can_have_is_refused(change):
    with pytest.raises(SightlineError, match=f"{next(iter(change))} is "):
        replace(Sampling(1, 1.0), **change)
