"""The nodes: Camera Path, Path Preview, Apply Camera, Path to WAN_CAMERA_EMBEDDING."""

from __future__ import annotations

import os
from pathlib import Path

import folder_paths
import numpy as np
import torch
from comfy_api.latest import ComfyExtension, io

from sightline.cameras import defaults, moves
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError

from .camera_patch import apply_camera, fun_camera_embedding

CATEGORY = "sightline"
WEIGHTS_FOLDER = "sightline_camera"  # ComfyUI's models/sightline_camera
TrajectoryType = io.Custom("SIGHTLINE_TRAJECTORY")
MAX_PIXELS, MAX_FRAMES = 16384, 4097

folder_paths.add_model_folder_path(WEIGHTS_FOLDER, os.path.join(folder_paths.models_dir, WEIGHTS_FOLDER))
folder_paths.folder_names_and_paths[WEIGHTS_FOLDER] = (
    folder_paths.folder_names_and_paths[WEIGHTS_FOLDER][0],
    {".safetensors"},
)


class CameraPath(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="SightlineCameraPath",
            display_name="Camera Path",
            category=CATEGORY,
            description="A camera path from moves, or from a file in ComfyUI's input folder.",
            inputs=[
                io.String.Input("moves", default="orbit:30", tooltip="For example: dolly:0.5+pan:20, zoom:28>70"),
                io.Int.Input("width", default=defaults.WIDTH, min=16, max=MAX_PIXELS, step=16),
                io.Int.Input("height", default=defaults.HEIGHT, min=16, max=MAX_PIXELS, step=16),
                io.Int.Input("length", default=defaults.NUM_FRAMES, min=1, max=MAX_FRAMES, step=4),
                io.Float.Input(
                    "target_depth",
                    default=moves.DEFAULT_TARGET_DEPTH,
                    min=0.01,
                    max=1000.0,
                    step=0.01,
                    tooltip="Distance of the subject of an orbit, in scene units.",
                ),
                io.String.Input("file", default="", optional=True, tooltip="A path file instead of the moves."),
            ],
            outputs=[
                TrajectoryType.Output(display_name="path"),
                io.Int.Output(display_name="width"),
                io.Int.Output(display_name="height"),
                io.Int.Output(display_name="length"),
            ],
        )

    @classmethod
    def execute(
        cls, moves: str, width: int, height: int, length: int, target_depth: float, file: str = ""
    ) -> io.NodeOutput:
        if file:
            trajectory = Trajectory.load(input_file(file)).resampled(length).fit_to(width, height)
        else:
            trajectory = from_moves(moves, width, height, length, target_depth)
        return io.NodeOutput(trajectory, width, height, length)

    @classmethod
    def fingerprint_inputs(cls, file: str = "", **others: object) -> float:
        """A changed file runs the node again."""
        return os.path.getmtime(input_file(file)) if file else 0.0


class PathPreview(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="SightlinePathPreview",
            display_name="Path Preview",
            category=CATEGORY,
            description="The frusta of a camera path, in 3D and from above.",
            inputs=[TrajectoryType.Input("path")],
            outputs=[io.Image.Output()],
        )

    @classmethod
    def execute(cls, path: Trajectory) -> io.NodeOutput:
        figure = path.plot()
        figure.canvas.draw()
        pixels = np.asarray(figure.canvas.buffer_rgba())[..., :3].copy()
        return io.NodeOutput(torch.from_numpy(pixels).float()[None] / 255)  # [1, H, W, 3]


class ApplyCamera(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="SightlineApplyCamera",
            display_name="Apply Camera",
            category=CATEGORY,
            description="A Wan model that follows the path, with camera weights from models/sightline_camera.",
            inputs=[
                io.Model.Input("model"),
                TrajectoryType.Input("path"),
                io.Combo.Input("weights", options=folder_paths.get_filename_list(WEIGHTS_FOLDER)),
                io.Float.Input("strength", default=1.0, min=0.0, max=4.0, step=0.05),
                io.Float.Input("start_percent", default=0.0, min=0.0, max=1.0, step=0.01),
                io.Float.Input("end_percent", default=1.0, min=0.0, max=1.0, step=0.01),
            ],
            outputs=[io.Model.Output()],
        )

    @classmethod
    def execute(
        cls,
        model: object,
        path: Trajectory,
        weights: str,
        strength: float,
        start_percent: float,
        end_percent: float,
    ) -> io.NodeOutput:
        file = folder_paths.get_full_path_or_raise(WEIGHTS_FOLDER, weights)
        return io.NodeOutput(apply_camera(model, Path(file), path, strength, start_percent, end_percent))


class PathToWanCamera(io.ComfyNode):
    @classmethod
    def define_schema(cls) -> io.Schema:
        return io.Schema(
            node_id="SightlinePathToWanCamera",
            display_name="Path to WAN_CAMERA_EMBEDDING",
            category=CATEGORY,
            description="The path for WanCameraImageToVideo, which runs the Fun-Camera models.",
            inputs=[TrajectoryType.Input("path")],
            outputs=[
                io.WanCameraEmbedding.Output(display_name="camera_embedding"),
                io.Int.Output(display_name="width"),
                io.Int.Output(display_name="height"),
                io.Int.Output(display_name="length"),
            ],
        )

    @classmethod
    def execute(cls, path: Trajectory) -> io.NodeOutput:
        return io.NodeOutput(fun_camera_embedding(path), path.width, path.height, len(path))


class SightlineExtension(ComfyExtension):
    async def get_node_list(self) -> list[type[io.ComfyNode]]:
        return [CameraPath, PathPreview, ApplyCamera, PathToWanCamera]


def from_moves(text: str, width: int, height: int, length: int, target_depth: float) -> Trajectory:
    line = moves.MoveLine.read(text)
    return line.trajectory(target_depth=target_depth, frames=length, width=width, height=height)


def input_file(name: str) -> Path:
    """A file inside ComfyUI's input folder; a name that leads out of it is refused, as workflows come from strangers."""
    folder = Path(folder_paths.get_input_directory()).resolve()
    file = (folder / name).resolve()
    if not file.is_relative_to(folder):
        raise SightlineError(f"file is {name!r}: expected a file in ComfyUI's input folder, {folder}.")
    return file
