"""Processes of tests. They are forked from one that has imported what they need, so that a start takes no seconds of imports."""

from __future__ import annotations

import faulthandler
import multiprocessing
import os
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import torch
import torch.distributed as dist
import torch.multiprocessing as mp

# Imports only, before anything has run: the server has one thread, whose memory is safe to copy.
multiprocessing.set_forkserver_preload(["sightline.training.trainer", "sightline.evaluation.evaluate", "sightline.lab"])
_CONTEXT = multiprocessing.get_context("forkserver")


def start_two(worker: Callable[..., None], *arguments: Any) -> None:
    """worker(rank, port, *arguments) in two processes, which find each other at that port of this machine.

    This process listens at the port from the start, as torchrun does, so that no other program can take it meanwhile.
    """
    store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    mp.start_processes(_traced, args=(worker, store.port, *arguments), nprocs=2, start_method="forkserver")


def _traced(rank: int, worker: Callable[..., None], *arguments: Any) -> None:
    faulthandler.enable()  # a crash tells where
    torch.set_num_threads(1)
    os.environ["TORCHELASTIC_USE_AGENT_STORE"] = "True"  # rank 0 too connects to the port instead of opening it
    worker(rank, *arguments)


def kill_at(module: Any, name: str, call: int, run: Callable[[], object]) -> None:
    """run() in a fork of this process, which is killed with SIGKILL at that call, counted from 0, of a function of a module."""
    if (child := os.fork()) == 0:
        real, calls = getattr(module, name), iter(range(10**6))

        def deadly(*arguments: Any, **options: Any) -> Any:
            if next(calls) == call:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*arguments, **options)

        setattr(module, name, deadly)
        run()
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.WIFSIGNALED(status), "it ended before the call"


def call_in_process(
    function: Callable[..., None],
    *arguments: Any,
    argv: Sequence[str] = (),
    cwd: Path | None = None,
    path: Sequence[str] = (),
) -> CompletedProcess[str]:
    """function(*arguments) in a process of its own: its exit code and what it printed.

    argv: sys.argv there, after the program. path: folders before the others of sys.path.
    """
    with tempfile.TemporaryDirectory() as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        place = (str(out), str(err), str(cwd or Path.cwd()), dict(os.environ), list(argv), list(path))
        process = _CONTEXT.Process(target=_called, args=(place, function, arguments))
        process.start()
        process.join()
        return CompletedProcess([], process.exitcode or 0, out.read_text(), err.read_text())


def _called(place: tuple[Any, ...], function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
    out, err, cwd, environment, argv, path = place
    for stream, file in ((1, out), (2, err)):
        os.dup2(os.open(file, os.O_WRONLY | os.O_CREAT), stream)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[1:], sys.path[:0] = argv, path
    torch.set_num_threads(1)
    function(*arguments)
