"""Intervals and p-values of a study: equal to known formulas where there are some, and calibrated in simulated studies."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.study.results import RunResult
from sightline.study.seed_spread import SeedSpread
from sightline.study.statistics import Bootstrap, Values, collect

ROWS, SEEDS, CLIPS = 4, 3, 16
# Standard deviations of what the rows do not share: from seed to seed, from clip to clip, and from one video to another.
REGIMES = {"seeds": (1.0, 0.0, 0.01), "clips": (0.0, 1.0, 0.01), "videos": (0.0, 0.0, 1.0), "all": (0.4, 1.0, 1.0)}


def values_of(array: np.ndarray, scenes: list[str] | None = None) -> Values:  # [K, R, C]
    rows, seeds, clips = array.shape
    return Values(
        [f"row {row}" for row in range(rows)], list(range(seeds)), scenes or list(map(str, range(clips))), array
    )


def draw_study(random: np.random.Generator, regime: str, rows: int = ROWS, clips: int = CLIPS) -> np.ndarray:
    """Rows of equal quality: clips of very different difficulty, seeds that move all rows, and what is each row's own."""
    of_seed, of_clip, of_video = REGIMES[regime]
    shared = 5 * random.normal(size=(1, 1, clips)) + random.normal(size=(1, SEEDS, 1))
    own = of_seed * random.normal(size=(rows, SEEDS, 1)) + of_clip * (random.exponential(size=(rows, 1, clips)) - 1)
    noise: np.ndarray = of_video * random.normal(size=(rows, SEEDS, clips))
    return shared + own + noise


@pytest.mark.parametrize("regime", REGIMES)
def test_one_false_finding_in_twenty(regime: str) -> None:
    random, found, studies = np.random.default_rng(1), 0, 250
    for _ in range(studies):
        difference = Bootstrap(values_of(draw_study(random, regime)), resamples=400).difference("row 0", "row 1")
        found += difference is not None and difference.p_value is not None and difference.p_value <= 0.05
    assert 0.015 <= found / studies <= 0.09


def test_the_interval_of_a_mean_covers_it() -> None:
    random, covered, studies = np.random.default_rng(2), 0, 200
    for _ in range(studies):
        mean = Bootstrap(values_of(draw_study(random, "all")), resamples=400).mean("row 0")
        assert mean is not None
        low, high = mean.interval
        assert low is not None and high is not None
        covered += low <= 0 <= high
    assert 0.90 <= covered / studies <= 0.995


@pytest.mark.parametrize("regime", REGIMES)
def test_a_large_effect_is_found_and_covered(regime: str) -> None:
    random, found, covered, studies = np.random.default_rng(3), 0, 0, 30
    effect = {"seeds": 4.0, "clips": 2.0, "videos": 1.5, "all": 3.0}[regime]
    for _ in range(studies):
        array = draw_study(random, regime)
        array[0] -= effect
        difference = Bootstrap(values_of(array), resamples=400).difference("row 0", "row 1")
        assert difference is not None and difference.p_value is not None
        low, high = difference.interval
        assert low is not None and high is not None
        found += difference.p_value <= 0.05
        covered += low <= -effect <= high
    assert found >= 0.8 * studies
    assert covered >= 0.8 * studies


def test_interval_over_clips_is_students() -> None:
    """With one seed and normal clips, the interval is that of the paired t test."""
    array = np.random.default_rng(0).normal(size=(2, 1, 30))
    contrast = Bootstrap(values_of(array), resamples=40_000).difference("row 0", "row 1")
    assert contrast is not None and contrast.seeds == 1 and contrast.clips == 30
    paired = array[0, 0] - array[1, 0]
    half = 2.0452 * paired.std(ddof=1) / np.sqrt(30)  # t of 29 degrees of freedom
    assert contrast.interval == pytest.approx((paired.mean() - half, paired.mean() + half), abs=0.06 * half)


def test_interval_over_seeds_is_students() -> None:
    """With one value per run, such as a time, two rows and five seeds, the interval is that of the paired t test."""
    array = np.random.default_rng(4).normal(size=(2, 5, 1))
    contrast = Bootstrap(values_of(array), resamples=40_000).difference("row 0", "row 1")
    paired = array[0, :, 0] - array[1, :, 0]
    half = 2.7764 * paired.std(ddof=1) / np.sqrt(5)  # t of 4 degrees of freedom
    assert contrast is not None
    assert contrast.interval == pytest.approx((paired.mean() - half, paired.mean() + half), abs=0.12 * half)


