"""Results of small invented studies, for the tests of tables, plots, claims and reports."""

from __future__ import annotations

import numpy as np

from sightline.study.results import METRICS, RunResult

CLIPS = {
    "loss": [f"clip {index}" for index in range(12)],
    "video": [f"video {index}" for index in range(6)],
    "revisit": [f"scene {scene}/{loop}" for scene in range(3) for loop in ("truck", "orbit")],
}
MEASURED = ("loss", "psnr_moved", "rot_err", "trans_err", "cam_mc", "return_ratio")


def invent_runs(
    effects: dict[str, float],
    study: str = "main",
    table: str = "metre",
    seeds: int = 3,
    metrics: tuple[str, ...] = MEASURED,
    random_seed: int = 0,
) -> list[RunResult]:
    """Rows that are better than the first by their effect, a fraction of each metric."""
    random = np.random.default_rng(random_seed)
    base = {name: random.uniform(0.5, 1.5, len(CLIPS[METRICS[name].group])) for name in metrics}
    runs = []
    for number, (row, effect) in enumerate(effects.items()):
        for seed in range(seeds):
            values: dict[str, list[float | None]] = {}
            for name in metrics:
                sign = -1 if METRICS[name].better == "lower" else 1
                noise = 0.002 * random.normal(size=len(base[name])) + 0.002 * random.normal()
                values[name] = (base[name] * (1 + sign * effect + noise)).tolist()
            history = {
                "train_loss": [(step, 1 / (1 + step) + 0.4) for step in range(20)],
                "loss": [(0, 1.0), (10, 0.5 - effect), (20, 0.4 - effect)],
                "alpha_q/0": [(0, 0.0), (20, 0.1)],
                "alpha_q/1": [(0, 0.0), (20, -0.3)],
            }
            cost = {
                "new_parameters": 1000.0 * (number + 1),
                "step_seconds": 0.1 + 0.01 * number + 1e-4 * seed,
                "steps": 20.0,
            }
            share = 0.1 + 0.01 * seed
            runs.append(
                RunResult(study, row, seed, table, dict(CLIPS), values, cost, 1e-3, history, {"reciprocal_share": share})
            )  # fmt: skip
    return runs
