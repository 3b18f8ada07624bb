"""The worker: tasks in order, progress, cancelling, failures, and a process that is killed."""

from __future__ import annotations

import json
import os
import signal
import sys

import numpy as np
import pytest

from sightline.generation.model_options import ModelOptions
from sightline.studio.film_job import film_job, keep_depth
from sightline.studio.session import Session
from sightline.studio.worker import Worker
from tests.studio.stand_in import Recorder, stand_in_worker


@pytest.fixture
def worker():
    worker = stand_in_worker()
    yield worker
    worker.close()


def test_tasks_run_in_order_and_a_failure_does_not_stop_the_next(worker):
    seen = Recorder()
    tasks = [worker.submit(kind, {"n": n}, seen) for n, kind in enumerate(("work", "fail", "work"))]
    ends = [task.wait(60) for task in tasks]
    assert [end["event"] for end in ends] == ["done", "failed", "done"]
    assert ends[2]["result"] == {"n": 2} and ends[1]["sentence"] == "it did not work."


def test_a_killed_process_fails_its_task_and_the_next_starts_another(worker):
    seen = Recorder()
    task = worker.submit("hang", {}, seen)
    assert seen.progress.wait(60)
    process = worker._process
    os.kill(process.pid, signal.SIGKILL)
    end = task.wait(60)
    assert end["event"] == "failed" and "signal 9" in end["sentence"]
    assert worker.submit("work", {}).wait(60)["event"] == "done"
    assert worker._process is not process and process.stdin.closed and process.stdout.closed


def test_cancelling_what_runs_and_what_waits(worker):
    seen = Recorder()
    running, waiting = worker.submit("hang", {}, seen), worker.submit("work", {})
    assert waiting.last_event["ahead"] == 1
    assert seen.progress.wait(60)
    worker.cancel(waiting)
    assert waiting.wait(60)["event"] == "cancelled"
    worker.cancel(running)
    assert running.wait(60)["event"] == "cancelled"


def test_a_task_that_waits_hears_when_it_moves_up(worker):
    started, watched = Recorder(), Recorder()
    first = worker.submit("hang", {}, started)
    assert started.progress.wait(60)
    second, third = worker.submit("hang", {}), worker.submit("work", {}, watched)
    assert watched.events == [{"event": "queued", "ahead": 2}]
    worker.cancel(second)
    assert watched.events[-1] == {"event": "queued", "ahead": 1}
    worker.cancel(first)
    third.wait(60)
    assert watched.kinds == ["queued", "queued", "progress", "done"]


def test_the_threads_of_the_process_sleep_while_they_wait_unless_the_user_says_otherwise(monkeypatch):
    echo = (
        "import json, os, sys; sys.stdin.readline(); sys.stdin.readline(); print(json.dumps({'id': 1, 'event': 'done', "
    )
    command = [sys.executable, "-c", f"{echo}'result': os.environ['OMP_WAIT_POLICY']}}), flush=True); sys.stdin.read()"]
    for given, found in ((None, "PASSIVE"), ("ACTIVE", "ACTIVE")):
        monkeypatch.delenv("OMP_WAIT_POLICY", raising=False)
        if given:
            monkeypatch.setenv("OMP_WAIT_POLICY", given)
        worker = Worker(ModelOptions(), command)
        assert worker.submit("work", {}).wait(60)["result"] == found
        worker.close()


def test_a_closed_worker_takes_no_task():
    worker = stand_in_worker()
    worker.close()
    assert worker.submit("work", {}).wait(60)["event"] == "cancelled"


def test_closing_ends_the_process_and_everything_that_waits():
    worker, seen = stand_in_worker(), Recorder()
    tasks = [worker.submit("hang", {}, seen), worker.submit("work", {})]
    assert seen.progress.wait(60)
    process = worker._process
    worker.close()
    assert [task.wait(60)["event"] for task in tasks] == ["cancelled", "cancelled"]
    assert process.poll() is not None and process.stdin.closed and process.stdout.closed


def test_a_page_that_is_gone_does_not_disturb_the_worker(worker):
    def broken(event):
        raise RuntimeError("the page was closed")

    assert worker.submit("work", {}, broken).wait(60)["event"] == "done"


def test_the_real_process_makes_a_film_reads_a_token_and_the_weights_and_survives_a_bad_job(tmp_path):
    """A tiny untrained model, with everything as in the studio: the film's own settings, terms and layers come back."""
    import sightline as sl
    from sightline.backbones.model_info import ModelInfo
    from sightline.backbones.tiny import tiny_pipeline
    from sightline.studio.inspector import LayersView, TokenQuery, TokenView, pack
    from sightline.studio.library import Library
    from tests.conftest import wake

    pipe = sl.attach_camera(tiny_pipeline("ti2v-5b"), sl.encodings.Sweep())
    wake(pipe.transformer)
    sl.save_pipeline_camera(pipe, tmp_path / "camera")
    library = Library(tmp_path / "films")
    session = Session(ModelInfo.of(pipe), num_frames=5, width=64, height=64)
    session.set_move("truck:0.2")
    worker = Worker(ModelOptions("tiny:ti2v-5b", tmp_path / "camera"))
    try:
        job = film_job(
            session, library, library.new_folder("../a film"), seed=3, num_inference_steps=2, prompt="a room"
        )
        events = []
        made = {**job.settings(), "output": str(job.output), "depth": keep_depth(session, library)}
        cancelled = worker.submit("generate", made)
        worker.cancel(cancelled)  # while the process still imports torch
        assert cancelled.wait(300)["event"] == "cancelled" and library.names() == []
        end = worker.submit("generate", made, events.append).wait(300)
        assert end["event"] == "done", end
        assert end["result"]["name"] == "a_film" and library.names() == ["a_film"]
        assert [event["step"] for event in events if event["event"] == "progress"] == [0, 1, 2]
        assert library.film("a_film").depth == {"source": "plane", "distance": 2.0, "file": None, "model": None}
        assert any(event.get("picture", "").startswith("data:image/jpeg") for event in events)
        again = worker.submit("generate", made).wait(300)
        assert again["event"] == "failed" and "exists" in again["sentence"]
        seen = Recorder()
        asked = {"folder": str(job.output), "depth": pack(np.full((64, 64), 2.0, np.float32))}
        end = worker.submit("estimate", asked, seen).wait(300)
        assert end["event"] == "done" or "the path cannot be estimated" in end["sentence"]  # of an untrained model
        fractions = [event["fraction"] for event in seen.events if event["event"] == "progress"]
        assert fractions[0] == 0.0 and fractions == sorted(fractions)
        query = TokenQuery(str(job.output), frame=1, x=0.4, y=0.6, layer=1)
        scores = worker.submit("scores", vars(query)).wait(300)
        assert scores["event"] == "done", scores
        view = TokenView.unpacked(scores["result"])
        assert list(view.terms) == ["A content", "B content to ray", "C ray to content", "D ray to ray", "sum"]
        assert view.attention.shape == (2, 2, 2) and abs(view.attention.sum() - 1) < 1e-4
        (layers,) = map(LayersView.unpacked, worker.submit("weights", {}).wait(300)["result"]["experts"])
        assert layers.matrix is None and layers.alpha.shape == (2, 2)
        assert (
            layers.note
            == "This model's encoding, sweep, has no matrix M over two rays: only SCoPE with a linear E has one."
        )
    finally:
        worker.close()
    assert json.loads((job.output / "settings.json").read_text())["request"]["seed"] == 3
