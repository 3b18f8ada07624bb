"""benchmarks/study_on_gpu.py, with studies that take no time: what it keeps, and that it goes on from it."""

from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

from sightline.study.plan import Plan
from sightline.study.results import RunResult

SCRIPT = Path(__file__).parents[2] / "benchmarks/study_on_gpu.py"
# Instead of Python: `study run` copies a folder and says whether something is left, and `study claims` does nothing.
FAKE = """#!/usr/bin/env bash
case "$*" in
    "-m sightline study run "*)
        cp -r "$FOLDER/template/." "$7"; echo "$5 $*" >>"$FOLDER/calls"; cat "$FOLDER/printed"; eval "$ALSO" ;;
esac
"""


@pytest.fixture
def folder(small, tmp_path):
    study = dataclasses.replace(small, rows={"SCoPE": small.rows["SCoPE"]}, seeds=(0,))
    plan = Plan(study, "one", tmp_path / "template")
    plan.write_study()
    RunResult("one", "SCoPE", 0, "all").write(plan.folder / "runs/all_SCoPE/0")
    (tmp_path / "printed").write_text("")
    for name in (
        "bases/base/transformer/a.safetensors",
        "bases/base/run/b",
        "clips/c",
        "runs/all_SCoPE/0/checkpoints/d",
    ):
        (plan.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (plan.folder / name).write_bytes(bytes(2**20))
    (tmp_path / "python").write_text(FAKE)
    (tmp_path / "python").chmod(0o755)
    return tmp_path


def call(folder: Path, work: str, *kept: Path, **settings: str) -> str:
    environment = {
        **os.environ, "ALSO": "", "PYTHON": str(folder / "python"), "FOLDER": str(folder), "WORK": str(folder / work),
        "STUDIES": "one two.yaml", **settings,
    }  # fmt: skip
    arguments = [sys.executable, str(SCRIPT), str(folder / f"out-{work}"), "3000", *map(str, kept)]
    return subprocess.run(arguments, env=environment, capture_output=True, text=True, check=True).stdout


def kept_of(folder: Path, work: str) -> set[str]:
    parts = sorted((folder / f"out-{work}").glob("kept.tar.gz.*"))
    (folder / "whole.tar.gz").write_bytes(b"".join(part.read_bytes() for part in parts))
    with tarfile.open(folder / "whole.tar.gz") as file:
        return {name for name in file.getnames() if file.getmember(name).isfile()}


def test_it_keeps_what_is_needed_and_goes_on_elsewhere(folder: Path) -> None:
    (folder / "printed").write_text("trainings left: 1; the same command continues.\n")
    assert "2 of 2 studies are left" in call(folder, "first")
    small = {f"{name}/{file}" for name in ("one", "two") for file in ("study.json", "runs/all_SCoPE/0/result.json")}
    assert kept_of(folder, "first") == small | {"one/bases/base/transformer/a.safetensors"}  # every base once
    (folder / "printed").write_text("")
    assert "nothing is left" in call(folder, "second", folder / "out-first")
    calls = (folder / "calls").read_text().splitlines()
    assert [line.split()[0] for line in calls] == ["one", "two.yaml"] * 2
    assert f"--reuse {folder / 'second/one'}" in calls[-1] and "--reuse" not in calls[-2]
    assert "nothing is left" in call(folder, "third", folder / "out-second")
    assert len((folder / "calls").read_text().splitlines()) == len(calls)  # both were finished


def test_results_of_a_base_that_is_too_large_to_keep_are_left_out_until_their_study_is_finished(folder: Path) -> None:
    (folder / "printed").write_text("trainings left: 1; the same command continues.\n")
    call(folder, "first", BASE_MIB="0.5")
    assert kept_of(folder, "first") == {"one/study.json", "two/study.json"}
    (folder / "printed").write_text("")
    call(folder, "first", BASE_MIB="0.5")
    assert {f"{name}/runs/all_SCoPE/0/result.json" for name in ("one", "two")} < kept_of(folder, "first")


def test_processes_that_a_study_leaves_are_ended(folder: Path) -> None:
    """Those of a study that crashed would keep the GPU, and the command would wait for what they print."""
    call(folder, "first", STUDIES="one", ALSO='(sleep 20; touch "$FOLDER/survived") &')
    assert not (folder / "survived").exists()
