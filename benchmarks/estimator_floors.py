"""Errors of the pose estimators on true videos: `python benchmarks/estimator_floors.py [direct] [colmap] [-o FILE]`.

direct: the lab's held-out clips, 33 frames of 128 x 128 pixels of all four styles, with the depth of frame 0.
colmap: forward, truck, loop and rotation trajectories through held-out rooms, 832 x 480 pixels, with the depth of frame 0.
Prints a line per clip, then one json object with every number; a clip that fails is named with its reason.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from pathlib import Path

import torch

from sightline.data.clip import Clip
from sightline.evaluation.estimator_floor import EstimatorFloorRow, estimator_floor, summarize
from sightline.evaluation.estimators import get_estimator
from sightline.evaluation.held_out import TEXTURED_SEEDS, TRAJECTORIES, held_out_clips, rendered_clip

MARKS = {"direct": (0.01, 0.03), "colmap": (0.002, 0.005)}  # radians, fraction of the trajectory's length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("estimators", nargs="*", default=["direct", "colmap"], help="direct, colmap or both")
    parser.add_argument("--clips", type=int, default=16, help="of the lab, for direct")
    parser.add_argument("--num-frames", type=int, default=25, help="of each trajectory, for colmap")
    parser.add_argument(
        "--rooms", type=int, nargs="+", default=list(TEXTURED_SEEDS), help="seeds of walkthrough scenes, for colmap"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("-o", "--output", type=Path, help="file for the json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    report: dict[str, object] = {"torch": torch.__version__, "cuda": torch.cuda.is_available()}
    for name in options.estimators:
        estimator = get_estimator(name, **({"threads": options.threads} if name == "colmap" else {}))
        clips: Iterable[Clip] = rendered_rooms(options.rooms, options.num_frames)
        if name == "direct":
            clips = held_out_clips(options.clips, depth=True)
        rows, seconds = [], 0.0
        for clip in clips:
            began = time.perf_counter()
            rows += estimator_floor(estimator, [clip])
            seconds += time.perf_counter() - began
            print(name, line(rows[-1], *MARKS[name]), flush=True)
        report[name] = {
            **asdict(summarize(rows)),
            "within_mark": sum(within(row, *MARKS[name]) for row in rows),
            "mark": MARKS[name],
            "seconds_per_clip": round(seconds / max(len(rows), 1), 1),
            "by_kind": {kind: asdict(summarize(some)) for kind, some in by_kind(rows).items()},
            "clips": {row.name: line(row, *MARKS[name]) for row in rows},
        }
    text = json.dumps(report, indent=2)
    print(text)
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(text)


def rendered_rooms(seeds: list[int], num_frames: int) -> Iterator[Clip]:
    for seed in seeds:
        for kind in TRAJECTORIES:
            yield rendered_clip(kind, seed=seed, num_frames=num_frames)


def by_kind(rows: list[EstimatorFloorRow]) -> dict[str, list[EstimatorFloorRow]]:
    """Rows by style or by trajectory, which is the part of a clip's name before the first dash."""
    groups: dict[str, list[EstimatorFloorRow]] = {}
    for row in rows:
        groups.setdefault(row.name.split("-")[0], []).append(row)
    return groups


def within(row: EstimatorFloorRow, rotation: float, fraction: float) -> bool:
    good = row.errors is not None and row.errors.rot_err < rotation
    return good and (row.translation_fraction is None or row.translation_fraction < fraction)


def line(row: EstimatorFloorRow, rotation: float, fraction: float) -> str:
    if row.errors is None:
        return f"{row.name}: failed: {row.estimate.failure}"
    part = "still" if row.translation_fraction is None else f"{row.translation_fraction:.3%} of the trajectory"
    verdict = "" if within(row, rotation, fraction) else " (misses the mark)"
    return (
        f"{row.name}: {row.errors.rot_err:.5f} rad, {row.errors.trans_err:.5f} ({part}), confidence "
        f"{row.estimate.confidence:.2f}{verdict}"
    )


if __name__ == "__main__":
    main()
