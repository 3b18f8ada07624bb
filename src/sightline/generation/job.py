"""A job: one video to make. Its fields are the options of `sightline generate` and the columns of a batch file."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from tyro.conf import arg

from sightline.checks import checked_seed, number, parsed_size, whole_number
from sightline.errors import SightlineError

# Options that may be left out; their help says what happens then, so it need not add "default: None".
_Text = Annotated[str | None, arg(metavar="TEXT", help_behavior_hint="")]
_File = Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="")]
_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]
_Number = Annotated[float | None, arg(metavar="X", help_behavior_hint="")]
_Size = Annotated[str | None, arg(metavar="WIDTHxHEIGHT", help_behavior_hint="")]

DEFAULT_MOVE, DEFAULT_STYLE = "orbit:30", "orbit"


@dataclass(frozen=True)
class Job:
    """What is filmed, along which path, and how it is sampled."""

    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/generate")
    """Folder to write: it appears whole, at the end."""
    image: _File = None
    """First frame, scaled to cover the picture and cropped in the middle; without it, one that ships."""
    prompt: _Text = None
    """What is seen; without it, the caption of the world or of the shipped frame."""
    negative_prompt: _Text = None
    """What is not to be seen."""
    text_only: bool = False
    """No first frame at all: text-to-video."""
    move: _Text = None
    """Camera moves, as "orbit:30" or "dolly:0.5+pan:20, static" (see sightline trajectory moves); without it orbit:30."""
    trajectory: _File = None
    """A camera file instead, of any known format; a longer one is resampled in time."""
    world: Annotated[int | None, arg(metavar="SEED", help_behavior_hint="")] = None
    """Film a procedural world: its first frame and caption, and the true video beside the generated one. Without a
    move, along the world's own path."""
    style: _Text = None
    """Style of the world: walkthrough, orbit, panorama or openworld; without it orbit."""
    frames: _Whole = None
    """Frames of the video, 4 n + 1; without it, what the model is made for."""
    size: _Size = None
    """Size of the picture; without it, what the model is made for."""
    steps: _Whole = None
    """Denoising steps; without it, the model's own number."""
    cfg: _Number = None
    """Guidance of the text; without it, the model's own."""
    camera_cfg: float = 1.0
    """Guidance of the camera: 1 is the paper's, more exaggerates the path at twice the cost."""
    seed: int = 0
    """Of the noise: the same seed on the same machine gives the same bytes."""

    def check(self) -> Job:
        """Refuse what can be told to be wrong without a model."""
        for one, other in (("image", "world"), ("image", "text_only"), ("text_only", "world"), ("move", "trajectory")):
            if getattr(self, one) not in (None, False) and getattr(self, other) not in (None, False):
                raise SightlineError(f"{one} and {other} are both given: expected at most one of them.")
        if self.style is not None and self.world is None:
            raise SightlineError("style is given without a world: expected --world SEED with it.")
        if self.text_only and self.prompt is None:
            raise SightlineError("prompt is missing: expected one, since text_only leaves nothing else to go by.")
        for name in ("frames", "steps"):
            if getattr(self, name) is not None:
                whole_number(name, getattr(self, name))
        if self.cfg is not None:
            number("cfg", self.cfg)
        number("camera_cfg", self.camera_cfg)
        checked_seed(self.seed)
        if self.size is not None:
            parsed_size(self.size)
        return self

    def settings(self) -> dict[str, Any]:
        """Every field but the place, for a json file."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self) if field.name != "output"}
        return {name: str(value) if isinstance(value, Path) else value for name, value in fields.items()}
