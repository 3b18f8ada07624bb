"""The lab studies of docs/study.md on one GPU, in as many commands as it takes, each within a time limit.

    python benchmarks/study_on_gpu.py OUT SECONDS         repeat this command until it says that nothing is left
    python benchmarks/study_on_gpu.py OUT SECONDS KEPT    continue in a new checkout from what an earlier command left in KEPT

OUT gets two tar files in parts below 16 MiB: kept.tar.gz.00, kept.tar.gz.01, ..., with all that is needed to continue, and
reports.tar.gz.00, ..., with pages, tables, claims and logs. Both are there from the first seconds on, are renewed every two
minutes, and at last before SECONDS are over. KEPT: the folder of these parts; what is there already is not overwritten, so it
may be given every time. In a new checkout, clips are made again and interrupted trainings start again; reports.tar.gz then
lacks the pages of studies that were finished before, which `sightline study show` makes from the kept files on any machine.

Environment variables set the rest:

    PYTHON   the interpreter of the studies (this one)         JOBS     processes that share the GPU (8)
    STUDIES  names, or YAML files, in their order              WORK     where the folders of the studies are (outputs/study)
    RETRY=1  try rows that failed again                        RESERVE  seconds at the end for what cannot be stopped (90)
    BASE_MIB the largest base that is kept (30)

RESERVE: a row that is being compiled, and the report, after which a study is killed. BASE_MIB: a larger base, such as the one of
39 M parameters in scale, is trained again in a new checkout, with its rows, unless these were finished.
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tar_parts import unpack, write_parts

ROOT = Path(__file__).resolve().parents[1]
STUDIES = "main revisit efficiency main-seconds pe-design components data longer scale"
PACK_SECONDS = 25  # to pack, and to say what is left
PACK_EVERY = 120  # seconds
KEPT, REPORTS = "kept.tar.gz", "reports.tar.gz"
RESULTS = ("runs/*/*/result.json", "sweeps/*/*/trial.json")
REPORT_FILES = ("report.html", "*.md", "*.txt", "claims*.png", "tables")  # of a study, and beside the studies


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path, metavar="OUT", help="folder for the tar files")
    parser.add_argument("seconds", type=int, metavar="SECONDS", help="time limit")
    parser.add_argument("kept", type=Path, nargs="?", metavar="KEPT", help="an earlier OUT, to continue from it")
    asked = parser.parse_args()
    if asked.kept is not None and not asked.kept.is_dir():
        parser.error(f"KEPT is {asked.kept}: expected a folder.")
    out, kept = asked.out.resolve(), asked.kept and asked.kept.resolve()
    os.chdir(ROOT)
    sources = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {"PYTHONPATH": os.pathsep.join(sources), "PYTHONUNBUFFERED": "1"}
    run = TimedRun(
        deadline=time.monotonic() + asked.seconds,
        out=out,
        work=Path(os.environ.get("WORK") or "outputs/study").resolve(),
        studies=(os.environ.get("STUDIES") or STUDIES).split(),
        python=os.environ.get("PYTHON") or sys.executable,
        jobs=os.environ.get("JOBS") or "8",
        reserve=int(os.environ.get("RESERVE") or 90),
        base_mib=float(os.environ.get("BASE_MIB") or 30),
    )
    for folder in (run.out, run.work):
        folder.mkdir(parents=True, exist_ok=True)
    if kept is not None:
        unpack(kept / KEPT, run.work)
    if os.environ.get("RETRY"):
        run.retry_failed()
    run.run()
    run.report()


@dataclass
class TimedRun:
    """One command with a time limit. deadline: the time of time.monotonic() at which it is over. studies: names or YAML files."""

    deadline: float
    out: Path
    work: Path
    studies: list[str]
    python: str
    jobs: str
    reserve: int
    base_mib: float

    @property
    def left(self) -> int:
        return int(self.deadline - time.monotonic())

    @property
    def folders(self) -> list[Path]:
        return [self.folder_of(study) for study in self.studies]

    def folder_of(self, study: str) -> Path:
        return self.work / Path(study).name.removesuffix(".yaml")

    def run(self) -> None:
        """All studies that are not finished, as far as the time goes, and the claims."""
        self.pack()
        for study in self.studies:
            if is_finished(self.folder_of(study)):
                continue
            if self.left <= self.reserve + PACK_SECONDS + 20:
                break
            self.run_study(study)
            self.pack()
        if self.left > 2 * PACK_SECONDS:
            self.write_claims()
            self.pack()

    def run_study(self, study: str) -> None:
        """Run a study until it is finished or the time is nearly over. What it prints is also in a file beside its folder."""
        folder = self.folder_of(study)
        before = itertools.takewhile(lambda other: other != folder, self.folders)
        reused = [str(other) for other in before if has_begun(other)]
        command = [
            self.python, "-m", "sightline", "study", "run", study, "-o", str(folder), "--jobs", self.jobs,
            "--stop-after", str(self.left - PACK_SECONDS - self.reserve), *(["--reuse", *reused] if reused else []),
        ]  # fmt: skip
        log = self.work / f"{folder.name}.txt"
        printed = self.work / ".printed"
        with (
            printed.open("w") as stdout,
            subprocess.Popen(["tee", "-a", log], stdin=subprocess.PIPE, stdout=sys.stderr) as copied,
            subprocess.Popen(command, stdout=stdout, stderr=copied.stdin, start_new_session=True) as process,
        ):
            try:
                self.wait(process)
            finally:
                end(process)
                copied.communicate()
        text = printed.read_text()
        printed.unlink()
        if process.returncode == 0 and "trainings left" not in text:
            (folder / "done").touch()
        with log.open("a") as file:
            file.write(text)

    def wait(self, process: subprocess.Popen[bytes]) -> None:
        """Until the process has ended or the time is nearly over; pack on the way."""
        next_pack = time.monotonic() + PACK_EVERY
        while process.poll() is None and self.left > PACK_SECONDS:
            time.sleep(1)
            if time.monotonic() >= next_pack and self.left > 2 * PACK_SECONDS:
                self.pack()
                next_pack = time.monotonic() + PACK_EVERY

    def write_claims(self) -> None:
        folders = [str(folder) for folder in self.folders if any(folder.glob(RESULTS[0]))]
        for subject in ("paper", "project"):
            command = [self.python, "-m", "sightline", "study", "claims", *folders, "--of", subject]
            file = self.work / f"claims-of-{subject}.md"
            with suppress(subprocess.TimeoutExpired):
                subprocess.run([*command, "-o", str(file)], timeout=max(self.left - PACK_SECONDS, 1))

    def retry_failed(self) -> None:
        """Studies with rows that failed are no longer finished."""
        for folder in self.folders:
            results = (path for pattern in RESULTS for path in folder.glob(pattern))
            if any('"failure": "' in path.read_text() for path in results):
                (folder / "done").unlink(missing_ok=True)

    def pack(self) -> None:
        """Renew both tar files. A full disk is no reason to stop a study."""
        try:
            write_parts(self.out / KEPT, self.work, self.kept_files())
            write_parts(self.out / REPORTS, self.work, self.report_files())
        except OSError as error:
            print(f"{self.out} was not renewed: {error}", file=sys.stderr)

    def kept_files(self) -> Iterator[Path]:
        """Results, timing, and every base once."""
        bases: set[bytes] = set()
        for folder in filter(has_begun, self.folders):
            lost = set()
            yield from (path for name in ("study.json", "done", "prepare.txt") if (path := folder / name).is_file())
            yield from folder.glob("timing/**/timing.json")
            for transformer in sorted(folder.glob("bases/*/transformer")):
                weights = sorted(path for path in transformer.iterdir() if path.is_file())
                digest = hashlib.sha256(b"".join(path.read_bytes() for path in weights)).digest()
                if sum(path.stat().st_size for path in weights) > self.base_mib * 2**20:
                    lost.add(transformer.parent.name)
                elif digest not in bases:
                    bases.add(digest)
                    yield from weights
            tables = json.loads((folder / "study.json").read_text())["tables"]
            of_lost = tuple(f"{name}_" for name, table in tables.items() if table["base"] in lost)
            for path in (path for pattern in RESULTS for path in folder.glob(pattern)):
                if is_finished(folder) or not path.parts[-3].startswith(of_lost):
                    yield path

    def report_files(self) -> Iterator[Path]:
        for folder in (self.work, *(path for path in self.work.iterdir() if path.is_dir())):
            yield from (path for pattern in REPORT_FILES for path in folder.glob(pattern))

    def report(self) -> None:
        """Print what is done, and what is left."""
        sys.path.insert(0, str(ROOT / "src"))
        from sightline.study.plan import read_plan, unfinished

        left = 0
        for folder in self.folders:
            if not has_begun(folder):
                left += 1
                print(f"{folder.name}: not begun")
                continue
            plan = read_plan(folder)
            tasks = plan.tasks()
            waiting = len(unfinished(plan, tasks))
            left += not is_finished(folder)
            print(f"{folder.name}: {f'{waiting} of {len(tasks)} trainings are left' if waiting else 'done'}")
            for task in tasks:
                if (sentence := plan.failure(task)) is not None:
                    print(f"    {task.name}: {sentence}")
        total = len(self.studies)
        print(f"{left} of {total} studies are left: the same command continues" if left else "nothing is left")


def has_begun(folder: Path) -> bool:
    return (folder / "study.json").is_file()


def is_finished(folder: Path) -> bool:
    return (folder / "done").is_file()


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process, if it still runs, and those that it started, in five seconds at the latest. Those that outlive it, as after
    a crash, would keep the GPU and what it prints to."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(5)
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


if __name__ == "__main__":
    main()
