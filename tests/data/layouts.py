"""Writes takes in the exact layouts of the four sources, by hand: none of the package's own writers is used for poses."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from PIL import Image

from sightline.cameras.trajectory import Trajectory
from sightline.video import save_video


@dataclass(frozen=True, eq=False)
class Take:
    """Frames [T, H, W, 3] uint8 and the cameras that took them."""

    frames: np.ndarray
    trajectory: Trajectory
    caption: str = "a corridor with a red door"
    name: str = "take"


def write_re10k(root: Path, take: Take, video: bool = False, camera_ctrl: bool = False) -> None:
    trajectory, rows = take.trajectory, ["https://www.youtube.com/watch?v=abc"]
    stamps = [1_000_000 + 33_367 * frame for frame in range(len(trajectory))]
    for frame, stamp in enumerate(stamps):
        (fx, _, cx), (_, fy, cy), _ = trajectory.intrinsics[frame].tolist()
        lens = [fx / trajectory.width, fy / trajectory.height, cx / trajectory.width, cy / trajectory.height, 0, 0]
        world_to_camera = np.linalg.inv(trajectory.camera_to_world[frame].numpy())[:3].flatten()
        rows.append(" ".join(repr(float(number)) if number else "0.0" for number in [*lens, *world_to_camera]))
        rows[-1] = f"{stamp} {rows[-1]}"
    _write(root / "pose_files" / f"{take.name}.txt", "\n".join(rows) + "\n")
    if video:
        save_video(take.frames, root / "video_clips" / f"{take.name}.mp4", fps=trajectory.fps)
    else:
        _write_pictures(root / "frames" / take.name, [str(stamp) for stamp in stamps], take.frames)
    if camera_ctrl:
        entry = {
            "clip_name": take.name,
            "clip_path": f"video_clips/{take.name}.mp4",
            "pose_file": f"pose_files/{take.name}.txt",
            "caption": take.caption,
        }
        listed = root / "annotations" / "train.json"
        _write(listed, json.dumps([*(json.loads(listed.read_text()) if listed.exists() else []), entry]))


def write_dl3dv(root: Path, take: Take, images: str = "images", shuffled: bool = False) -> None:
    trajectory, scene = take.trajectory, root / "1K" / take.name
    (fx, _, cx), (_, fy, cy), _ = trajectory.intrinsics[0].tolist()
    frames = [
        # OpenGL: y up, z backward.
        {
            "file_path": f"images/frame_{frame + 1:05d}.png",
            "transform_matrix": (pose @ np.diag([1, -1, -1, 1])).tolist(),
        }
        for frame, pose in enumerate(trajectory.camera_to_world.numpy())
    ]
    frames = frames[::-1] if shuffled else frames
    lens = {"w": trajectory.width, "h": trajectory.height, "fl_x": fx, "fl_y": fy, "cx": cx, "cy": cy, "k1": 0.0}
    document = {**lens, "camera_model": "OPENCV", "applied_transform": np.eye(4)[:3].tolist(), "frames": frames}
    _write(scene / "transforms.json", json.dumps(document))
    _write_pictures(scene / images, [f"frame_{frame + 1:05d}" for frame in range(len(trajectory))], take.frames)


def write_panshot(
    root: Path, take: Take, x_fov: float, xi: float, near_depth: float | None, video: bool = True
) -> None:
    shots, panorama = root / "PanShot", f"{take.name}vid-3"
    video_id, pose_id = f"{panorama}-0-1", f"{panorama}-0-1"
    poses = take.trajectory.camera_to_world[:, :3].numpy().copy()
    poses[:, :, 3] -= poses[0, :, 3].copy()
    (shots / "pose-train").mkdir(parents=True, exist_ok=True)
    np.save(shots / "pose-train" / f"{pose_id}.npy", poses)
    meta = [{"videos": [{"video": video_id, "pose": pose_id, "x_fov": str(x_fov), "xi": xi}]}]
    _write(shots / "meta-train" / f"{panorama}.json", json.dumps(meta))
    _append(shots / "captioned-train.jsonl", {"video": video_id, "caption": take.caption})
    if near_depth is not None:
        entry = {"video_id": f"{take.name}vid", "clip_name": panorama, "clip_id": 3, "near_depth": near_depth}
        _append(root / "PanFlow" / "near_plane_depth-train.jsonl", entry)
    if video:
        save_video(take.frames, shots / "videos-train" / f"{video_id}.mp4", fps=16)
    else:
        names = [f"{frame:06d}" for frame in range(len(take.frames))]
        _write_pictures(shots / "videos-train" / video_id, names, take.frames)


def write_omniworld(root: Path, take: Take, first: int = 0) -> None:
    """Frames first, first + 1, ... of a longer recording, as the second of two splits."""
    trajectory, scene = take.trajectory, root / take.name
    world_to_camera = np.linalg.inv(trajectory.camera_to_world.numpy())
    numbers = list(range(first, first + len(trajectory)))
    camera = {
        "focals": trajectory.intrinsics[:, 0, 0].tolist(),
        "cx": float(trajectory.intrinsics[0, 0, 2]),
        "cy": float(trajectory.intrinsics[0, 1, 2]),
        "quats": [_quaternion_wxyz(matrix[:3, :3]) for matrix in world_to_camera],
        "trans": world_to_camera[:, :3, 3].tolist(),
    }
    _write(scene / "camera" / "split_1.json", json.dumps(camera))
    splits = {"scene_name": take.name, "split_num": 2, "split": [[10_000], numbers]}
    _write(scene / "split_info.json", json.dumps(splits))
    _write(scene / "fps.txt", "24.0\n")
    captions = {"Short_Caption": "short", "Video_Caption": take.caption}
    _write(scene / "text" / f"{first}_{numbers[-1]}.json", json.dumps(captions))
    _write(scene / "text" / "900000_900080.json", json.dumps({"Video_Caption": "of other frames"}))
    _write_pictures(scene / "color", [f"{number:06d}" for number in numbers], take.frames)


def _quaternion_wxyz(rotation: np.ndarray) -> list[float]:  # [3, 3]
    """From the eigenvector of the symmetric 4x4 form (Bar-Itzhack), a route the package does not take."""
    r = rotation
    form = np.array(
        [
            [r[0, 0] - r[1, 1] - r[2, 2], r[0, 1] + r[1, 0], r[0, 2] + r[2, 0], r[2, 1] - r[1, 2]],
            [r[0, 1] + r[1, 0], r[1, 1] - r[0, 0] - r[2, 2], r[1, 2] + r[2, 1], r[0, 2] - r[2, 0]],
            [r[0, 2] + r[2, 0], r[1, 2] + r[2, 1], r[2, 2] - r[0, 0] - r[1, 1], r[1, 0] - r[0, 1]],
            [r[2, 1] - r[1, 2], r[0, 2] - r[2, 0], r[1, 0] - r[0, 1], r.trace()],
        ]
    )
    x, y, z, w = np.linalg.eigh(form / 3)[1][:, -1].tolist()
    return [w, x, y, z]


def _write_pictures(folder: Path, names: list[str], frames: np.ndarray) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, frame in zip(names, frames, strict=True):
        Image.fromarray(frame).save(folder / f"{name}.png")


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _append(path: Path, entry: dict[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as file:
        file.write(json.dumps(entry) + "\n")
