"""The Revisit protocol: leave the first view, come back to it, and look whether it is still there.

Four loops for each first frame (truck, orbit, dolly, and one that returns another way), an away window at the largest excursion
and a return window at home, and six metrics over them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from sightline.cameras import se3
from sightline.cameras.moves.loops import REVISIT_LOOPS
from sightline.cameras.trajectory import Trajectory
from sightline.evaluation.cases import Case, Selection, StandardCases
from sightline.worlds import FAR, WorldBatch, distance_to_solids, render_clip, render_depth

AWAY, RETURN = (9, 10), (19, 20)  # twentieths of the take: frames 36..40 and 76..80 of 81
SHARE = 0.25  # of the depth of the subject: how far loops go in a scene whose depth is known
DEGREES = 20.0
STATIC = 0.01  # of the commanded excursion: a camera that went less far went nowhere
_CLEARANCE = 0.1  # metres between a world's loop and its solids
_SHRINKS, _SHRINK = 12, 0.75


def window(frames: int, twentieths: tuple[int, int]) -> slice:
    """The frames of a window, both ends included; never empty for 4 k + 1 frames."""
    first, last = twentieths
    return slice(-(-first * (frames - 1) // 20), last * (frames - 1) // 20 + 1)


class RevisitCases:
    """Four loops for each first frame of the standard cases.

    A world's loops are made to its measure: distance and radius follow the median depth of the first frame, and shrink until
    the way is free; its truth is filmed too, with time standing still, since a return must find what was left. Other
    sources have no known depth: their loops have the size of the moves' own defaults, in the model's unit.
    """

    def __init__(self, selection: Selection) -> None:
        self.standard = StandardCases(selection)
        self.loops = list(REVISIT_LOOPS)
        self.names = [f"{name}-{loop}" for name in self.standard.names for loop in self.loops]

    def load(self, index: int) -> Case:
        at, loop = divmod(index, len(self.loops))
        clips, spec = self.standard.clips, self.standard.selection.spec
        window_of, name = clips.windows[self.standard.chosen[at]], self.standard.names[at]
        source = self.standard.source(window_of)
        if source.renders(spec) and window_of.start == 0:
            shots = source.sample_shots([window_of.shot])
            unit, scale = shots.trajectories[0].unit, shots.scale(0, spec, source.eta)
            return self._of_world(self.names[index], name, self.loops[loop], unit, shots.scenes, scale)
        case = self.standard.load(at)
        path = _on_lens(REVISIT_LOOPS[self.loops[loop]](**_shot(case.trajectory)), case.trajectory)
        return Case(self.names[index], name, case.source, case.caption, path, case.first, depth=case.depth)

    def settings(self) -> dict[str, Any]:
        loops = {"loops": self.loops, "share of depth": SHARE, "degrees": DEGREES}
        return {**self.standard.settings(), **loops, "clips": len(self.names)}

    def _of_world(self, name: str, group: str, loop: str, unit: str, batch: WorldBatch, scale: float) -> Case:
        true = batch.true_trajectory()
        depth = render_depth(
            batch.scenes, batch.camera_to_world[:, :1], batch.intrinsics[:, :1], batch.xi, true.width, true.height
        )[0, 0]  # [H, W], metres
        seen = depth[depth < FAR]
        path = world_loop(loop, batch, float(seen.median()) if len(seen) else 10.0)
        still = torch.zeros(len(path))
        shot = render_clip(batch.scenes, path, seconds=still)
        frames = shot.frames.numpy()
        commanded = path.anchored().scaled(scale).replace(unit=unit)
        return Case(name, group, batch.style, batch.captions[0], commanded, frames[0], frames, (depth * scale).numpy())


def world_loop(loop: str, batch: WorldBatch, subject: float) -> Trajectory:
    """A loop from the world's first camera, in metres, as large as its share of the subject's depth and the way allow."""
    true = batch.true_trajectory()
    size = 1.0
    for _ in range(_SHRINKS):
        reach = {"distance": SHARE * subject * size}
        if loop == "loop_orbit":
            reach = {"degrees": DEGREES * size, "target_depth": subject}
        elif loop == "loop_nonpalindromic":
            reach["target_depth"] = subject
        path = _on_lens(REVISIT_LOOPS[loop](**reach, **_shot(true)), true)
        path = path.replace(camera_to_world=true.camera_to_world[0] @ path.camera_to_world, unit="metre")
        free = distance_to_solids(batch.scenes, path.positions[None], torch.zeros(1, len(path), dtype=torch.float64))
        if float(free.min()) > _CLEARANCE:
            break
        size *= _SHRINK
    return path


def pose_scores(estimated: Trajectory, commanded: Trajectory) -> dict[str, float | None]:
    """Return translation ratio, return rotation in degrees, and normalised ATE; none of a camera that went nowhere."""
    from sightline.evaluation.pose_errors import pose_errors

    path = estimated.anchored()
    away = path.positions.norm(dim=-1)  # [T]
    home = window(len(path), RETURN)
    turned = torch.rad2deg(se3.rotation_angle(path.rotations[home]))
    moved = float(away.max()) > STATIC * float(commanded.anchored().positions.norm(dim=-1).max())
    return {
        "return_ratio": float(away[home].mean() / away.max()) if moved else None,
        "return_rotation": float(turned.mean()) if moved else None,
        "normalised_ate": float(pose_errors(estimated, commanded, alignment="rescaled").ate) if moved else None,
    }


def appearance_scores(video: np.ndarray, first: np.ndarray, suite: Any) -> dict[str, float | None]:
    """LPIPS and feature similarity to the conditioning image [H, W, 3], over the windows of a video [T, H, W, 3]."""
    home, away = (video[window(len(video), which)] for which in (RETURN, AWAY))
    found: dict[str, float | None] = {}
    if "lpips" in suite.names:
        back, gone = (float(suite.networks["lpips"].frames(part, first[None]).mean()) for part in (home, away))
        found["return_lpips"] = back
        found["lpips_recovery"] = 1 - back / gone if gone > 1e-6 else None
    for name, network in (("dino", "dino"), ("cosine_efflite0", "efflite0")):
        if name in suite.names:
            from sightline.evaluation.metrics.similarity import cosine

            reference = suite.networks[network].frames(first[None])
            features = suite.networks[network].frames(home)
            found[f"return_{name}"] = float(cosine(features, reference.expand_as(features)).mean())
    return found


def _shot(path: Trajectory) -> dict[str, Any]:
    return {"frames": len(path), "width": path.width, "height": path.height, "fps": path.fps}


def _on_lens(loop: Trajectory, path: Trajectory) -> Trajectory:
    """The loop through the lens of the path's first frame."""
    return loop.replace(intrinsics=path.intrinsics[0], xi=path.xi)
