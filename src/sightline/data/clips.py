"""Clips: all windows of some sources as one list, in the same order in every run and every process."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip, Skips
from sightline.data.clip_spec import ClipSpec
from sightline.data.frames import FittedFrames
from sightline.data.sources import Source
from sightline.data.split import Part, in_part
from sightline.errors import SightlineError
from sightline.memory import require_video_memory

_LOG = logging.getLogger("sightline.data")
_ASPECT_TOLERANCE = 0.01  # pictures of 480x270 for cameras of 3840x2160 are rounded by less


@dataclass(frozen=True)
class Window:
    """Where a clip comes from."""

    source: int  # position among the sources
    shot: str
    start: int  # first frame of the shot

    @property
    def name(self) -> str:
        return f"{self.shot}@{self.start}"


class Clips(Sequence[Clip]):
    """The clips of some sources. The constructor reads every camera file and no pixels; indexing reads one clip.

    part, held_out: which scenes, and the fraction of scenes that is held out (see sightline.data.split).
    keep: of the scenes of this part, those for which keep(source name, scene name) is true.
    strict: raise at the first broken shot or clip, instead of reporting it in `skips` and leaving it out.
    progress: wraps the shots while they are listed, to show a bar: progress(shots, description).
    """

    def __init__(
        self,
        sources: Sequence[Source],
        spec: ClipSpec | None = None,
        *,
        part: Part = "all",
        held_out: float = 0.01,
        keep: Callable[[str, str], bool] = lambda source, scene: True,
        strict: bool = False,
        progress: Callable[[Sequence[str], str], Iterable[str]] = lambda shots, _: shots,
    ) -> None:
        self.spec = spec or ClipSpec()
        require_video_memory(self.spec.num_frames, self.spec.width, self.spec.height)
        self.sources = [source.for_spec(self.spec) for source in sources]
        self.skips = Skips(strict)
        self.windows: list[Window] = []
        self._last_shot: tuple[int, str, Trajectory] | None = None
        self._warned: set[str] = set()
        for index, source in enumerate(self.sources):
            shots = [
                shot
                for shot in source.shots()
                if in_part(part, source.name, scene := source.scene(shot), held_out) and keep(source.name, scene)
            ]
            with self._warn_once():
                for shot in progress(shots, f"reading cameras of {source.name}"):
                    self._add(index, shot)
        self.skips.log_count()

    def _add(self, index: int, shot: str) -> None:
        source = self.sources[index]
        try:
            starts = self.spec.starts(source.length(shot))
        except SightlineError as error:
            self.skips.report(source.name, shot, error)
            return
        self.windows += [Window(index, shot, start) for start in starts]

    def __len__(self) -> int:
        return len(self.windows)

    def name_of(self, index: int) -> tuple[str, str]:
        """The source and the name of one clip, without reading it."""
        return self.sources[self.windows[index].source].name, self.windows[index].name

    def __getitem__(self, index: int) -> Clip:  # type: ignore[override]  # slices are not supported
        """One clip; a broken one raises a SightlineError."""
        window = self.windows[index]
        source, indices = self.sources[window.source], self.spec.indices(window.start)
        shot = self._shot_trajectory(window)
        pictures = source.frames(window.shot).read(indices, self.spec.width, self.spec.height)
        self._check_aspect(source, shot, pictures)
        caption = source.caption(window.shot, indices)
        return Clip(
            frames=pictures.frames,
            trajectory=self.spec.trajectory(shot, window.start, source.eta, pictures.original_size),
            caption=caption or self.spec.caption,
            has_caption=bool(caption),
            source=source.name,
            name=window.name,
            scene=source.scene(window.shot),
        )

    def __iter__(self) -> Iterator[Clip]:
        """All clips that can be read. Broken ones are reported in `skips`."""
        return (clip for _, clip in self.readable())

    def readable(self) -> Iterator[tuple[Window, Clip]]:
        """All clips that can be read, each with its window. Broken ones are reported in `skips`."""
        for index, window in enumerate(self.windows):
            try:
                clip = self[index]
            except SightlineError as error:
                self.skips.report(self.sources[window.source].name, window.name, error)
                continue
            yield window, clip

    def has_caption(self, index: int) -> bool:
        """Whether the source of one clip has a caption for it."""
        window = self.windows[index]
        return self.sources[window.source].has_caption(window.shot, self.spec.indices(window.start))

    def depth(self, index: int) -> np.ndarray | None:  # -> [H, W]
        """Depth of the first frame of one clip in the unit of its trajectory; None where the source does not know it."""
        window = self.windows[index]
        return self.sources[window.source].depth(window.shot, window.start, self.spec)

    def trajectory(self, index: int) -> Trajectory:
        """The trajectory of one clip, without reading its pixels."""
        window = self.windows[index]
        return self.spec.trajectory(self._shot_trajectory(window), window.start, self.sources[window.source].eta)

    def _shot_trajectory(self, window: Window) -> Trajectory:
        """The trajectory of the whole shot. The last one is kept, since windows of a shot follow one another."""
        key = (window.source, window.shot)
        if self._last_shot is None or self._last_shot[:2] != key:
            with self._warn_once():
                self._last_shot = (*key, self.sources[window.source].trajectory(window.shot))
                self._warn_of_unknown_depth(*self._last_shot)
        return self._last_shot[2]

    def _warn_of_unknown_depth(self, source: int, shot: str, trajectory: Trajectory) -> None:
        if self.spec.near_depth and not trajectory.near_depth:
            name = self.sources[source].name
            warnings.warn(
                f"{name}/{shot}: the near depth of {name} is not known for every shot; where it is not, positions are "
                "multiplied by eta alone.",
                stacklevel=2,
            )

    @contextmanager
    def _warn_once(self) -> Iterator[None]:
        """Readers warn about what they leave out of each file. Each kind of warning is logged for the first file only."""
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield
        for warning in caught:
            kind = str(warning.message).rpartition(": ")[2]
            if kind not in self._warned:
                self._warned.add(kind)
                _LOG.warning("%s (logged for the first file only)", warning.message)

    @staticmethod
    def _check_aspect(source: Source, shot: Trajectory, pictures: FittedFrames) -> None:
        if source.intrinsics_are_relative:
            return
        width, height = pictures.original_size
        if abs(width * shot.height / (height * shot.width) - 1) > _ASPECT_TOLERANCE:
            raise SightlineError(
                f"found pictures of {width}x{height}, expected the aspect ratio of {shot.width}x{shot.height} "
                f"that the cameras were made for."
            )
