"""Job files: many jobs in one table, divided among processes. A batch that was stopped continues where it stopped."""

from __future__ import annotations

import csv
import dataclasses
import logging
import os
import typing
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from sightline.documents import cannot_read, read_json, read_text
from sightline.errors import SightlineError
from sightline.files import failure, reason
from sightline.generation.job import Job
from sightline.generation.model import Model
from sightline.generation.outputs import is_finished, run_job
from sightline.parsing import parse_value

_log = logging.getLogger("sightline")
_FILES = ("image", "trajectory")


def read_jobs(file: Path, base: Job) -> list[Job]:
    """Read the jobs of a .json list of objects or of a .csv table. A field that a row leaves out is that of `base`.

    A row's output is a folder inside base's output, numbered where the row names none. Paths of its files are relative to
    the folder of the table.
    """
    types, jobs = typing.get_type_hints(Job), []
    names = sorted(types)
    for number, row in enumerate(_rows(file)):
        where = f"{file}, job {number}"
        if not isinstance(row, dict) or not all(isinstance(name, str) for name in row):
            raise SightlineError(f"{where}: found no fields by name, expected some of {', '.join(names)}.")
        if unknown := sorted(set(row) - set(names)):
            raise SightlineError(f"{where}: found the field {unknown[0]!r}, expected some of {', '.join(names)}.")
        try:
            changes = {
                name: parse_value(name, value, types[name]) for name, value in row.items() if value not in (None, "")
            }
            for name in set(_FILES) & set(changes):
                changes[name] = file.parent / changes[name]
            changes["output"] = Path(os.path.normpath(base.output / changes.get("output", f"{number:04d}")))
            if base.output.resolve() not in changes["output"].resolve().parents:
                raise SightlineError(f"output is {row['output']!r}: expected a folder inside {base.output}.")
            jobs.append(dataclasses.replace(base, **changes).check())
        except SightlineError as error:
            raise SightlineError(f"{where}: {error}") from None
    _require_own_folders(file, jobs)
    if not jobs:
        raise SightlineError(f"{file}: found no jobs, expected at least one.")
    return jobs


def _require_own_folders(file: Path, jobs: Sequence[Job]) -> None:
    """Refuse jobs that would write into the same folder, or one into the folder of another."""
    outputs = [job.output for job in jobs]
    if len(set(outputs)) < len(jobs):
        raise SightlineError(f"{file}: found an output twice, expected a folder for each job.")
    for output in outputs:
        if inside := set(output.parents) & set(outputs):
            raise SightlineError(f"{file}: found the output {output} inside {inside.pop()}, expected separate folders.")


def run_jobs(
    model: Model, jobs: Sequence[Job], *, overwrite: bool = False, rank: int = 0, processes: int = 1,
    on_done: Callable[[Job, dict[str, Any]], None] = lambda job, settings: None,
) -> list[tuple[str, str]]:  # fmt: skip
    """Run this process's part of the jobs; finished ones are left alone. Returns the folder and the error of each failure.

    With context parallelism every process runs every job, since they share each video, and the first one writes.
    """
    shared = model.options.context_parallel != "none"
    failed, own = [], jobs if shared else jobs[rank::processes]
    model.num_videos = len(own)
    for job in own:
        try:
            if _is_finished(model, job, overwrite):
                _log.info("%s is finished: left as it is.", job.output)
                continue
            on_done(job, run_job(model, job, overwrite=overwrite, rank=rank if shared else 0))
        except Exception as error:  # whatever went wrong with one job, the others still run
            sentence = failure(error)
            failed.append((str(job.output), sentence))
            _log.warning("%s failed: %s", job.output, sentence)
    return failed


def _is_finished(model: Model, job: Job, overwrite: bool) -> bool:
    try:
        return is_finished(model, job)
    except SightlineError:
        if overwrite:
            return False
        raise


def _rows(file: Path) -> list[Any]:
    if file.suffix.lower() != ".csv":
        return read_json(file, "a list of jobs", list)
    expected = "a .json or .csv of jobs"
    try:
        return list(csv.DictReader(read_text(file, expected).splitlines()))
    except csv.Error as error:
        raise cannot_read(file, reason(error), expected) from None
