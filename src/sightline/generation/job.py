"""A job: one video to generate. Its fields are the options of `sightline generate` and the columns of a job file."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from sightline.cameras.options import FILE_ONLY, MOVE_ONLY, LensOptions, MoveOptions, ReadOptions
from sightline.checks import check_seed, number, shown, whole_number
from sightline.errors import SightlineError
from sightline.files import require_folder_name
from sightline.option_types import (
    OptionalFile,
    OptionalFloat,
    OptionalInt,
    OptionalSize,
    OptionalText,
)
from sightline.parsing import parse_size

DEFAULT_MOVE, DEFAULT_STYLE = "orbit:30", "orbit"
_EXCLUSIVE = (("image", "world"), ("image", "text_only"), ("text_only", "world"), ("move", "trajectory"))


@dataclass(frozen=True)
class Job(MoveOptions, ReadOptions):
    """The first frame, the prompt, the trajectory and the sampling settings of one video."""

    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/generate")
    """Folder to write. It appears complete, at the end."""
    image: OptionalFile = None
    """First frame, scaled to cover the picture and cropped in the middle. Default: a frame that ships with the package."""
    prompt: OptionalText = None
    """Text prompt. Default: the caption of the world or of the shipped frame."""
    negative_prompt: OptionalText = None
    """What the video should not show."""
    text_only: bool = False
    """Text-to-video: no first frame."""
    move: OptionalText = None
    """Camera moves, such as "orbit:30" or "slow push in, then pan left 20" (see sightline trajectory moves). Default:
    orbit:30."""
    trajectory: OptionalFile = None
    """A trajectory file instead of a move, in any known format. A longer one is resampled in time, unless the model was trained
    on its number of frames."""
    world: Annotated[int | None, arg(metavar="SEED", help_behavior_hint="")] = None
    """Start from a procedural world: its first frame and caption. The rendered video is written beside the generated one.
    Without a move, the camera follows the world's own trajectory."""
    style: OptionalText = None
    """Style of the world: walkthrough, orbit, panorama or openworld. Default: orbit."""
    num_frames: Annotated[int | None, arg(metavar="N", help_behavior_hint="", aliases=["--frames"])] = None
    """Number of frames, 4 n + 1 for most models. Default: what the model was made for."""
    size: OptionalSize = None
    """Size of the video. Default: what the model was made for."""
    num_inference_steps: OptionalInt = None
    """Denoising steps. Default: the model's own number."""
    guidance_scale: OptionalFloat = None
    """Classifier-free guidance on the text; up to 1 is none. Default: the model's own."""
    camera_guidance_scale: float = 1.0
    """Classifier-free guidance on the camera. 1 is the paper's; more exaggerates the camera motion, at twice the cost."""
    seed: int = 0
    """Seed of the noise. The same seed on the same machine gives the same bytes."""

    def check(self) -> Job:
        """Refuse what is wrong whatever the model is; returns the job with paths as Path and numbers as Python's."""
        for first, second in _EXCLUSIVE:
            if getattr(self, first) not in (None, False) and getattr(self, second) not in (None, False):
                raise SightlineError(f"{first} and {second} are both given: expected at most one of them.")
        if self.style is not None and self.world is None:
            raise SightlineError("style is given without a world: expected --world SEED with it.")
        self._check_trajectory_options()
        if self.text_only and self.prompt is None:
            raise SightlineError("prompt is missing: expected one, since text_only leaves nothing else to go by.")
        if self.size is not None:
            parse_size(self.size)
        checks: dict[str, Callable[[str, Any], Any]] = {
            "output": _path,
            "image": _path,
            "trajectory": _path,
            "num_frames": whole_number,
            "num_inference_steps": whole_number,
            "guidance_scale": partial(number, at_least=0.0),
            "camera_guidance_scale": number,
            "seed": lambda name, value: check_seed(value, name),
            "world": lambda name, value: check_seed(value, name),
        }
        optional = {field.name for field in dataclasses.fields(self) if field.default is None}
        checked = {
            name: check(name, getattr(self, name))
            for name, check in checks.items()
            if name not in optional or getattr(self, name) is not None
        }
        require_folder_name(checked["output"])
        return dataclasses.replace(self, **checked)

    def _check_trajectory_options(self) -> None:
        """Refuse options of moves without a move, and options of files without a file."""
        own = self.world is not None and self.move is None and self.trajectory is None
        lens = tuple(LensOptions.__dataclass_fields__)
        idle = (*MOVE_ONLY, *lens) if own else MOVE_ONLY if self.trajectory is not None else ()
        idle += () if self.trajectory is not None else FILE_ONLY
        for name in idle:
            if getattr(self, name) not in (None, ()):
                expected = "a trajectory file" if name in FILE_ONLY else "a move"
                raise SightlineError(f"{name} is given without {expected}: expected {expected} with it.")

    def settings(self) -> dict[str, Any]:
        """Every field except output, as values for a json file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "output"}
        return {
            name: str(value) if isinstance(value, Path) else list(value) if isinstance(value, tuple) else value
            for name, value in fields.items()
        }


def _path(name: str, value: Any) -> Path:
    try:
        return Path(value)
    except TypeError:
        raise SightlineError(f"{name} is {shown(value)}: expected a path.") from None
