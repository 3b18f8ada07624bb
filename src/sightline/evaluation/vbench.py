"""The six VBench dimensions of the paper, computed by the official package. Its pinned dependencies are older than ours, so it
runs in a virtual environment of its own; existing results files of VBench are read too."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sightline.digests import file_digest, json_digest
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.evaluation.results import RESULTS, RunResults, read_result, write_result
from sightline.evaluation.tables import format_number, grid
from sightline.files import atomic_folder, reason, write_atomic
from sightline.names import unique_names
from sightline.run_folder import locked

DIMENSIONS = (
    "subject_consistency", "background_consistency", "motion_smoothness", "dynamic_degree", "aesthetic_quality",
    "imaging_quality",
)  # fmt: skip
REAL = "GT"
# torchvision and decord come with vbench; setuptools below 81 still has pkg_resources, which its copy of CLIP imports.
REQUIREMENTS = ("setuptools<81", "wheel", "torch", "torchvision", "vbench==0.1.5")
_SCRIPT = """
import json, pathlib, sys, vbench
videos, name, output, device, dimensions = sys.argv[1:]
info = pathlib.Path(vbench.__file__).with_name("VBench_full_info.json")
vbench.VBench(device, str(info), output).evaluate(
    videos_path=videos, name=name, dimension_list=json.loads(dimensions), mode="custom_input")
"""


@dataclass(frozen=True)
class DimensionScore:
    """The mean of a dimension over n videos."""

    mean: float
    n: int


@dataclass(frozen=True)
class VBenchCounts:
    asked: int
    scored: int
    failed: int


@dataclass(frozen=True)
class VBenchResult:
    """One row of the table. file: the results file of VBench it was read from."""

    label: str
    scores: dict[str, DimensionScore]
    counts: VBenchCounts
    file: str


@dataclass(frozen=True)
class VBenchResults:
    """What vbench.json holds."""

    results: list[VBenchResult]


@dataclass(frozen=True)
class VideoFolder:
    """A folder of videos, named by clip. asked: how many it should hold."""

    folder: Path
    asked: int


def judge(
    runs: Sequence[Path], results: Sequence[str], environment: Path, python: str | None, device: str, output: Path
) -> str:
    """The table of runs and of their real videos. results: texts LABEL=FILE of what VBench has judged already."""
    with locked(output, ("videos",)):
        return _judge(runs, results, environment, python, device, output)


def _judge(
    runs: Sequence[Path], results: Sequence[str], environment: Path, python: str | None, device: str, output: Path
) -> str:
    files: dict[str, Path] = {}
    for text in results:
        label, equals, file = text.rpartition("=")
        if not equals or not label or not file:
            raise SightlineError(f"results has {text!r}: expected LABEL=FILE.")
        files[label] = Path(file)
    asked: dict[str, int] = {}
    if runs:
        videos = collect(runs, output)
        asked = {label: each.asked for label, each in videos.items()}
        missing = [label for label in videos if label not in files]
        inside = set_up(environment.expanduser(), python) if missing else Path()
        for label in missing:
            folder = videos[label].folder
            files[label] = run_vbench(inside, folder, folder.name, output / "results", device)
    elif not files:
        raise SightlineError("no run is given: expected folders of sightline evaluate, or --results LABEL=FILE.")
    return write_vbench(files, asked, output)


def set_up(environment: Path, python: str | None = None) -> Path:
    """The Python of VBench's environment, which is created if it does not exist."""
    inside = environment / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if (environment / "ready").is_file():
        return inside
    _call([python or sys.executable, "-m", "venv", str(environment)], "an environment for VBench cannot be made")
    _call(
        [str(inside), "-m", "pip", "install", "--quiet", *REQUIREMENTS],
        f"VBench cannot be installed into {environment}, which needs the network and a Python it has wheels for (3.8 to 3.11)",
    )
    write_atomic(environment / "ready", "\n".join(REQUIREMENTS) + "\n")
    return inside


