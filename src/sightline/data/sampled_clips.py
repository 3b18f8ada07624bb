"""Scenes, cameras and captions of rendered clips: what is made on CPU cores, in several processes, before rendering.

Worker processes import this module, so it needs no model library.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from sightline.cameras.camera_batch import CameraBatch
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Window
from sightline.data.shot_batch import ShotBatch
from sightline.data.sources import Source


@dataclass(frozen=True, eq=False)
class SampledClips:
    """Clips of one source that are ready to be rendered. About 20 KB per clip, since it is sent between processes."""

    shots: ShotBatch
    captions: tuple[str, ...]
    cameras: CameraBatch  # of the clips, anchored and scaled
    places: tuple[int, ...]  # of these clips in the batch that was asked for


def sample_clips(sources: Sequence[Source], spec: ClipSpec, windows: Sequence[Window]) -> list[SampledClips]:
    """Scenes and cameras of some clips, one entry per source. Needs no model and no device, so it may run in any process."""
    sampled = []
    for number in dict.fromkeys(window.source for window in windows):
        source = sources[number]
        places = tuple(place for place, window in enumerate(windows) if window.source == number)
        shots = source.sample_shots([windows[place].shot for place in places])
        captions, cameras = shots.captions, shots.clip_cameras(spec, source.eta)
        takes = dataclasses.replace(shots.takes, scenes=shots.takes.scenes.for_rendering())
        # A new ShotBatch carries nothing that was computed on the way.
        sampled.append(SampledClips(dataclasses.replace(shots, takes=takes), captions, cameras, places))
    return sampled
