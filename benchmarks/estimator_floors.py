"""What the pose estimators get wrong on true videos: `python benchmarks/estimator_floors.py [direct] [colmap] [-o FILE]`.

direct: the lab's held-out clips, 33 frames of 128 x 128 pixels of all four styles, with the depth of frame 0.
colmap: forward, truck, loop and rotation paths through held-out rooms, 832 x 480 pixels, with the depth of frame 0.
Prints a line per clip, then one json object with every number; a clip that fails is named with its reason.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from pathlib import Path

import torch

from sightline.evaluation.estimators import get_estimator
from sightline.evaluation.floors import (
    PATHS,
    TEXTURED,
    FloorRow,
    TrueClip,
    estimator_floor,
    filmed_truth,
    floor_summary,
    held_out_truths,
)

MARKS = {"direct": (0.01, 0.03), "colmap": (0.002, 0.005)}  # radians, share of the path's length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("estimators", nargs="*", default=["direct", "colmap"], help="direct, colmap or both")
    parser.add_argument("--clips", type=int, default=16, help="of the lab, for direct")
    parser.add_argument("--frames", type=int, default=25, help="of each path, for colmap")
    parser.add_argument(
        "--rooms", type=int, nargs="+", default=list(TEXTURED), help="seeds of walkthrough scenes, for colmap"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("-o", "--out", type=Path, help="file for the json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report: dict[str, object] = {"torch": torch.__version__, "cuda": torch.cuda.is_available()}
    for name in options.estimators:
        estimator = get_estimator(name, **({"threads": options.threads} if name == "colmap" else {}))
        truths = iter(held_out_truths(options.clips)) if name == "direct" else rooms(options.rooms, options.frames)
        rows, seconds = [], 0.0
        for clip in truths:
            began = time.perf_counter()
            rows += estimator_floor(estimator, [clip])
            seconds += time.perf_counter() - began
            print(name, line(rows[-1], *MARKS[name]), flush=True)
        report[name] = {
            **floor_summary(rows),
            "within_mark": sum(within(row, *MARKS[name]) for row in rows),
            "mark": MARKS[name],
            "seconds_per_clip": round(seconds / max(len(rows), 1), 1),
            "by_kind": {kind: floor_summary(some) for kind, some in by_kind(rows).items()},
            "clips": {row.name: line(row, *MARKS[name]) for row in rows},
        }
    text = json.dumps(report, indent=2)
    print(text)
    if options.out is not None:
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(text)


def rooms(seeds: list[int], frames: int) -> Iterator[TrueClip]:
    for seed in seeds:
        for kind in PATHS:
            yield filmed_truth(kind, seed=seed, frames=frames)


def by_kind(rows: list[FloorRow]) -> dict[str, list[FloorRow]]:
    """Rows of a style of the lab, or of a path: what stands before the first dash of a clip's name."""
    found: dict[str, list[FloorRow]] = {}
    for row in rows:
        found.setdefault(row.name.split("-")[0], []).append(row)
    return found


def within(row: FloorRow, rotation: float, share: float) -> bool:
    good = row.errors is not None and row.errors.rot_err < rotation
    return good and (row.translation_share is None or row.translation_share < share)


def line(row: FloorRow, rotation: float, share: float) -> str:
    if row.errors is None:
        return f"{row.name}: failed: {row.estimate.failure}"
    part = "still" if row.translation_share is None else f"{row.translation_share:.3%} of the path"
    verdict = "" if within(row, rotation, share) else " (misses the mark)"
    return (
        f"{row.name}: {row.errors.rot_err:.5f} rad, {row.errors.trans_err:.5f} ({part}), confidence "
        f"{row.estimate.confidence:.2f}{verdict}"
    )


if __name__ == "__main__":
    main()
