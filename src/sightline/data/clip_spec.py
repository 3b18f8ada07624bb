"""ClipSpec: how shots become clips. Windows of frames, picture size, units of the camera path."""

from __future__ import annotations

from dataclasses import dataclass

from sightline.cameras.token_grid import TEMPORAL_STRIDE
from sightline.cameras.trajectory import Trajectory
from sightline.checks import whole_number
from sightline.errors import SightlineError

DEFAULT_CAPTION = "a video"


@dataclass(frozen=True)
class ClipSpec:
    """The same for every source of a run, so that all clips are alike."""

    num_frames: int = 81
    """Frames of a clip: 4 k + 1, since a latent frame covers four."""
    stride: int = 1
    """Every stride-th frame of the shot is taken; fps is divided by it."""
    hop: int | None = None
    """Frames of the shot between the starts of two windows; without it windows do not overlap (frames x stride)."""
    width: int = 832
    height: int = 480
    near_depth: bool = False
    """Divide positions by the clip's near depth where the source knows it (the paper's 1/z_n)."""
    anchor: bool = True
    """Make the first camera of each window the identity; otherwise the source's world stays."""
    caption: str = DEFAULT_CAPTION
    """For clips whose source has none."""

    def __post_init__(self) -> None:
        for name in ("num_frames", "stride", "width", "height"):
            whole_number(name, getattr(self, name))
        if self.hop is not None:
            whole_number("hop", self.hop)
        if self.num_frames % TEMPORAL_STRIDE != 1:
            raise SightlineError(
                f"num_frames is {self.num_frames}: expected {TEMPORAL_STRIDE} k + 1, such as 33 or 81."
            )
        if not self.caption.strip():
            raise SightlineError("caption is empty: expected some text for clips without one.")

    @property
    def span(self) -> int:
        """Frames of the shot from the first of a window to its last, both included."""
        return (self.num_frames - 1) * self.stride + 1

    def starts(self, length: int) -> range:
        """First frames of the windows that fit into a shot of this length; a shot that is too short is refused."""
        if length < self.span:
            raise SightlineError(
                f"found {length} frames, expected at least {self.span} for {self.num_frames} frames at stride {self.stride}."
            )
        return range(0, length - self.span + 1, self.hop or self.num_frames * self.stride)

    def indices(self, start: int) -> range:
        """The shot's frames that make up the window."""
        return range(start, start + self.span, self.stride)

    def trajectory(
        self, shot: Trajectory, start: int, eta: float, picture: tuple[int, int] | None = None
    ) -> Trajectory:
        """The window's cameras in training units, for pictures of this spec's size.

        eta: the source's factor on positions. picture: (width, height) of the pictures as stored, which may be smaller
        than the ones the cameras were measured on (DL3DV's images_4); None takes the shot's own.
        """
        taken = list(self.indices(start))
        path = shot.replace(
            camera_to_world=shot.camera_to_world[taken], intrinsics=shot.intrinsics[taken], fps=shot.fps / self.stride
        )
        if self.anchor:
            path = path.anchored()
        path = path.scaled(self.scale(shot, eta))
        if picture is not None and picture != (path.width, path.height):
            path = path.resized(*picture)
        return path.fitted(self.width, self.height)

    def scale(self, shot: Trajectory, eta: float) -> float:
        """What positions are multiplied by: eta, or eta / z_n where that is asked for and known."""
        return eta / shot.near_depth if self.near_depth and shot.near_depth else eta
