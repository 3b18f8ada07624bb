"""Cases: what a protocol generates and judges. A clip to start from, a trajectory, and the ground truth where it is known."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips, Window
from sightline.data.sources import Source, open_sources
from sightline.data.split import Part
from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.evaluation.results import CaseSettings
from sightline.lab.models import HELD_OUT_SEED
from sightline.names import unique_names

_log = logging.getLogger("sightline")


@dataclass(frozen=True)
class ClipFacts:
    """What is known about the clips of a run before any is read.

    without_depth: names of the sources that do not know the depth of a clip's first frame. units: of each source's trajectories.
    """

    without_depth: tuple[str, ...]
    units: Mapping[str, str]


@dataclass(frozen=True, eq=False)
class Case:
    """One video to generate and judge.

    name: unique in its run; also the name of its folder. group: cases of one group share a first frame, so they are not
        independent.
    clip: gives the first frame, its depth where it is known, and the caption; its frames are the ground truth of its
        trajectory.
    other_trajectory: the commanded trajectory where it is not the clip's own. There is no ground truth for it.
    """

    name: str
    group: str
    clip: Clip
    other_trajectory: Trajectory | None = None

    @property
    def trajectory(self) -> Trajectory:
        """The commanded trajectory."""
        return self.clip.trajectory if self.other_trajectory is None else self.other_trajectory

    @property
    def ground_truth(self) -> np.ndarray | None:  # [T, H, W, 3] uint8
        """What a camera on the commanded trajectory would have seen."""
        return self.clip.frames if self.other_trajectory is None else None


class Cases(Protocol):
    """The cases of a protocol: their names are known at once, their pixels only when a case is loaded."""

    @property
    def names(self) -> Sequence[str]:
        """The name of each case."""

    def load(self, index: int) -> Case:
        """One case; a clip that cannot be read raises SightlineError."""

    def facts(self) -> ClipFacts:
        """What is known about the clips before any is read."""

    def settings(self) -> CaseSettings:
        """What decides which cases these are."""


@dataclass(frozen=True)
class Selection:
    """Which clips of which sources. part, held_out: of the sources' own split (see data/split.py)."""

    sources: tuple[str, ...]
    clips: int
    part: Part
    held_out: float
    spec: ClipSpec


def default_sources(styles: Sequence[str], clips: int) -> tuple[str, ...]:
    """Procedural worlds that no training stage of the lab has seen, equally many of each style.

    Positions are in metres. A scale drawn for each clip, as structure from motion gives it, cannot be read off the first
    frame, so a raw error would only measure the draw.
    """
    each = -(-clips // len(styles))
    return tuple(f"worlds:{style}?seed={HELD_OUT_SEED}&clips={each}&unit=metre" for style in styles)


class StandardCases:
    """First frames and true trajectories of clips, spaced evenly over the clips of the selection."""

    def __init__(self, selection: Selection) -> None:
        self.selection = selection
        self.clips = Clips(
            open_sources(selection.sources), selection.spec, part=selection.part, held_out=selection.held_out
        )
        if not len(self.clips):
            raise SightlineError(
                f"the {selection.part} part of {', '.join(selection.sources)} holds no clip: expected at least one; see "
                "--part and --held-out."
            )
        if len(self.clips) < selection.clips:
            _log.warning("found %d clips, not the %d that were asked for.", len(self.clips), selection.clips)
        count = min(selection.clips, len(self.clips))
        self.chosen = [round(at) for at in np.linspace(0, len(self.clips) - 1, count)]
        self.names = unique_names(self._name(self.clips.windows[index]) for index in self.chosen)

    def load(self, index: int) -> Case:
        clip, depth = self.clips[self.chosen[index]], self.clips.depth(self.chosen[index])
        return Case(self.names[index], self.names[index], replace(clip, depth=depth))

    def facts(self) -> ClipFacts:
        first = {window.source: index for index, window in reversed(list(enumerate(self.clips.windows)))}
        used = {self.clips.sources[number]: index for number, index in sorted(first.items())}
        return ClipFacts(
            tuple(source.name for source in used if not source.knows_depth(self.selection.spec)),
            {source.name: self.clips.trajectory(index).unit for source, index in used.items()},
        )

    @cached_property
    def with_caption(self) -> int:
        """The number of chosen clips whose source has a caption."""
        return sum(self.clips.has_caption(index) for index in self.chosen)

    def settings(self) -> CaseSettings:
        selection, spec = self.selection, self.selection.spec
        return CaseSettings(
            sources=[source.settings() for source in self.clips.sources],
            clips=len(self.names),
            names_digest=json_digest(self.names),
            part=selection.part,
            held_out=selection.held_out if selection.part != "all" else None,
            num_frames=spec.num_frames,
            stride=spec.stride,
            width=spec.width,
            height=spec.height,
            near_depth=spec.near_depth,
            with_caption=self.with_caption,
            default_caption=spec.caption,
            unreadable_shots=len(self.clips.skips),
        )

    def source(self, window: Window) -> Source:
        return self.clips.sources[window.source]

    def _name(self, window: Window) -> str:
        return f"{self.source(window).name}-{window.shot}-{window.start}"
