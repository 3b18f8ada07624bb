"""Cases: what a protocol films. A first frame, words and a commanded path, and the truth where it is known."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips, Window
from sightline.data.sources import Source, open_sources
from sightline.data.split import Part
from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.lab.models import HELD_OUT_SEED

_log = logging.getLogger("sightline")


@dataclass(frozen=True, eq=False)
class Case:
    """One film to make and to judge.

    name: unique in its run, a folder's name. group: cases that share a first frame, which are not independent.
    first: [H, W, 3] uint8. truth: [T, H, W, 3] uint8, what a camera on the commanded path would have seen.
    depth: [H, W] of the first frame along the optical axis, in the trajectory's unit; the sky is very far.
    """

    name: str
    group: str
    source: str
    caption: str
    trajectory: Trajectory
    first: np.ndarray
    truth: np.ndarray | None = None
    depth: np.ndarray | None = None


class Cases(Protocol):
    """The cases of a protocol: names first, pixels only when a case is loaded."""

    @property
    def names(self) -> Sequence[str]:
        """Of each case."""

    def load(self, index: int) -> Case:
        """A case that is broken raises its sentence."""

    def settings(self) -> dict[str, Any]:
        """What makes the cases what they are."""


@dataclass(frozen=True)
class Selection:
    """Which clips, of which sources. part: of the sources' own split; worlds from HELD_OUT_SEED on are held out as a whole."""

    sources: tuple[str, ...]
    clips: int
    part: Part
    held_out: float
    spec: ClipSpec


def default_sources(styles: Sequence[str], clips: int) -> tuple[str, ...]:
    """Worlds that no stage of the lab's training has seen, as many of each style as of the others.

    In metres: a scale that is drawn anew for each clip, as structure from motion has it, is not to be seen in a first
    frame, and a raw error would measure the draw.
    """
    each = -(-clips // len(styles))
    return tuple(f"worlds:{style}?seed={HELD_OUT_SEED}&clips={each}&unit=metre" for style in styles)


class StandardCases:
    """First frame and true trajectory of clips, spaced evenly over all that the selection holds."""

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
        self.names = [self._name(self.clips.windows[index]) for index in self.chosen]

    def load(self, index: int) -> Case:
        clip = self.clips[self.chosen[index]]
        name = self.names[index]
        depth = self.clips.depth(self.chosen[index])
        return Case(
            name, name, clip.source, clip.caption, clip.trajectory, clip.frames[0], clip.frames, depth
        )  # fmt: skip

    def settings(self) -> dict[str, Any]:
        sources = [source.settings() for source in self.clips.sources]
        chosen = self.selection
        part = {"part": chosen.part, "held_out": chosen.held_out if chosen.part != "all" else None}
        shape = {"frames": chosen.spec.num_frames, "width": chosen.spec.width, "height": chosen.spec.height}
        return {
            "sources": sources, "clips": len(self.names), "names of clips": json_digest(self.names), **part, **shape,
            "near_depth": chosen.spec.near_depth,
            "shots that could not be read": len(self.clips.skips),
        }  # fmt: skip

    def source(self, window: Window) -> Source:
        return self.clips.sources[window.source]

    def _name(self, window: Window) -> str:
        return re.sub(r"[^\w.+-]+", "_", f"{self.source(window).name}-{window.shot}-{window.start}")
