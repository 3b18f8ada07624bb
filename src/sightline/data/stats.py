"""Statistics of camera motion per source, from which eta is chosen. Reads trajectories only, no pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sightline.cameras.statistics import moment_magnitudes, trajectory_statistics
from sightline.checks import whole_number
from sightline.data.clip import Skips
from sightline.data.clip_spec import ClipSpec
from sightline.data.sources import Source
from sightline.errors import SightlineError

_GRID = (5, 8)  # rows and columns of rays per frame, enough for medians over many clips


@dataclass(frozen=True)
class Quantiles:
    """Quantiles of a distribution of |m|."""

    median: float
    percentile_5: float
    percentile_25: float
    percentile_75: float
    percentile_95: float

    @classmethod
    def from_values(cls, values: Tensor) -> Quantiles:  # [N]
        ordered = values.sort().values  # torch.quantile refuses more than 16 million values
        levels = (0.5, 0.05, 0.25, 0.75, 0.95)
        return cls(*(float(ordered[round(level * (len(ordered) - 1))]) for level in levels))


@dataclass(frozen=True, eq=False)
class SourceStatistics:
    """Camera motion of one source, over the first window of a sample of its shots.

    Distances are in the source's own units unless said otherwise. |m| is taken over a grid of rays in all frames but the
    first of a window, where it is 0 by construction.
    """

    name: str
    eta: float
    shots: int
    """All shots of the source, of which `clips` were measured."""
    clips: int
    frames: int
    path_length: float
    """Median over the clips."""
    turn: float
    """Median over the clips of the sum of rotations from frame to frame, degrees."""
    with_near_depth: int
    """Number of clips whose near depth is known."""
    raw: Quantiles
    scaled: Quantiles
    """After eta."""
    normalised: Quantiles | None
    """After eta and, where the near depth is known, 1/z_n; None where it is known for no clip."""
    moments: Tensor
    """[N] |m| of every ray in the source's own units."""
    normalised_moments: Tensor
    """[N] the same, divided by z_n where it is known."""
    moves: tuple[str, ...]
    """The line of the move language that each clip's camera follows; empty where it follows none."""


def source_statistics(
    source: Source,
    spec: ClipSpec | None = None,
    clips: int = 200,
    *,
    strict: bool = False,
    progress: Callable[[Sequence[str], str], Iterable[str]] = lambda shots, _: shots,
) -> SourceStatistics:
    """Measure at most `clips` shots of a source, evenly spaced in its list."""
    if spec is not None and spec.num_frames < 2:
        raise SightlineError(
            f"num_frames is {spec.num_frames}: expected at least 5, since a single camera does not move."
        )
    spec = spec or ClipSpec()
    source = source.for_spec(spec)
    shots, skips = source.shots(), Skips(strict)
    count = min(whole_number("clips", clips), len(shots))
    sample = [shots[index * len(shots) // count] for index in range(count)]
    lengths, turns, moments, normalised, moves, with_near_depth = [], [], [], [], [], 0
    for shot in progress(sample, f"measuring {source.name}"):
        try:
            trajectory = source.trajectory(shot)
            spec.starts(len(trajectory))
        except SightlineError as error:
            skips.report(source.name, shot, error)
            continue
        window = spec.trajectory(trajectory, 0, eta=1.0 / spec.scale(trajectory, 1.0))  # in the source's own units
        statistics = trajectory_statistics(window, _GRID)
        lengths.append(statistics.path_length)
        turns.append(statistics.total_turn)
        moments.append(moment_magnitudes(window, _GRID)[1:].flatten().float())
        moves.append(source.move(shot))
        with_near_depth += trajectory.near_depth is not None
        normalised.append(moments[-1] / (trajectory.near_depth or 1.0))
    skips.log_count()
    if not moments:
        raise SightlineError(f"{source.name}: none of {len(sample)} shots could be measured, expected at least one.")
    all_moments, all_normalised = torch.cat(moments), torch.cat(normalised)
    return SourceStatistics(
        name=source.name,
        eta=source.eta,
        shots=len(shots),
        clips=len(moments),
        frames=len(moments) * spec.num_frames,
        path_length=float(torch.tensor(lengths).median()),
        turn=float(torch.tensor(turns).median()),
        with_near_depth=with_near_depth,
        raw=Quantiles.from_values(all_moments),
        scaled=Quantiles.from_values(source.eta * all_moments),
        normalised=Quantiles.from_values(source.eta * all_normalised) if with_near_depth else None,
        moments=all_moments,
        normalised_moments=all_normalised,
        moves=tuple(moves),
    )


def suggested_etas(sources: Sequence[SourceStatistics], near_depth: bool = False) -> list[float]:
    """The eta of each source that gives it the median |m| the first source has under its own eta.

    near_depth: after 1/z_n where it is known, as training with that option sees it. A source that never moves gets nan.
    """
    medians = [float((source.normalised_moments if near_depth else source.moments).median()) for source in sources]
    target = sources[0].eta * medians[0]
    return [target / median if median > 0 else float("nan") for median in medians]
