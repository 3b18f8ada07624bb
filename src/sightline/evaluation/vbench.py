"""VBench's six dimensions of the paper, through the official package. Its pins are older than ours, so it lives in a virtual
environment of its own; its results files are read, whoever made them."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sightline.digests import file_digest, json_digest
from sightline.errors import SightlineError
from sightline.evaluation.results import RESULTS
from sightline.evaluation.tables import figure, grid
from sightline.files import atomic_folder, read_json, reason, write_atomic

DIMENSIONS = (
    "subject_consistency", "background_consistency", "motion_smoothness", "dynamic_degree", "aesthetic_quality",
    "imaging_quality",
)  # fmt: skip
REAL = "GT"
# torchvision and decord come with it; older setuptools still has pkg_resources, which its clip imports.
REQUIREMENTS = ("setuptools<81", "wheel", "torch", "torchvision", "vbench==0.1.5")
_SCRIPT = """
import json, pathlib, sys, vbench
videos, name, output, device, dimensions = sys.argv[1:]
info = pathlib.Path(vbench.__file__).with_name("VBench_full_info.json")
vbench.VBench(device, str(info), output).evaluate(
    videos_path=videos, name=name, dimension_list=json.loads(dimensions), mode="custom_input")
"""


def judge(
    runs: Sequence[Path], results: Sequence[str], environment: Path, python: str | None, device: str, output: Path
) -> str:
    """The table of runs and of their real videos; results: LABEL=FILE of what VBench has judged already."""
    files: dict[str, Path] = {}
    for text in results:
        label, equals, file = text.rpartition("=")
        if not equals or not label or not file:
            raise SightlineError(f"results has {text!r}: expected LABEL=FILE.")
        files[label] = Path(file)
    asked: dict[str, int] = {}
    if runs:
        videos, asked = collect(runs, output)
        missing = [label for label in videos if label not in files]
        inside = set_up(environment.expanduser(), python) if missing else Path()
        for label in missing:
            files[label] = run_vbench(inside, videos[label], videos[label].name, output / "results", device)
    elif not files:
        raise SightlineError("no run is given: expected folders of sightline evaluate, or --results LABEL=FILE.")
    return write_vbench(files, asked, output)


def set_up(environment: Path, python: str | None = None) -> Path:
    """The Python of VBench's environment, which is made where there is none."""
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


def collect(folders: Sequence[Path], output: Path) -> tuple[dict[str, Path], dict[str, int]]:
    """Folders of films, named by clip, of each run and of the truth; and how many each should hold."""
    found: dict[str, Path] = {}
    asked: dict[str, int] = {}
    for number, folder in enumerate(folders):
        results = read_json(folder / RESULTS, "a file of sightline evaluate")
        names = [clip["clip"] for clip in results.get("clips", [])]
        label = results["label"] if results["label"] not in found else f"{results['label']} {number + 1}"
        for title, film in [(label, "generated.mp4")] + ([(REAL, "true.mp4")] if number == 0 else []):
            there = [name for name in names if (folder / "clips" / name / film).is_file()]
            if not there:
                continue
            place = output / "videos" / _plain(title)
            with atomic_folder(place, overwrite=True) as copied:
                for name in there:
                    shutil.copyfile(folder / "clips" / name / film, copied / f"{name}.mp4")
            found[title], asked[title] = place, len(names)
    if not found:
        raise SightlineError(f"{', '.join(map(str, folders))}: found no films, expected runs of sightline evaluate.")
    return found, asked


def run_vbench(python: Path, videos: Path, name: str, output: Path, device: str) -> Path:
    """Run the six dimensions over a folder of films; returns the package's results file, and does nothing where it is there."""
    contents = [[file.name, file_digest(file)] for file in sorted(videos.iterdir())]
    name = f"{name}-{json_digest(contents)[:12]}"  # another run may bear the same label
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


def read_results(file: Path) -> dict[str, dict[str, Any]]:
    """The mean of each dimension and the number of films behind it, from VBench's own json."""
    document, found = read_json(file, "the results of VBench"), {}
    for dimension in DIMENSIONS:
        entry = document.get(dimension)
        if (
            not isinstance(entry, list)
            or not entry
            or not isinstance(entry[0], int | float)
            or not math.isfinite(entry[0])
        ):
            raise SightlineError(f"{file}: found no number for {dimension}, expected the results of VBench.")
        films = entry[1] if len(entry) > 1 and isinstance(entry[1], list) else []
        found[dimension] = {"mean": float(entry[0]), "n": len(films)}
    return found


def write_vbench(files: dict[str, Path], asked: dict[str, int], output: Path) -> str:
    """vbench.json and vbench.md, the real films first; returns the table. asked: films that each row should have."""
    rows, document = [], {}
    for label in sorted(files, key=lambda label: label != REAL):
        scores = read_results(files[label])
        n = min(score["n"] for score in scores.values())
        wanted = asked.get(label, n)
        if n > wanted:
            raise SightlineError(f"{files[label]} judges {n} films: expected the {wanted} of {label}.")
        document[label] = {
            "scores": scores,
            "n": {"asked": wanted, "scored": n, "failed": wanted - n},
            "file": str(files[label]),
        }
        counts = [str(wanted), str(n), str(wanted - n)]
        rows.append([label, *(figure(scores[dimension]["mean"]) for dimension in DIMENSIONS), *counts])
    head = [
        "Method",
        *(f"{name.replace('_', ' ').title()} ↑" for name in DIMENSIONS),
        "n asked",
        "n scored",
        "n failed",
    ]
    text = f"# VBench\n\nThe official package 0.1.5 in its default configuration, mode custom_input. {REAL}: the real videos.\n\n"
    text += grid(head, rows) + "\n"
    write_atomic(output / "vbench.json", json.dumps(document, indent=1) + "\n")
    write_atomic(output / "vbench.md", text)
    return text


def _plain(label: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in label)


def _call(command: list[str], trouble: str) -> None:
    """Run a program; where it fails, `trouble` and the last line it said."""
    try:
        done = subprocess.run(command, capture_output=True, text=True)
    except OSError as error:
        raise SightlineError(f"{trouble} ({reason(error)}): expected a working {command[0]}.") from None
    if done.returncode:
        said = [line for line in (done.stderr + done.stdout).splitlines() if line.strip() and "[notice]" not in line]
        last = " ".join((said[-1] if said else f"exit code {done.returncode}").split())[:200].rstrip(". ")
        raise SightlineError(f"{trouble} ({last}): expected it to run, or its own results with --results LABEL=FILE.")
