"""How often does a study call equal rows different? Simulated studies without any difference, at the 5 % level.

    python benchmarks/study_calibration.py

Each study has rows x seeds x clips. What rows do not share comes from the seeds, from the clips, from single videos, or from all
three. `plain` resamples the three seeds and the clips with replacement, as is often done; `sightline` is what the study uses.
"""

from __future__ import annotations

import argparse

import numpy as np

from sightline.study.statistics import Bootstrap, Values

# Standard deviations from seed to seed, from clip to clip, and from one video to another.
REGIMES = {"seeds": (1.0, 0.0, 0.01), "clips": (0.0, 1.0, 0.01), "videos": (0.0, 0.0, 1.0), "all": (0.3, 1.0, 1.0)}


def draw_study(random: np.random.Generator, regime: str, rows: int, seeds: int, clips: int) -> np.ndarray:
    """Rows of equal quality [rows, seeds, clips], with clips of different difficulty and seeds that move all rows alike."""
    of_seed, of_clip, of_video = REGIMES[regime]
    shared = 5 * random.normal(size=(1, 1, clips)) + random.normal(size=(1, seeds, 1))
    own = of_seed * random.normal(size=(rows, seeds, 1)) + of_clip * (random.exponential(size=(rows, 1, clips)) - 1)
    noise: np.ndarray = of_video * random.normal(size=(rows, seeds, clips))
    return shared + own + noise


def plain_p_value(difference: np.ndarray, random: np.random.Generator, resamples: int) -> float:  # [seeds, clips]
    seeds, clips = difference.shape
    seed_shares = random.multinomial(seeds, np.full(seeds, 1 / seeds), resamples) / seeds
    clip_shares = random.multinomial(clips, np.full(clips, 1 / clips), resamples) / clips
    draws = np.einsum("bs,sc,bc->b", seed_shares, difference, clip_shares, optimize=True)
    return float(2 * min((draws <= 0).mean(), (draws >= 0).mean()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("rows", 5), ("seeds", 3), ("clips", 32), ("studies", 1000), ("resamples", 1000)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    rows, clips = (list(map(str, range(count))) for count in (options.rows, options.clips))
    print("| rows differ by | plain | sightline |\n|---|---|---|")
    for regime in REGIMES:
        random, plain, ours = np.random.default_rng(0), 0, 0
        for _ in range(options.studies):
            array = draw_study(random, regime, options.rows, options.seeds, options.clips)
            values = Values(rows, list(range(options.seeds)), clips, array)
            contrast = Bootstrap(values, options.resamples).difference("0", "1")
            assert contrast is not None and contrast.p_value is not None
            ours += contrast.p_value <= 0.05
            plain += plain_p_value(array[0] - array[1], random, options.resamples) <= 0.05
        print(f"| {regime} | {100 * plain / options.studies:.1f} % | {100 * ours / options.studies:.1f} % |")


if __name__ == "__main__":
    main()