def collect(folders: Sequence[Path], output: Path) -> dict[str, VideoFolder]:
    """Copy the videos of each run, and the real videos of the first, into a folder each; by label."""
    videos: dict[str, VideoFolder] = {}
    runs = [read_result(RunResults, folder / RESULTS) for folder in folders]
    labels = _different_labels([run.label for run in runs])
    places = dict(zip([REAL, *labels], unique_names([REAL, *labels]), strict=True))
    for folder, run, label in zip(folders, runs, labels, strict=True):
        names = [clip.name for clip in run.clips]
        for title, file in [(label, "generated.mp4")] + ([(REAL, "true.mp4")] if label == labels[0] else []):
            existing = [name for name in dict.fromkeys(names) if (folder / "clips" / name / file).is_file()]
            if not existing:
                continue
            copies = output / "videos" / places[title]
            with atomic_folder(copies, overwrite=True) as temporary:
                for name in existing:
                    shutil.copyfile(folder / "clips" / name / file, temporary / f"{name}.mp4")
            videos[title] = VideoFolder(copies, len(names))
    if not videos:
        raise SightlineError(f"{', '.join(map(str, folders))}: found no videos, expected runs of sightline evaluate.")
    return videos


def _different_labels(labels: Sequence[str]) -> list[str]:
    """Labels of which none is another's or that of the real videos: those that are get the number of their run."""
    different: list[str] = []
    for number, label in enumerate(labels, 1):
        different.append(f"{label} {number}" if label in (REAL, *different) else label)
    return different


def run_vbench(python: Path, videos: Path, name: str, output: Path, device: str) -> Path:
    """Run the six dimensions over a folder of videos, unless its results exist; returns the package's results file."""
    contents = [[file.name, file_digest(file)] for file in sorted(videos.iterdir())]
    name = f"{name}-{json_digest(contents)[:12]}"  # another run may have the same label
    file = output / f"{name}_eval_results.json"
    if not file.is_file():
        output.mkdir(parents=True, exist_ok=True)
        arguments = [str(python), "-c", _SCRIPT, str(videos.absolute()), name, str(output.absolute()), device]
        _call(
            [*arguments, json.dumps(DIMENSIONS)],
            f"VBench cannot judge {videos}, which needs its weights (CLIP, DINO, RAFT, AMT, MUSIQ, LAION) in ~/.cache/vbench or "
            "the network",
        )
    return file


def read_dimensions(file: Path) -> dict[str, DimensionScore]:
    """The score of each dimension, from VBench's own json."""
    document, scores = read_json(file, "the results of VBench"), {}
    for dimension in DIMENSIONS:
        entry = document.get(dimension)
        mean = entry[0] if isinstance(entry, list) and entry else None
        if not isinstance(mean, int | float) or not math.isfinite(mean):
            raise SightlineError(f"{file}: found no number for {dimension}, expected the results of VBench.")
        videos = entry[1] if len(entry) > 1 and isinstance(entry[1], list) else []
        scores[dimension] = DimensionScore(float(mean), len(videos))
    return scores


def write_vbench(files: dict[str, Path], asked: dict[str, int], output: Path) -> str:
    """Write vbench.json and vbench.md, the real videos first; returns the table. asked: videos that each row should have."""
    results = []
    for label in sorted(files, key=lambda label: label != REAL):
        scores = read_dimensions(files[label])
        n = min(score.n for score in scores.values())
        wanted = asked.get(label, n)
        if n > wanted:
            raise SightlineError(f"{files[label]} judges {n} videos: expected the {wanted} of {label}.")
        results.append(VBenchResult(label, scores, VBenchCounts(wanted, n, wanted - n), str(files[label])))
    rows = [
        [result.label, *(format_number(result.scores[dimension].mean) for dimension in DIMENSIONS),
         *map(str, (result.counts.asked, result.counts.scored, result.counts.failed))]
        for result in results
    ]  # fmt: skip
    dimensions = [f"{name.replace('_', ' ').title()} ↑" for name in DIMENSIONS]
    text = f"# VBench\n\nThe official package 0.1.5 in its default configuration, mode custom_input. {REAL}: the real videos.\n\n"
    text += grid(["Method", *dimensions, "n asked", "n scored", "n failed"], rows) + "\n"
    write_result(output / "vbench.json", VBenchResults(results))
    write_atomic(output / "vbench.md", text)
    return text


def _call(command: list[str], trouble: str) -> None:
    """Run a program; if it fails, raise `trouble` with the last line of its output."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise SightlineError(f"{trouble} ({reason(error)}): expected a working {command[0]}.") from None
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip() and "[notice]" not in line]
        last = " ".join((lines[-1] if lines else f"exit code {done.returncode}").split())[:200].rstrip(". ")
        raise SightlineError(f"{trouble} ({last}): expected it to run, or its own results with --results LABEL=FILE.")