def test_what_the_rows_share_cancels() -> None:
    """Hard clips and lucky seeds that all rows share make the means uncertain, but not the difference."""
    random = np.random.default_rng(5)
    shared = 10 * random.normal(size=(1, 1, 20)) + 3 * random.normal(size=(1, 3, 1))
    array = np.concatenate([shared, shared + 0.1]) + 0.01 * random.normal(size=(2, 3, 20))
    bootstrap = Bootstrap(values_of(array))
    mean, difference = bootstrap.mean("row 0"), bootstrap.difference("row 1", "row 0")
    assert mean is not None and difference is not None
    assert np.ptp(mean.interval) > 5
    assert np.ptp(difference.interval) < 0.05
    assert difference.interval[0] is not None and difference.interval[0] > 0


def test_a_row_with_a_large_spread_is_not_pooled() -> None:
    means = np.random.default_rng(6).normal(size=(6, 3)) * 0.01
    means[2] = (-1.0, 0.2, 0.8)
    spread = SeedSpread(means, list("abcdef"), paired=True)
    assert list(spread.own) == ["c"]
    assert spread.freedom == 8  # four rows beyond the first, two seeds beyond the first
    assert np.abs(spread.pool).max() < 0.1
    calm, wild = ({"a": 1.0, "b": -1.0}, {"a": 1.0, "c": -1.0})
    assert spread.draw(wild, 3, 2000, 0).std() > 10 * spread.draw(calm, 3, 2000, 0).std()


def test_clips_of_a_scene_are_resampled_together() -> None:
    """Four copies of each clip in one scene hold no more information than one."""
    array = np.random.default_rng(7).normal(size=(2, 1, 8))
    copies, scenes = np.repeat(array, 4, axis=2), [str(index // 4) for index in range(32)]
    once = Bootstrap(values_of(array)).difference("row 0", "row 1")
    grouped = Bootstrap(values_of(copies, scenes)).difference("row 0", "row 1")
    assert once is not None and grouped is not None
    assert grouped.interval == pytest.approx(once.interval)
    assert grouped.clips == 32


def test_missing_values_leave_the_common_clips_and_seeds() -> None:
    array = np.random.default_rng(8).normal(size=(3, 3, 10))
    array[0, 1, 4] = np.nan  # one clip of one seed
    array[1, 2] = np.nan  # a whole seed
    bootstrap = Bootstrap(values_of(array))
    contrast, mean = bootstrap.difference("row 0", "row 1"), bootstrap.mean("row 1")
    assert contrast is not None and (contrast.seeds, contrast.clips) == (2, 9)
    assert mean is not None and (mean.seeds, mean.clips) == (2, 10)
    kept = [clip for clip in range(10) if clip != 4]
    assert contrast.estimate == pytest.approx((array[0, :2] - array[1, :2])[:, kept].mean())
    array[2] = np.nan
    assert Bootstrap(values_of(array)).difference("row 0", "row 2") is None


def test_one_seed_and_one_value_have_no_interval() -> None:
    contrast = Bootstrap(values_of(np.array([[[1.0]], [[2.0]]]))).difference("row 0", "row 1")
    assert contrast is not None and contrast.estimate == -1
    assert contrast.interval == (None, None) and contrast.p_value is None


def test_margins_are_compared_as_ratios() -> None:
    """12 % at one size against 25 % at another: the growth is log(0.75 / 0.88)."""
    base = np.random.default_rng(9).uniform(1, 2, (1, 1, 24))
    noise = 1 + 0.001 * np.random.default_rng(10).normal(size=(4, 3, 24))
    array = base * np.array([0.75, 1.0, 2 * 0.88, 2 * 1.0])[:, None, None] * noise
    growth = Bootstrap(values_of(array)).margin_growth(("row 0", "row 1"), ("row 2", "row 3"))
    assert growth is not None and growth.p_value is not None
    assert growth.estimate == pytest.approx(np.log(0.75 / 0.88), abs=0.002)
    assert growth.p_value < 0.001


def test_collect_orders_rows_seeds_and_clips() -> None:
    clips = {"video": ["a", "b"]}
    runs = [
        RunResult("main", row, seed, "metre", clips, {"rot_err": [value, None]}, {"step_seconds": value}, facts={"jobs": 2.0})
        for row, seed, value in (("y", 1, 3.0), ("y", 0, 2.0), ("x", 1, 5.0))
    ]  # fmt: skip
    runs.append(RunResult("main", "z", 0, "metre", failure="It does not fit."))
    values = collect(runs, "rot_err")
    assert (values.rows, values.seeds) == (["y", "x"], [0, 1])
    np.testing.assert_array_equal(values.array, [[[2.0], [3.0]], [[np.nan], [5.0]]])
    assert collect(runs, "step_seconds").array[0, :, 0].tolist() == [2.0, 3.0]
    assert collect(runs, "jobs").array[0].ravel().tolist() == [2.0, 2.0]
