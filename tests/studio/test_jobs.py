"""Films belong to the studio: nobody has to look at them, names are never shared, and nothing is left behind."""

from __future__ import annotations

import os
import signal

import pytest

from sightline.errors import SightlineError
from sightline.generation.job import Job
from sightline.studio import jobs as jobs_module
from sightline.studio.jobs import FilmJobs
from sightline.studio.library import Library
from tests.studio.stand_in import Recorder, stand_in_worker


@pytest.fixture
def worker():
    worker = stand_in_worker()
    yield worker
    worker.close()


@pytest.fixture
def changes():
    return []


@pytest.fixture
def jobs(worker, tmp_path, changes):
    return FilmJobs(Library(tmp_path), worker, lambda job: changes.append((job.name, job.state)))


def start(jobs, title, prompt="a room", on_event=lambda event: None):
    return jobs.start(title, lambda folder: Job(prompt=prompt, output=folder), on_event)


def test_a_film_goes_on_where_the_page_that_asked_for_it_is_gone(jobs, changes):
    def gone(event):
        raise RuntimeError("the page was closed")

    job = start(jobs, "film", on_event=gone)
    assert job.task.wait(60)["event"] == "done"
    assert job.has_ended and jobs.active() == [] and jobs.all() == [job]
    assert changes == [("film", "starting"), ("film", "step 1 of 2"), ("film", "finished in 3 s")]


def test_two_films_of_one_name_get_two_folders_and_a_refused_one_gives_its_name_back(jobs, tmp_path):
    seen = Recorder()
    one, two = start(jobs, "../my film", "hang", seen), start(jobs, "../my film")
    assert (one.name, two.name) == ("my_film", "my_film-2")
    assert seen.progress.wait(60)
    assert [job.state for job in jobs.all()] == ["waiting for another task", "step 1 of 2"]
    with pytest.raises(SightlineError, match="seed"):
        jobs.start("my film", lambda folder: Job(seed=-1, output=folder).check(), lambda event: None)
    assert start(jobs, "my film").name == "my_film-3"
    jobs.cancel("my_film")
    assert two.task.wait(60)["event"] == "done" and one.state == "cancelled; nothing was kept"


def test_only_a_film_that_is_on_its_way_can_be_cancelled(jobs):
    start(jobs, "film").task.wait(60)
    for name in ("film", "other", "../film"):
        with pytest.raises(SightlineError, match="is not being generated"):
            jobs.cancel(name)


def test_a_film_that_is_being_decoded_cannot_be_cancelled(jobs):
    seen = Recorder()
    job = start(jobs, "film", "hang", seen)
    assert seen.progress.wait(60) and job.can_be_cancelled
    job.last_event = {"event": "progress", "step": 2, "steps": 2}
    assert job.state == "decoding the film" and not job.can_be_cancelled
    with pytest.raises(SightlineError, match="is being decoded"):
        jobs.cancel("film")


def test_a_deleted_film_is_not_listed_any_more(jobs):
    start(jobs, "film").task.wait(60)
    seen = Recorder()
    kept = start(jobs, "film-2", "hang", seen)
    assert seen.progress.wait(60)
    jobs.forget("film")
    jobs.forget("film-2")  # it is not finished
    assert jobs.all() == [kept]


def test_a_killed_process_leaves_nothing_and_its_name_is_free_again(jobs, worker, tmp_path):
    seen = Recorder()
    job = start(jobs, "film", "hang", seen)
    assert seen.progress.wait(60) and (tmp_path / ".film.sightline-new").is_dir()
    os.kill(worker._process.pid, signal.SIGKILL)
    assert "signal 9" in job.task.wait(60)["sentence"] and job.state.startswith("failed: the process with the model")
    assert list(tmp_path.iterdir()) == []
    assert start(jobs, "film").name == "film"


def test_the_list_does_not_grow_for_ever(jobs, monkeypatch):
    monkeypatch.setattr(jobs_module, "_MAX_ENDED", 2)
    for _ in range(5):
        start(jobs, "film", "fail").task.wait(60)
    assert len(jobs.all()) == 3  # the last one was started before it ended
