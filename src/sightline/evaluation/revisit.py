"""The Revisit protocol: the camera leaves the first view and returns to it; is the view still the same?

Four loops for each first frame (truck, orbit, dolly, and one that returns by another route), an away window at the largest
excursion, a return window at the end, and six metrics over them.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch

from sightline.cameras import se3
from sightline.cameras.moves.loops import REVISIT_LOOPS
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.evaluation.cases import Case, ClipFacts, Selection, StandardCases
from sightline.evaluation.metrics.similarity import cosine
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.pose_errors import MIN_EXTENT, pose_errors
from sightline.evaluation.results import CaseSettings, LoopSettings
from sightline.evaluation.units import same_unit
from sightline.worlds import FAR, WorldBatch, distance_to_solids, render_clip, render_depth

AWAY, RETURN = (9, 10), (19, 20)  # windows in twentieths of the video: frames 36..40 and 76..80 of 81
DEPTH_FRACTION = 0.25  # how far loops go, as a fraction of the subject's depth, where it is known
DEGREES = 20.0
STATIC = 0.01  # a camera whose excursion is below this fraction of the commanded one, in the same unit, did not move
_CLEARANCE = 0.1  # metres between a world's loop and its solids
_MAX_SHRINKS, _SHRINK = 12, 0.75


def window_slice(frames: int, twentieths: tuple[int, int]) -> slice:
    """The frames of a window, both ends included; never empty for 4 k + 1 frames."""
    first, last = twentieths
    return slice(-(-first * (frames - 1) // 20), last * (frames - 1) // 20 + 1)


class RevisitCases:
    """Four loops for each first frame of the standard cases.

    In a procedural world the size of a loop follows the median depth of the first frame and shrinks until it collides with
    nothing. The ground truth is rendered too, with all motion stopped, so that the returning camera sees the first view
    again. Other sources have no known depth: their loops keep the default size of the moves, in the model's unit.
    """

    def __init__(self, selection: Selection) -> None:
        self.standard = StandardCases(selection)
        self.loops = list(REVISIT_LOOPS)
        self.names = [f"{name}-{loop}" for name in self.standard.names for loop in self.loops]

    def load(self, index: int) -> Case:
        number, loop_number = divmod(index, len(self.loops))
        clips, spec = self.standard.clips, self.standard.selection.spec
        window, group = clips.windows[self.standard.chosen[number]], self.standard.names[number]
        name, loop = self.names[index], self.loops[loop_number]
        source = self.standard.source(window)
        if source.renders(spec) and window.start == 0:
            shots = source.sample_shots([window.shot])
            scale = float(shots.units_per_metre[0] * shots.scales(spec, source.eta)[0])
            unit = spec.unit(shots.trajectory(0), source.eta)
            return Case(name, group, _render_loop(name, loop, unit, shots.takes, scale))
        clip = self.standard.load(number).clip
        return Case(name, group, clip, _with_lens(REVISIT_LOOPS[loop](**_shot(clip.trajectory)), clip.trajectory))

    def facts(self) -> ClipFacts:
        return self.standard.facts()

    def settings(self) -> CaseSettings:
        loops = LoopSettings(self.loops, DEPTH_FRACTION, DEGREES)
        standard = self.standard.settings()
        with_caption = standard.with_caption * len(self.loops)
        return replace(standard, loops=loops, clips=len(self.names), with_caption=with_caption)


def _render_loop(name: str, loop: str, unit: str, batch: WorldBatch, scale: float) -> Clip:
    """A loop through a procedural world as a clip. scale: of the world's metres in the trajectory's unit."""
    true = batch.true_trajectory()
    depth = render_depth(
        batch.scenes, batch.camera_to_world[:, :1], batch.intrinsics[:, :1], batch.xi, true.width, true.height
    )[0, 0]  # [H, W], metres
    visible = depth[depth < FAR]
    trajectory = world_loop(loop, batch, float(visible.median()) if len(visible) else 10.0)
    rendered = render_clip(batch.scenes, trajectory, seconds=torch.zeros(len(trajectory)))
    commanded = trajectory.anchored().scaled(scale).replace(unit=unit)
    frames = rendered.frames.numpy()
    return Clip(frames, commanded, batch.captions[0], batch.style, name, depth=(depth * scale).numpy())


def world_loop(loop: str, batch: WorldBatch, subject: float) -> Trajectory:
    """A loop from the world's first camera, in metres, as large as the subject's depth and the free space allow."""
    true = batch.true_trajectory()
    size = 1.0
    for _ in range(_MAX_SHRINKS):
        extent = {"distance": DEPTH_FRACTION * subject * size}
        if loop == "loop_orbit":
            extent = {"degrees": DEGREES * size, "target_depth": subject}
        elif loop == "loop_nonpalindromic":
            extent["target_depth"] = subject
        trajectory = _with_lens(REVISIT_LOOPS[loop](**extent, **_shot(true)), true)
        placed = true.camera_to_world[0] @ trajectory.camera_to_world
        trajectory = trajectory.replace(camera_to_world=placed, unit="metre")
        still = torch.zeros(1, len(trajectory), dtype=torch.float64)
        if float(distance_to_solids(batch.scenes, trajectory.positions[None], still).min()) > _CLEARANCE:
            break
        size *= _SHRINK
    return trajectory


def return_scores(estimated: Trajectory, commanded: Trajectory) -> dict[str, float] | None:
    """Return translation ratio, return rotation in degrees, and normalised ATE; None for a camera that did not move."""
    trajectory = estimated.anchored()
    distance = trajectory.positions.norm(dim=-1)  # [T] from frame 0
    smallest = MIN_EXTENT
    if same_unit(estimated.unit, commanded.unit):
        smallest = STATIC * float(commanded.anchored().positions.norm(dim=-1).max())
    if not float(distance.max()) > smallest:
        return None
    at_return = window_slice(len(trajectory), RETURN)
    turned = torch.rad2deg(se3.rotation_angle(trajectory.rotations[at_return]))
    return {
        "return_ratio": float(distance[at_return].mean() / distance.max()),
        "return_rotation": float(turned.mean()),
        "normalised_ate": float(pose_errors(estimated, commanded, alignment="rescaled").ate),
    }


def appearance_scores(video: np.ndarray, first_frame: np.ndarray, suite: Suite) -> dict[str, float]:
    """LPIPS and DINOv2 similarity of the windows of a video [T, H, W, 3] to its first frame [H, W, 3]."""
    at_return, away = (video[window_slice(len(video), window)] for window in (RETURN, AWAY))
    scores: dict[str, float] = {}
    if "lpips" in suite.names:
        lpips = suite.networks["lpips"]
        returned, gone = (float(lpips.frames(frames, first_frame[None]).mean()) for frames in (at_return, away))
        scores["return_lpips"] = returned
        if gone > 1e-6:
            scores["lpips_recovery"] = 1 - returned / gone
    if "dino" in suite.names:
        features, reference = (suite.networks["dino"].frames(frames) for frames in (at_return, first_frame[None]))
        scores["return_dino"] = float(cosine(features, reference.expand_as(features)).mean())
    return scores


def _shot(trajectory: Trajectory) -> dict[str, Any]:
    return {
        "frames": len(trajectory), "width": trajectory.width, "height": trajectory.height, "fps": trajectory.fps
    }  # fmt: skip


def _with_lens(loop: Trajectory, trajectory: Trajectory) -> Trajectory:
    """The loop with the lens of the trajectory's first frame."""
    return loop.replace(intrinsics=trajectory.intrinsics[0], xi=trajectory.xi)
