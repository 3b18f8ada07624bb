"""Running a study: processes take the tasks that are left, until all are done. A killed study continues where it stopped.

A task belongs to the process that holds its lock. Every process looks for the next task by itself, so it does not matter whether
processes were started by --jobs, by torchrun or on several machines with one disk: none of them is in charge.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, TextIO

import torch

from sightline.errors import SightlineError
from sightline.locks import LockHeldError, hold_lock
from sightline.parents import end_with_parent
from sightline.quiet import one_progress_bar
from sightline.run_folder import locked
from sightline.study.losses import require_clips_for_rates
from sightline.study.plan import Plan, Task, unfinished
from sightline.study.results import RESULT, read_result
from sightline.study.reuse import reuse_results
from sightline.study.row_training import OutOfTime
from sightline.study.shortage import DeviceLost, NoRoom, Presence, lack_of_memory, remove_left_locks
from sightline.study.worker import Worker
from sightline.worlds.batches import available_cores

_POLL = 0.5  # seconds between two looks for a task, or for a result to report
_FOREVER = float("inf")
_NO_ROOM, _DEVICE_LOST = 3, 4  # exit statuses of a process that has left its task to the others


def run_study(
    plan: Plan,
    jobs: int = 1,
    stop_after: float | None = None,
    keep_models: bool = False,
    reuse: Sequence[Path] = (),
    rank: int = 0,
    ranks: int = 1,
) -> list[Task]:
    """Run the tasks of a plan that are not done; returns those that are left, after `stop_after` seconds or a crash.

    jobs: processes on this machine, which share its GPUs. reuse: folders of other studies, whose results are taken where they
    are of the same training. rank, ranks: of this process among those that a launcher started with
    the same plan; only the first one prints and locks the folder.
    """
    deadline = None if stop_after is None else time.time() + stop_after
    if rank > 0:
        with suppress(NoRoom, DeviceLost):  # an error would make the launcher end the other processes
            _work(plan, ranks, deadline, keep_models)
        return []
    require_clips_for_rates(plan.study, list(dict.fromkeys(cell.table for cell in plan.cells())))
    with locked(plan.folder, expected="a new folder, or that of the same study"):
        plan.write_study()
        plan.forget_failures()
        remove_left_locks(plan.folder / "locks")
        if reuse and (copied := reuse_results(plan, reuse)):
            logging.getLogger("sightline").info("took %d results from other studies", copied)
        with _reporting(plan):
            if jobs == 1:
                _work_here(plan, ranks, deadline, keep_models)
            else:
                _work_in_rounds(plan, jobs, deadline, keep_models)
    return unfinished(plan, plan.tasks())


def _work(plan: Plan, jobs: int, deadline: float | None, keep_models: bool) -> None:
    """Execute tasks until none is left that this process could take."""
    locks = plan.folder / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    limit = None if deadline is None else time.perf_counter() + deadline - time.time()
    worker = Worker(plan, jobs, limit, keep_models)
    with Presence(locks)() as presence, suppress(OutOfTime):
        # One process prepares what all of them need, and times steps while nothing else runs.
        with hold_lock(locks / "prepare.lock", plan.folder / "clips", patience=_FOREVER):
            if unfinished(plan, plan.tasks()):
                worker.prepare()
        while left := unfinished(plan, plan.tasks()):
            order = _in_order(plan, left, worker)
            if not any(_take(plan, worker, task, locks, presence, row_of_its_own) for task, row_of_its_own in order):
                time.sleep(_POLL)  # other processes are at work on all that could be done


def _work_here(plan: Plan, ranks: int, deadline: float | None, keep_models: bool) -> None:
    """Work in this process, the only one, or the first of those that a launcher has started."""
    try:
        _work(plan, ranks, deadline, keep_models)
    except (NoRoom, DeviceLost):
        if ranks == 1:
            _work_in_rounds(plan, 1, deadline, keep_models)
        presence = Presence(plan.folder / "locks")
        while unfinished(plan, plan.tasks()) and presence.has_others():
            time.sleep(_POLL)


def _in_order(plan: Plan, tasks: list[Task], worker: Worker) -> list[tuple[Task, bool]]:
    """Tasks that may start, in the order in which this process tries to take them, and whether it may only take them in a row
    on which no other process is at work.

    First come those of the row that was run last, whose code is compiled and whose clips are in memory, then rows that nobody
    works on, then all others. With few exceptions, a row is then compiled by one process only, which takes as long as some
    thousand steps of a small model.
    """
    last = worker.last_cell
    ready = [task for task in tasks if plan.is_ready(task)]
    own = [task for task in ready if task.cell == last]
    others = [task for task in ready if task.cell != last]
    others.sort(key=lambda task: last is not None and task.cell.table != last.table)
    return [(task, False) for task in own] + [(task, alone) for alone in (True, False) for task in others]


def _take(plan: Plan, worker: Worker, task: Task, locks: Path, presence: Presence, row_of_its_own: bool) -> bool:
    """Execute a task if no other process does; False where it was taken, or its row where this process wants one of its own.

    NoRoom: the device lacks the memory for it, and others are at work on the rest.
    """
    folder = plan.task_folder(task)
    name = "-".join(folder.parts[-3:])
    with ExitStack() as held:
        try:
            held.enter_context(hold_lock(locks / f"row-{task.cell.name}.lock", folder, patience=0.0))
        except LockHeldError:
            if row_of_its_own:
                return False
        try:
            held.enter_context(hold_lock(locks / f"{name}.lock", folder, patience=0.0))
            if not plan.is_done(task):
                try:
                    worker.execute(task)
                except NoRoom as error:
                    if presence.leave():
                        raise
                    worker.fail(task, str(error))
                return True
        except LockHeldError:
            pass
    return False


def _work_in_rounds(plan: Plan, jobs: int, deadline: float | None, keep_models: bool) -> None:
    """Work in several processes. Start again with half as many if some ran out of memory, and with new ones if a process lost its
    device and left tasks."""
    before = _FOREVER
    while True:
        statuses = _work_in_processes(plan, jobs, deadline, keep_models)
        forgotten = plan.forget_failures(lack_of_memory) if jobs > 1 else 0
        left = len(unfinished(plan, plan.tasks()))
        if not left or (deadline is not None and time.time() >= deadline):
            return
        if jobs > 1 and (forgotten or _NO_ROOM in statuses):
            jobs //= 2
        elif _DEVICE_LOST not in statuses or left >= before:
            return
        before = left
        logging.getLogger("sightline").warning("trainings left: %d; %d processes continue", left, jobs)


def _work_in_processes(plan: Plan, jobs: int, deadline: float | None, keep_models: bool) -> list[int | None]:
    """Returns the exit status of each process."""
    context = multiprocessing.get_context("spawn")
    processes = [
        context.Process(target=_process, args=(plan, index, jobs, deadline, keep_models), name=f"study-{index}")
        for index in range(jobs)
    ]
    try:
        for process in processes:
            process.start()
        for process in processes:
            process.join()
    finally:
        for process in processes:
            if process.is_alive():
                process.terminate()
                process.join()
    statuses = [process.exitcode for process in processes]
    log = logging.getLogger("sightline")
    if no_room := statuses.count(_NO_ROOM):
        log.warning("%d of %d processes ended because the GPU had no memory left for them", no_room, jobs)
    if ended := [status for status in statuses if status not in (0, _NO_ROOM)]:
        log.warning(
            "%d of %d processes ended early; see prepare.txt and output.txt of the runs in %s",
            *(len(ended), jobs, plan.folder),
        )
    return statuses


def _process(plan: Plan, index: int, jobs: int, deadline: float | None, keep_models: bool) -> None:
    """One of several processes on this machine."""
    end_with_parent()
    one_progress_bar()
    use_gpu(index)
    # Each process would otherwise start as many compilers as there are cores.
    os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", str(max(1, available_cores() // jobs)))
    torch.set_num_threads(max(1, available_cores() // jobs))
    try:
        _work(plan, jobs, deadline, keep_models)
    except KeyboardInterrupt:
        sys.exit(130)
    except NoRoom:
        sys.exit(_NO_ROOM)
    except DeviceLost as error:
        print(f"sightline: {error}", file=sys.stderr)
        sys.exit(_DEVICE_LOST)
    except SightlineError as error:
        print(f"sightline: {error}", file=sys.stderr)
        sys.exit(1)


def use_gpu(index: int) -> None:
    """Let this process see one of the GPUs only, in turn. Call it before anything is computed."""
    count = torch.cuda.device_count()
    if count > 1:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = visible.split(",") if visible else [str(number) for number in range(count)]
        os.environ["CUDA_VISIBLE_DEVICES"] = names[index % len(names)]


@contextmanager
def _reporting(plan: Plan) -> Iterator[None]:
    """Print a line for every task that is done, by whichever process, and the time that the rest will take."""
    stop = threading.Event()
    reporter = threading.Thread(target=_report, args=(plan, stop, sys.stderr), daemon=True)
    reporter.start()
    try:
        yield
    finally:
        stop.set()
        reporter.join()


def _report(plan: Plan, stop: threading.Event, stream: TextIO) -> None:
    tasks = plan.tasks()
    waiting = unfinished(plan, tasks)
    work = sum(map(plan.weight, waiting))
    print(f"{plan.name}: {len(tasks) - len(waiting)} of {len(tasks)} trainings are done", file=stream, flush=True)
    started, done_work = time.monotonic(), 0.0
    while True:
        stopped = stop.wait(_POLL)
        for task in [task for task in waiting if plan.is_done(task)]:
            waiting.remove(task)
            done_work += plan.weight(task)
            left = (time.monotonic() - started) * (work - done_work) / done_work
            remaining = f", about {_duration(left)} left" if waiting else ""
            count = f"{len(tasks) - len(waiting)} of {len(tasks)}"
            print(f"{count}{remaining}: {task.name}: {_outcome(plan, task)}", file=stream, flush=True)
        if stopped:
            return


def _outcome(plan: Plan, task: Task) -> str:
    if task.rate is not None:
        loss = plan.trials(task.cell).get(task.rate)
        return "failed" if loss is None else f"loss {loss:.4f}"
    result = read_result(plan.task_folder(task) / RESULT)
    if result.failure is not None:
        return f"cannot run: {result.failure}"
    means: dict[str, Any] = {name: result.mean(name) for name in ("loss", "psnr_moved", "rot_err", "return_ratio")}
    return ", ".join(f"{name} {value:.4f}" for name, value in means.items() if value is not None) or "done"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
