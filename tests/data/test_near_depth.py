"""The near depth of a shot from the points of a COLMAP model, written by hand in both of its forms."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

from sightline.cameras import moves, se3
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.near_depth import near_depth_from_points
from sightline.data.sources import open_source
from sightline.errors import SightlineError
from tests.conftest import smooth_trajectory
from tests.data.layouts import Take, write_dl3dv, write_re10k

STEMS = [f"frame_{frame + 1:05d}" for frame in range(9)]


def write_model(folder, trajectory, stems, places, scale=1.0, binary=True):
    """A model in another world and scale than the trajectory, in which every image sees every point."""
    folder.mkdir(parents=True, exist_ok=True)
    turn = se3.from_parts(
        se3.axis_rotation("y", torch.tensor(0.7, dtype=torch.float64)), torch.tensor([3.0, 1.0, -2.0]).double()
    )
    poses = turn @ trajectory.camera_to_world.clone()
    poses[:, :3, 3] *= scale
    seen = (places @ turn[:3, :3].T + turn[:3, 3]) * scale
    views = se3.inverse(poses)
    numbers = torch.cat([se3.rotation_to_quaternion(views[:, :3, :3]), views[:, :3, 3]], dim=1).tolist()
    if binary:
        images = b"".join(
            struct.pack("<I7dI", 7 + row, *pose, 1) + f"{stem}.png".encode() + b"\0" + struct.pack("<Q", 0)
            for row, (stem, pose) in enumerate(zip(stems, numbers, strict=True))
        )
        (folder / "images.bin").write_bytes(struct.pack("<Q", len(stems)) + images)
        track = b"".join(struct.pack("<II", 7 + row, 0) for row in range(len(stems)))
        points = b"".join(
            struct.pack("<Q3d3BdQ", 1, *place, 0, 0, 0, 0.5, len(stems)) + track for place in seen.tolist()
        )
        (folder / "points3D.bin").write_bytes(struct.pack("<Q", len(seen)) + points)
        return
    rows = [
        f"{7 + row} {' '.join(map(repr, pose))} 1 {stem}.png\n\n"
        for row, (stem, pose) in enumerate(zip(stems, numbers, strict=True))
    ]
    (folder / "images.txt").write_text("# images\n" + "".join(rows))
    track = " ".join(f"{7 + row} 0" for row in range(len(stems)))
    (folder / "points3D.txt").write_text(
        "".join(f"1 {x!r} {y!r} {z!r} 0 0 0 0.5 {track}\n" for x, y, z in seen.tolist())
    )


@pytest.mark.parametrize("binary", [True, False])
@pytest.mark.parametrize("scale", [1.0, 12.5])
def test_the_near_depth_is_a_quantile_of_what_the_cameras_see(tmp_path, binary, scale):
    shot = moves.truck(0.5, frames=9, width=64, height=48)  # sideways: depths stay those of the first camera
    depths = torch.linspace(1.0, 9.0, 41, dtype=torch.float64)
    places = torch.stack([0.1 * depths.sin(), 0.1 * depths.cos(), depths], dim=1)
    write_model(tmp_path, shot, STEMS, places, scale, binary)
    assert near_depth_from_points(tmp_path, shot, STEMS) == pytest.approx(1.4, rel=1e-6)
    assert near_depth_from_points(tmp_path, shot.scaled(3.0), STEMS) == pytest.approx(4.2, rel=1e-6)
    with pytest.raises(SightlineError, match="0 images with the name of a frame"):
        near_depth_from_points(tmp_path, shot, [f"x{stem}" for stem in STEMS])
    with pytest.raises(SightlineError, match="not where the shot's are"):
        near_depth_from_points(tmp_path, moves.orbit(90, frames=9, width=64, height=48), STEMS[::-1])
    write_model(tmp_path, shot, STEMS, places[:2], scale, binary)
    assert near_depth_from_points(tmp_path, shot, STEMS) is None  # 18 sightings are too few
    file = tmp_path / f"points3D.{'bin' if binary else 'txt'}"
    file.write_bytes(file.read_bytes()[:-30] if binary else b"1 2 3\n")
    with pytest.raises(SightlineError, match="points3D"):
        near_depth_from_points(tmp_path, shot, STEMS)


def test_re10k_and_dl3dv_use_the_points_they_have_and_only_where_asked(tmp_path):
    frames, shot = np.zeros((9, 48, 64, 3), np.uint8), smooth_trajectory(9, 64, 48)
    write_re10k(tmp_path / "re10k", Take(frames, shot, name="a"))
    write_re10k(tmp_path / "re10k", Take(frames, shot, name="b"))
    write_dl3dv(tmp_path / "dl3dv", Take(frames, shot, name="a"))
    depths = torch.linspace(20.0, 60.0, 41, dtype=torch.float64)
    places = torch.stack([0 * depths, 0 * depths, depths], dim=1)
    stamps = [str(1_000_000 + 33_367 * frame) for frame in range(9)]
    write_model(tmp_path / "re10k" / "sparse" / "a", shot, stamps, places, scale=2.0)
    write_model(tmp_path / "dl3dv" / "1K" / "a" / "colmap" / "sparse" / "0", shot, STEMS, places)
    near = {}
    for kind in ("re10k", "dl3dv"):
        source = open_source(f"{kind}:{tmp_path / kind}")
        shots = source.shots()
        near[kind] = source.trajectory(shots[0]).near_depth
        plain, divided = (
            Clips([source], ClipSpec(5, width=64, height=48, near_depth=asked)).trajectory(0) for asked in (False, True)
        )
        assert plain.near_depth is None
        assert torch.allclose(divided.positions * near[kind], plain.positions, rtol=1e-9)
        assert Clips([source], ClipSpec(5, width=64, height=48)).sources[0].trajectory(shots[0]).near_depth is None
    assert near["re10k"] == pytest.approx(near["dl3dv"], rel=1e-6) and 15 < near["re10k"] < 25
    assert open_source(f"re10k:{tmp_path / 're10k'}").trajectory("b").near_depth is None
