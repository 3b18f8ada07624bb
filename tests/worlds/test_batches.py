"""Processes that sample scenes: shared by several calls, with the same results as in this process."""

from __future__ import annotations

import os
import signal
import sys
import time
from multiprocessing import get_context
from pathlib import Path

import pytest

from sightline.worlds import batches
from sightline.worlds.batches import map_in_processes, shared_processes


@pytest.fixture
def pools(monkeypatch):
    """The pools that were started, on a machine of three cores."""
    started, make = [], batches._pool
    monkeypatch.setattr(batches, "available_cores", lambda: 3)
    monkeypatch.setattr(batches, "_pool", lambda processes: started.append(processes) or make(processes))
    return started


def test_calls_share_one_pool_of_processes_and_keep_the_order(pools):
    with shared_processes(16):
        assert list(map_in_processes(abs, range(-8, 0))) == [8, 7, 6, 5, 4, 3, 2, 1]
        assert list(map_in_processes(abs, [-3])) == [3]  # few items, but the processes are there
    assert pools == [2] and not batches._shared
    assert list(map_in_processes(abs, [-3])) == [3] and pools == [2]


@pytest.mark.parametrize("num_items, cores", [(7, 3), (16, 2)])
def test_no_process_is_started_for_few_items_or_cores(pools, monkeypatch, num_items, cores):
    monkeypatch.setattr(batches, "available_cores", lambda: cores)
    with shared_processes(num_items):
        assert list(map_in_processes(abs, [-1, -2])) == [1, 2]
    assert pools == []


def test_an_error_closes_the_shared_pool(pools):
    with pytest.raises(ValueError, match="invalid literal"), shared_processes(16):
        list(map_in_processes(int, ["1", "two"]))
    assert not batches._shared


def test_all_processes_start_before_there_is_work():
    with batches._pool(3) as pool:
        assert len(pool._processes) == 3


def open_a_pool(connection):
    with batches._pool(2) as pool:
        connection.send([pool.submit(os.getpid).result(), *pool._processes])
        time.sleep(60)


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_processes_end_with_a_parent_that_is_killed():
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    parent = context.Process(target=open_a_pool, args=(sender,))
    parent.start()
    workers = receiver.recv()
    parent.kill()
    parent.join()
    deadline = time.monotonic() + 600  # only stops what hangs
    while (alive := [worker for worker in workers if is_alive(worker)]) and time.monotonic() < deadline:
        time.sleep(0.1)
    for worker in alive:
        os.kill(worker, signal.SIGKILL)
    assert not alive


def is_alive(process):
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
