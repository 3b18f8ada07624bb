"""Each source's layout, written by hand and read back: poses, lenses, frames, captions."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.sources import open_source
from tests.data.conftest import HEIGHT, WIDTH, make_take
from tests.data.layouts import Take, write_dl3dv, write_omniworld, write_panshot, write_re10k

AS_STORED = ClipSpec(num_frames=9, width=WIDTH, height=HEIGHT, anchor=False)
CODEC_ERROR = 8.0  # grey levels, mean over a frame: H.264 at crf 17 and 4:2:0 colour


def read_back(source: str, spec: ClipSpec = AS_STORED) -> Clip:
    clips = Clips([open_source(source)], spec, strict=True)
    assert len(clips) == 1
    return clips[0]


def assert_same(clip: Clip, take: Take, eta: float = 1.0, exact_frames: bool = True) -> None:
    expected = take.trajectory.scaled(eta)
    torch.testing.assert_close(clip.trajectory.camera_to_world, expected.camera_to_world, atol=1e-6, rtol=0)
    torch.testing.assert_close(clip.trajectory.intrinsics, expected.intrinsics, atol=1e-6, rtol=0)
    assert clip.caption in (take.caption, "a video")
    if exact_frames:
        assert np.array_equal(clip.frames, take.frames)
    else:
        error = np.abs(clip.frames.astype(float) - take.frames).mean(axis=(1, 2, 3))
        assert error.max() < CODEC_ERROR
        # Each frame is itself and not its neighbour.
        distance = np.abs(clip.frames[:, None].astype(float) - take.frames[None]).mean(axis=(2, 3, 4))
        assert distance.argmin(1).tolist() == list(range(len(take.frames)))


def test_re10k_frames_named_by_timestamp(tmp_path: Path):
    write_re10k(tmp_path, take := make_take())
    assert_same(read_back(f"re10k:{tmp_path}"), take)


def test_re10k_camera_ctrl_list_and_videos(tmp_path: Path):
    write_re10k(tmp_path, take := make_take(), video=True, camera_ctrl=True)
    clip = read_back(f"re10k:{tmp_path}")
    assert_same(clip, take, exact_frames=False)
    assert clip.caption == take.caption


def test_dl3dv(tmp_path: Path):
    write_dl3dv(tmp_path, take := make_take())
    assert_same(read_back(f"dl3dv:{tmp_path}"), take)


def test_dl3dv_smaller_pictures_than_the_cameras_were_measured_on(tmp_path: Path):
    take = make_take()
    large = Take(take.frames, take.trajectory.resized(4 * WIDTH, 4 * HEIGHT))
    write_dl3dv(tmp_path, large, images="images_4")
    assert_same(read_back(f"dl3dv:{tmp_path}"), take)


@pytest.mark.parametrize("video", [True, False])
def test_panshot(tmp_path: Path, video: bool):
    take = make_take()
    x_fov = 2 * math.degrees(math.atan(0.5 / 0.8))
    first_at_origin = take.trajectory.camera_to_world.clone()
    first_at_origin[:, :3, 3] -= first_at_origin[0, :3, 3].clone()
    take = Take(take.frames, take.trajectory.replace(camera_to_world=first_at_origin))
    write_panshot(tmp_path, take, x_fov, xi=0.0, near_depth=2.5, video=video)
    clip = read_back(f"panshot:{tmp_path}")
    assert_same(clip, take, exact_frames=not video)
    assert clip.caption == take.caption
    assert clip.trajectory.near_depth == 2.5


def test_panshot_sees_its_field_of_view_through_xi(tmp_path: Path):
    write_panshot(tmp_path, make_take(), x_fov=120.0, xi=0.6, near_depth=None)
    trajectory = read_back(f"panshot:{tmp_path}").trajectory
    left = lens.pixel_rays(trajectory.intrinsics[0], torch.tensor([0.0, HEIGHT / 2]).double(), trajectory.xi)
    assert trajectory.xi == 0.6
    assert math.degrees(math.atan2(float(left[0]), float(left[2]))) == pytest.approx(-60)


def test_omniworld(tmp_path: Path):
    write_omniworld(tmp_path, take := make_take(), first=137)
    clip = read_back(f"omniworld:{tmp_path}")
    assert_same(clip, take, eta=20.0)
    assert clip.caption == take.caption
    assert clip.trajectory.fps == 24.0


def test_omniworld_as_downloaded_with_poses_and_pictures_apart(tmp_path: Path):
    write_omniworld(tmp_path / "annotations" / "OmniWorld-Game", take := make_take())
    (tmp_path / "videos" / "OmniWorld-Game" / "take").mkdir(parents=True)
    color = tmp_path / "annotations" / "OmniWorld-Game" / "take" / "color"
    color.rename(tmp_path / "videos" / "OmniWorld-Game" / "take" / "color")
    assert_same(read_back(f"omniworld:{tmp_path}?eta=1"), take)


# -- conventions: each with an answer that is wrong when the convention is dropped ----------------------------------


def anchored_path(source: str) -> Trajectory:
    return read_back(source, ClipSpec(num_frames=5, width=WIDTH, height=HEIGHT)).trajectory


def straight(step: tuple[float, float, float], yaw_degrees: float = 0.0) -> Take:
    """A camera that walks along `step` in the world while it turns right evenly."""
    take = make_take(frames=5)
    turn = torch.deg2rad(torch.linspace(0, yaw_degrees, 5).double())
    cos, sin, zero, one = turn.cos(), turn.sin(), torch.zeros(5).double(), torch.ones(5).double()
    rows = [torch.stack(row, -1) for row in ((cos, zero, sin), (zero, one, zero), (-sin, zero, cos))]
    poses = torch.eye(4).double().repeat(5, 1, 1)
    poses[:, :3, :3] = torch.stack(rows, -2)
    poses[:, :3, 3] = torch.arange(5).double()[:, None] * torch.tensor(step).double()
    return Take(take.frames, take.trajectory.replace(camera_to_world=poses))


def test_dl3dv_axes_are_opengl(tmp_path: Path):
    write_dl3dv(tmp_path, straight((0, -1, 0), yaw_degrees=90))
    trajectory = anchored_path(f"dl3dv:{tmp_path}")
    assert trajectory.positions[-1].tolist() == pytest.approx([0, -4, 0])  # up is minus y
    assert trajectory.rotations[-1][:, 2].tolist() == pytest.approx([1, 0, 0], abs=1e-9)  # and it looks right


def test_omniworld_quaternions_are_w_first(tmp_path: Path):
    write_omniworld(tmp_path, straight((0, 0, 1), yaw_degrees=90))
    # Not anchored: with the order confused all cameras would be turned by the same half turn, which anchoring hides.
    trajectory = read_back(f"omniworld:{tmp_path}", ClipSpec(5, width=WIDTH, height=HEIGHT, anchor=False)).trajectory
    assert trajectory.rotations[0][:, 1].tolist() == pytest.approx([0, 1, 0], abs=1e-9)
    assert trajectory.rotations[-1][:, 2].tolist() == pytest.approx([1, 0, 0], abs=1e-9)


@pytest.mark.parametrize("kind", ["re10k", "omniworld"])
def test_poses_are_world_to_camera(tmp_path: Path, kind: str):
    {"re10k": write_re10k, "omniworld": write_omniworld}[kind](tmp_path, straight((0, 0, 1), yaw_degrees=90))
    trajectory = anchored_path(f"{kind}:{tmp_path}?eta=1")
    assert trajectory.positions[-1].tolist() == pytest.approx(
        [0, 0, 4], abs=1e-9
    )  # forward of the first camera, not the last


def test_panshot_world_is_y_down_and_camera_to_world(tmp_path: Path):
    write_panshot(tmp_path, straight((0, 1, 0.5), yaw_degrees=90), 64.0, 0.0, None, video=False)
    trajectory = anchored_path(f"panshot:{tmp_path}")
    assert trajectory.positions[-1].tolist() == pytest.approx([0, 4, 2], abs=1e-9)  # sinks, and moves on
    assert trajectory.rotations[-1][:, 2].tolist() == pytest.approx([1, 0, 0], abs=1e-9)


def test_eta_of_omniworld_is_20_and_of_the_others_1(tmp_path: Path):
    take = straight((0, 0, 0.05))
    write_re10k(tmp_path / "a", take)
    write_dl3dv(tmp_path / "b", take)
    write_panshot(tmp_path / "c", take, 64.0, 0.0, None, video=False)
    write_omniworld(tmp_path / "d", take)
    lengths = [
        float(anchored_path(f"{kind}:{tmp_path / folder}").positions[-1].norm())
        for kind, folder in (("re10k", "a"), ("dl3dv", "b"), ("panshot", "c"), ("omniworld", "d"))
    ]
    assert lengths == pytest.approx([0.2, 0.2, 0.2, 4.0])


def test_near_depth_divides_positions_only_when_asked(tmp_path: Path):
    write_panshot(tmp_path, straight((0, 0, 1)), 64.0, 0.0, near_depth=2.0, video=False)
    asked = ClipSpec(num_frames=5, width=WIDTH, height=HEIGHT, near_depth=True)
    trajectory = read_back(f"panshot:{tmp_path}", asked).trajectory
    assert trajectory.positions[-1].tolist() == pytest.approx([0, 0, 2])
    assert trajectory.near_depth == pytest.approx(1.0)
    assert anchored_path(f"panshot:{tmp_path}").positions[-1].tolist() == pytest.approx([0, 0, 4])


def test_a_near_depth_that_is_asked_for_and_not_known_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    write_re10k(tmp_path, straight((0, 0, 1)))
    for asked in (False, True):
        spec = ClipSpec(num_frames=5, width=WIDTH, height=HEIGHT, near_depth=asked)
        clips = Clips([open_source(f"re10k:{tmp_path}")], spec)
        trajectories = [clips.trajectory(index) for index in (0, 0)]
        assert trajectories[0].positions.norm(dim=-1).max() > 0
        found = [one for one in caplog.messages if "the near depth of re10k is not known for every shot" in one]
        assert len(found) == asked


def test_re10k_intrinsics_are_fractions_of_the_stored_picture(tmp_path: Path):
    """A 16:9 source stored squashed to a square: fx and fy follow each its own side."""
    wide = straight((0, 0, 1))
    square = make_take(frames=5, width=64, height=64)
    write_re10k(tmp_path, Take(square.frames, wide.trajectory))
    trajectory = read_back(f"re10k:{tmp_path}", ClipSpec(num_frames=5, width=64, height=64)).trajectory
    assert float(trajectory.intrinsics[0, 0, 0]) == pytest.approx(0.8 * 64)
    assert float(trajectory.intrinsics[0, 1, 1]) == pytest.approx(0.8 * 64 * 16 / 9)


def test_dl3dv_frames_are_matched_by_name_whatever_their_order(tmp_path: Path):
    write_dl3dv(tmp_path, take := make_take(frames=9), shuffled=True)
    assert_same(read_back(f"dl3dv:{tmp_path}"), take)


def test_omniworld_frame_numbers_choose_the_pictures(tmp_path: Path):
    write_omniworld(tmp_path, take := make_take(frames=5), first=40)
    other = make_take(frames=5, seed=9)
    write_omniworld(tmp_path / "elsewhere", Take(255 - other.frames, other.trajectory), first=0)
    for picture in (tmp_path / "elsewhere" / "take" / "color").iterdir():
        picture.rename(tmp_path / "take" / "color" / picture.name)  # frames 0..4 are there too, and not meant
    clips = Clips([open_source(f"omniworld:{tmp_path}")], ClipSpec(num_frames=5, width=WIDTH, height=HEIGHT))
    names = {clips.windows[index].shot: index for index in range(len(clips))}
    assert np.array_equal(clips[names["take/split_1"]].frames, take.frames)
