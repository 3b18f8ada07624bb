"""What a film will cost: its memory, estimated from the model, and its time, judged by earlier films or guessed without any."""

from __future__ import annotations

import contextlib
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from sightline.errors import SightlineError
from sightline.generation.memory import estimate
from sightline.generation.model import Model
from sightline.memory import GIB
from sightline.studio.film_guess import FilmGuess
from sightline.studio.library import Library
from sightline.studio.page_text import counted
from sightline.studio.remaining import duration


class FilmSettings(NamedTuple):
    """What the time of a film depends on, for one model."""

    num_frames: int
    width: int
    height: int
    num_inference_steps: int
    text_guidance: bool
    camera_guidance: bool

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.num_frames, self.width, self.height


class FilmSeconds(NamedTuple):
    """How long a film took, without loading the model. The steps are all of it where a folder tells nothing else."""

    sampling: float
    decoding: float

    @classmethod
    def of(cls, result: Mapping[str, Any]) -> FilmSeconds:
        """result: of a film's settings.json."""
        if "sampling_seconds" not in result:  # of an earlier version, or of `sightline generate`
            return cls(float(result["seconds"]), 0.0)
        return cls(float(result["sampling_seconds"]), float(result["decoding_seconds"]))


class FilmCosts:
    """Of one model, and of the films of one library."""

    def __init__(self, model: Model, library: Library) -> None:
        self.model, self.library, self._guess = model, library, FilmGuess(model)
        self._memory: dict[tuple[int, int, int, bool], str] = {}
        self._seconds: dict[FilmSettings, FilmSeconds] | None = (
            None  # of the newest film of each settings, the oldest first
        )
        self._lock = threading.Lock()

    def memory(self, settings: FilmSettings) -> str:
        """The estimated memory of a film, in words."""
        if self.model.configs is None:
            return "not known for an untrained model"
        key = (*settings.shape, settings.camera_guidance)
        if key not in self._memory:
            needs = estimate(
                self.model.configs, *settings.shape, self.model.dtype, camera_guidance=settings.camera_guidance
            )
            where = "main memory" if self.model.device.type == "cpu" else "GPU memory"
            self._memory[key] = f"about {needs.device(self.model.options.offload) / GIB:.1f} GiB of {where}"
        return self._memory[key]

    def time(self, settings: FilmSettings) -> str:
        """The time of the newest film of the same settings, in words; else judged by one of nearly these settings, or guessed."""
        known = self._known_seconds()
        if settings in known:
            return f"about {duration(sum(known[settings]))}, as the last film of these settings"
        if not known:
            guess = self._guess.seconds(settings.shape, _passes(settings))
            if guess is None:
                return "known after the first film"
            return f"very roughly {duration(guess)}, before the first film"
        # Decoding takes as long for few steps as for many, and attention grows faster than the film, so a film of nearly the same
        # size, and then of nearly as many passes, is the best guide.
        nearest = min(
            reversed(known), key=lambda other: (_ratio(other, settings, _size), _ratio(other, settings, _passes))
        )
        took = known[nearest]
        sampling = took.sampling * _passes(settings) / _passes(nearest)
        expected = (sampling + took.decoding) * _size(settings) / _size(nearest)
        steps = counted(nearest.num_inference_steps, "step")
        frames, width, height = nearest.shape
        guide = (
            steps if nearest.shape == settings.shape else f"{counted(frames, 'frame')} of {width}x{height} in {steps}"
        )
        return f"roughly {duration(expected)}, judging by a film of {guide}"

    def films_changed(self) -> None:
        """Read the films again when the next time is asked for."""
        with self._lock:
            self._seconds = None

    def _known_seconds(self) -> dict[FilmSettings, FilmSeconds]:
        with self._lock:
            if self._seconds is None:
                self._seconds = self._read_seconds()
            return self._seconds

    def _read_seconds(self) -> dict[FilmSettings, FilmSeconds]:
        options = self.model.options
        model = {"model": options.model, "camera": None if options.camera is None else str(options.camera)}
        found: dict[FilmSettings, FilmSeconds] = {}
        for name in reversed(self.library.names()):
            with contextlib.suppress(SightlineError, KeyError, TypeError, ValueError):  # of a folder of another version
                content = self.library.film(name).settings
                made, request = content["generated"], content["request"]
                if all(request[key] == value for key, value in model.items()):
                    settings = FilmSettings(
                        made["num_frames"],
                        made["width"],
                        made["height"],
                        made["num_inference_steps"],
                        text_guidance=made["guidance_scale"] > 1.0,
                        camera_guidance=made["camera_guidance_scale"] != 1.0,
                    )
                    found.pop(settings, None)  # so that the newest film stands last
                    found[settings] = FilmSeconds.of(content["result"])
        return found


def _ratio(one: FilmSettings, other: FilmSettings, measure: Callable[[FilmSettings], int]) -> float:
    """How far two films are apart: 0 for equal ones."""
    return abs(math.log(measure(one) / measure(other)))


def _size(settings: FilmSettings) -> int:
    """Pixels of all frames."""
    return settings.num_frames * settings.width * settings.height


def _passes(settings: FilmSettings) -> int:
    """Passes through the model."""
    return settings.num_inference_steps * (1 + settings.text_guidance) * (1 + settings.camera_guidance)
