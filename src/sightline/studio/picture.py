"""Where the first frame of a film comes from: a picture of the visitor, the frame that ships, or a procedural world."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from PIL import Image

from sightline.cameras.trajectory import Trajectory
from sightline.generation.first_frame import FIRST_FRAME
from sightline.generation.job import DEFAULT_STYLE
from sightline.images import fit_image, read_image
from sightline.worlds import Scene, render_clip, sample_clip

_WHOLE = 0.98  # of a picture: less is worth a sentence


@dataclass(frozen=True)
class World:
    """A procedural world that the picture is taken from."""

    seed: int
    style: str = DEFAULT_STYLE


class WorldView(NamedTuple):
    """A world as the first camera of a film sees it."""

    scene: Scene
    frame: np.ndarray  # [H, W, 3] uint8
    caption: str
    camera: Trajectory  # one frame, in the coordinates of the world, metres


def view_world(world: World, camera: Trajectory, num_frames: int) -> WorldView:
    """Render the first frame of a world. camera: one frame, whose lens is used."""
    clip = sample_clip(world.style, world.seed, num_frames, camera.width, camera.height)
    placed = camera.replace(camera_to_world=clip.true_trajectory.camera_to_world[:1], unit="metre")
    rendered = render_clip(clip.scene, placed)
    return WorldView(clip.scene, rendered.frames[0].numpy(), rendered.caption, placed)


def true_view(world: WorldView, trajectory: Trajectory, frame: int) -> np.ndarray:  # -> [H, W, 3] uint8
    """What a world really looks like from a frame of a path that starts at the world's first camera."""
    pose = world.camera.camera_to_world[0] @ trajectory.anchored().camera_to_world[frame]
    camera = trajectory.replace(camera_to_world=pose[None], intrinsics=trajectory.intrinsics[frame][None], unit="metre")
    return render_clip(world.scene, camera, seconds=frame / trajectory.fps).frames[0].numpy()


def first_frame(picture: Image.Image | None, width: int, height: int) -> np.ndarray:  # -> [H, W, 3] uint8
    """A picture, or for None the frame that ships, scaled to cover the film and cropped in the middle."""
    source = picture if picture is not None else read_image(FIRST_FRAME, "the shipped frame")
    return np.asarray(fit_image(source, width, height))


def crop_note(picture: Image.Image, width: int, height: int) -> str:
    """A sentence on what a picture loses to the shape of the film; empty where that is next to nothing."""
    own_width, own_height = picture.size
    across, down = own_width * height, own_height * width
    if min(across, down) > _WHOLE * max(across, down):
        return ""
    sides = "left and right" if across > down else "top and bottom"
    return f"The picture has {own_width}x{own_height} pixels: {sides} are cut off for {width}x{height}."
