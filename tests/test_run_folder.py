"""Folders that only one command writes at a time, and what killed ones leave behind."""

from __future__ import annotations

import os
import signal
import sys
import time

import pytest

from sightline.errors import SightlineError
from sightline.files import atomic_folder, remove_leftovers, write_atomic
from sightline.locks import hold_lock
from sightline.run_folder import LOCK, is_empty, locked


@pytest.fixture
def in_child():
    """Run something in a process of its own until it signals readiness; it is killed afterwards without any cleaning up."""
    children = []

    def start(work):
        ready, tell = os.pipe()
        if (child := os.fork()) == 0:
            work(lambda: os.write(tell, b"."))
            os._exit(0)
        children.append(child)
        assert os.read(ready, 1) == b"."
        return child

    yield start
    for child in children:
        kill(child)


def kill(child):
    try:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    except (ProcessLookupError, ChildProcessError):
        pass


def write_forever(path, overwrite=False):
    def work(ready):
        with atomic_folder(path, overwrite) as folder:
            (folder / "half.txt").write_text("half")
            ready()
            time.sleep(60)

    return work


def lock_forever(folder):
    def work(ready):
        with locked(folder, ("clips",)):
            (folder / "clips").mkdir(parents=True, exist_ok=True)
            (folder / "clips" / ".a.sightline-0123456789abcdef.json").write_text("half")
            ready()
            time.sleep(60)

    return work


def test_the_second_command_gets_one_sentence_until_the_first_is_dead(tmp_path, in_child, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["/usr/bin/sightline", "train", "debug"])
    child = in_child(lock_forever(tmp_path / "run"))
    sentence = (
        rf"run is being written by another command \(process {child}: sightline train debug\): expected it to finish"
    )
    with pytest.raises(SightlineError, match=sentence), locked(tmp_path / "run"):
        pass
    assert (tmp_path / "run" / LOCK).is_file()
    kill(child)
    with locked(tmp_path / "run", ("clips",)):
        assert os.listdir(tmp_path / "run" / "clips") == []  # the temporary file of the killed one is gone
    assert os.listdir(tmp_path / "run") == ["clips"]


def test_a_locked_folder_that_stays_empty_does_not_stay(tmp_path):
    with locked(tmp_path / "a" / "b"):
        assert is_empty(tmp_path / "a" / "b")
        (tmp_path / "a" / "b" / "x").touch()
        assert not is_empty(tmp_path / "a" / "b")
        (tmp_path / "a" / "b" / "x").unlink()
    assert os.listdir(tmp_path) == []
    (tmp_path / "file").touch()
    with (
        pytest.raises(SightlineError, match=r"cannot be written .*: expected a new folder"),
        locked(tmp_path / "file", expected="a new folder"),
    ):
        pass


def test_a_worker_process_does_not_keep_the_lock(tmp_path, in_child):
    with hold_lock(tmp_path / "lock", tmp_path):
        in_child(lambda ready: (ready(), time.sleep(60)))
    with hold_lock(tmp_path / "lock", tmp_path):  # the worker lives, and had a copy of the open file
        pass


def test_two_writers_of_one_folder(tmp_path, in_child):
    child = in_child(write_forever(tmp_path / "out"))
    with (
        pytest.raises(SightlineError, match=rf"out is being written by another command \(process {child}"),
        atomic_folder(tmp_path / "out"),
    ):
        pass
    remove_leftovers(tmp_path)  # touches nothing of a living process
    assert (tmp_path / ".out.sightline-new" / "half.txt").is_file()
    kill(child)
    with atomic_folder(tmp_path / "out") as folder:
        assert os.listdir(folder) == []
        (folder / "whole.txt").write_text("whole")
    assert os.listdir(tmp_path) == ["out"] and os.listdir(tmp_path / "out") == ["whole.txt"]


def test_leftovers_are_removed_and_a_folder_that_was_being_replaced_is_put_back(tmp_path, in_child):
    write_atomic(tmp_path / "old" / "film.txt", "old")
    kill(in_child(write_forever(tmp_path / "new")))
    kill(in_child(write_forever(tmp_path / "old", overwrite=True)))
    os.rename(tmp_path / "old", tmp_path / ".old.sightline-old")  # as if killed between the two renames
    remove_leftovers(tmp_path)
    assert os.listdir(tmp_path) == ["old"] and os.listdir(tmp_path / "old") == ["film.txt"]


@pytest.mark.parametrize("foreign_is_a_folder", [True, False])
def test_what_appears_meanwhile_is_not_replaced(tmp_path, foreign_is_a_folder):
    foreign = tmp_path / "out" / "foreign.txt" if foreign_is_a_folder else tmp_path / "out"
    with (
        pytest.raises(SightlineError, match=r"out appeared while this was made: .*out-2 now"),
        atomic_folder(tmp_path / "out"),
    ):
        write_atomic(foreign, "foreign")
    assert foreign.read_text() == "foreign" and sorted(os.listdir(tmp_path)) == ["out", "out-2"]


def test_a_link_to_an_empty_folder_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real")
    with atomic_folder(tmp_path / "link") as folder:
        (folder / "film.txt").write_text("film")
    assert (tmp_path / "link").is_symlink() and os.listdir(tmp_path / "real") == ["film.txt"]
