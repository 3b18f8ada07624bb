"""The HTML page of a run or of a comparison: videos side by side, sortable by any score. The page is one file and refers only
to the videos and plots of the runs."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

from sightline.evaluation.results import ClipResult, Failure, RunResults
from sightline.evaluation.scores import SCORES, ScoreInfo
from sightline.evaluation.tables import format_number
from sightline.files import write_atomic


@dataclass(frozen=True)
class _Video:
    label: str
    link: str


@dataclass(frozen=True)
class _RunOfClip:
    """What one run made of a clip. scores: title and formatted value."""

    label: str
    scores: list[tuple[str, str]]
    failures: list[Failure]


@dataclass(frozen=True)
class _Card:
    """One clip: the true video and that of each run, the first run's trajectories, and the scores and failures of each run.

    sort_scores: json of the first run's scores, by which the page sorts.
    """

    name: str
    caption: str
    sort_scores: str
    videos: list[_Video]
    trajectories: str | None
    runs: list[_RunOfClip]


@dataclass(frozen=True)
class _Block:
    """A piece of our own markdown: a heading, a table, a list or a paragraph. parts: alternately text and code."""

    kind: str
    level: int = 0
    rows: tuple[tuple[str, ...], ...] = ()
    parts: tuple[str, ...] = ()


def write_page(
    path: Path, title: str, tables: str, runs: Sequence[RunResults], folders: Sequence[Path], plots: Sequence[Path]
) -> None:
    """tables: markdown. folders: one for each run. The clips shown are those of the first run."""
    start = path.parent.absolute()
    keys = [key for key in SCORES if any(key in clip.generated.scores for run in runs for clip in run.clips)]
    cards = [
        _card(clip, runs, folders, start, [key for key in keys if _is_shown(SCORES[key])]) for clip in runs[0].clips
    ]
    page = environment().get_template("page.html.j2").render(
        title=title,
        blocks=_parse_markdown(tables),
        plots=[(_link(plot, start), plot.stem) for plot in plots],
        label=runs[0].label,
        several_runs=len(runs) > 1,
        sort_options=[(key, SCORES[key].title) for key in keys],
        cards=cards,
    )  # fmt: skip
    write_atomic(path, page)


@cache
def environment(*packages: str) -> Environment:
    """Where templates are found: in the folders `templates` of these packages, then in that of evaluation."""
    loaders = [PackageLoader(package) for package in (*packages, "sightline.evaluation")]
    return Environment(
        loader=ChoiceLoader(loaders), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )  # fmt: skip


def _is_shown(score: ScoreInfo) -> bool:
    """Whether a score is printed under each clip; the others, which repeat or restate one, can still be sorted by."""
    return score.alignment != "gt_scaled" and not score.repeats_raw


def _card(
    clip: ClipResult, runs: Sequence[RunResults], folders: Sequence[Path], start: Path, keys: Sequence[str]
) -> _Card:
    files = [("true", folders[0] / "clips" / clip.name / "true.mp4")]
    files += [
        (run.label, folder / "clips" / clip.name / "generated.mp4") for run, folder in zip(runs, folders, strict=True)
    ]
    trajectories = folders[0] / "clips" / clip.name / "trajectories.png"
    return _Card(
        name=clip.name,
        caption=clip.caption,
        sort_scores=json.dumps(clip.generated.scores),
        videos=[_Video(label, _link(file, start)) for label, file in files if file.is_file()],
        trajectories=_link(trajectories, start) if trajectories.is_file() else None,
        runs=[_run_of_clip(run, clip.name, keys) for run in runs],
    )


def _run_of_clip(run: RunResults, name: str, keys: Sequence[str]) -> _RunOfClip:
    clip = next((clip for clip in run.clips if clip.name == name), ClipResult(name, name))
    scores = clip.generated.scores
    shown = [(SCORES[key].title, format_number(scores[key])) for key in keys if key in scores]
    return _RunOfClip(run.label, shown, clip.failures)


def _link(file: Path, start: Path) -> str:
    return quote(Path(os.path.relpath(file.absolute(), start)).as_posix())


def _parse_markdown(markdown: str) -> list[_Block]:
    """The blocks of our own tables, which use headings, tables, lists, paragraphs and `code`."""
    blocks = []
    for text in markdown.strip().split("\n\n"):
        lines = text.splitlines()
        if lines[0].startswith("#"):
            level = 1 + len(lines[0]) - len(lines[0].lstrip("#"))
            blocks.append(_Block("heading", level, parts=(lines[0].lstrip("# "),)))
        elif lines[0].startswith("|"):
            rows = [re.split(r"(?<!\\)\|", line)[1:-1] for line in lines]
            cells = [tuple(cell.strip().replace("\\|", "|") for cell in row) for row in rows]
            blocks.append(_Block("table", rows=(cells[0], *cells[2:])))
        elif lines[0].startswith("- "):
            blocks.append(_Block("list", parts=tuple(line[2:] for line in lines)))
        else:
            blocks.append(_Block("paragraph", parts=tuple(re.split(r"`([^`]+)`", " ".join(lines)))))
    return blocks
