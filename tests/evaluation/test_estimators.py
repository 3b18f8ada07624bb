"""The other estimators: COLMAP on true videos, ViPE's tool and folders, trajectories from files. One protocol."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from sightline.cameras import lens, moves, se3
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.evaluation import pose_errors
from sightline.evaluation.estimator_floor import estimator_floor, summarize
from sightline.evaluation.estimators import ESTIMATORS, Hints, get_estimator
from sightline.evaluation.estimators._turning import Pair, rotations_alone
from sightline.evaluation.estimators.colmap import _one_pinhole
from sightline.evaluation.held_out import rendered_clip
from tests.conftest import smooth_trajectory

VIDEO = np.zeros((9, 64, 64, 3), dtype=np.uint8)


def colmap(**options):
    pytest.importorskip("pycolmap")
    return get_estimator("colmap", threads=1, **{"features": 1500, **options})


def test_colmap_places_a_truck_in_metres(monkeypatch):
    clip = rendered_clip("truck", num_frames=5)
    found_models = []
    mapped = type(colmap())._map
    monkeypatch.setattr(type(colmap()), "_map", lambda *given: found_models.extend(mapped(*given)) or found_models)
    answer = colmap().estimate(clip.frames, Hints.from_clip(clip))
    assert answer.trajectory is not None, answer.failure
    errors = pose_errors(answer.trajectory, clip.trajectory)
    assert errors.rot_err < 0.002 and errors.trans_err < 0.005 * 0.5
    assert answer.details["kind"] == "reconstruction" and answer.details["registered"] == 5
    assert answer.trajectory.unit == "metre" and answer.confidence > 0.5

    strict = colmap(worst_reprojection=0.01)._finish(found_models[0], clip.frames, Hints(), None, None)
    assert strict.trajectory is None and "reprojection error" in (strict.failure or "")

    anywhere = 1 + 4 * torch.rand(clip.depth.shape, generator=torch.Generator().manual_seed(0))  # of no scene
    lost = colmap()._finish(found_models[0], clip.frames, Hints.from_clip(clip), None, anywhere)
    assert lost.trajectory is None and "lie where its depth says" in (lost.failure or "") and lost.confidence < 0.5


def test_colmap_answers_pure_rotation_by_rotations():
    clip = rendered_clip("rotation", num_frames=5)
    answer = colmap().estimate(clip.frames, Hints.from_clip(clip))
    assert answer.trajectory is not None, answer.failure
    errors = pose_errors(answer.trajectory, clip.trajectory)
    assert answer.details["kind"] == "rotation"
    assert errors.rot_err < 0.002 and errors.ate == 0
    without_depth = replace(Hints.from_clip(clip), depth=None)
    answer = colmap().estimate(clip.frames, without_depth)
    assert answer.trajectory is not None and answer.trajectory.unit == colmap().unit("metre", False) == "arbitrary"


def test_colmap_calls_noise_a_failure():
    video = np.random.default_rng(0).integers(0, 256, (4, 160, 240, 3), dtype=np.uint8)
    trajectory = moves.static(frames=4, width=240, height=160)
    answer = colmap().estimate(video, Hints(lens=trajectory, depth=torch.full((160, 240), 2.0)))
    assert answer.trajectory is None and answer.failure


def test_a_missing_package_is_told_in_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "pycolmap", None)
    with pytest.raises(SightlineError, match="pycolmap is not installed"):
        get_estimator("colmap").estimate(VIDEO, Hints())
    with pytest.raises(SightlineError, match="video has 2 frames"):
        get_estimator("colmap").estimate(VIDEO[:2], Hints())


def test_a_wide_lens_and_a_zoom_become_one_pinhole():
    width, height, depth = 48, 32, 3.0
    focal = torch.tensor([30.0, 36.0, 42.0], dtype=torch.float64)
    optics = lens.intrinsics_matrix(focal, focal, torch.full_like(focal, 24), torch.full_like(focal, 16))
    centres = lens.grid_centres(width, height, width, height)

    def picture(rays):  # a smooth pattern on the sphere of directions
        return 127 + 100 * (6 * rays[..., :1]).sin() * (5 * rays[..., 1:2]).cos()

    video = picture(lens.pixel_rays(optics[:, None, None], centres.expand(3, -1, -1, -1), 0.4))
    video = video.round().byte().expand(-1, -1, -1, 3).numpy()
    resampled, pinhole, seen = _one_pinhole(video, optics, 0.4, torch.full((height, width), depth))
    assert float(pinhole[0, 0]) == pytest.approx(42 / 1.4)
    expected = picture(lens.pixel_rays(pinhole, centres)).expand(-1, -1, 3).numpy()
    assert np.abs(resampled - expected).max() < 4 and seen is not None and bool((seen == depth).all())


def matches(trajectory, depths, pairs):
    """Pixels of random points in pairs of frames."""
    generator = torch.Generator().manual_seed(0)
    pairs_seen = []
    for a, b in pairs:
        pixels = torch.rand(60, 2, generator=generator, dtype=torch.float64) * 64
        rays = lens.pixel_rays(trajectory.intrinsics[0], pixels)
        places = rays / rays[:, 2:] * (depths[0] + depths[1] * torch.rand(60, 1, generator=generator).double())
        move = se3.inverse(trajectory.camera_to_world[b]) @ trajectory.camera_to_world[a]
        seen = lens.project(trajectory.intrinsics[0], places @ move[:3, :3].T + move[:3, 3])
        pairs_seen.append(Pair(a, b, pixels, seen))
    return pairs_seen


def test_rotations_alone_are_exact_and_know_when_they_are_not_enough():
    turn, pairs = moves.pan(20, frames=6, width=64, height=64), [(i, j) for i in range(6) for j in range(i + 1, 6)]
    solution = rotations_alone(matches(turn, (1, 3), pairs), turn.intrinsics[0], 6)
    assert solution is not None and solution.explained == 1
    torch.testing.assert_close(solution.rotations, turn.rotations, rtol=0, atol=1e-9)
    truck = moves.truck(1.0, frames=6, width=64, height=64)
    assert rotations_alone(matches(truck, (1, 3), pairs), truck.intrinsics[0], 6) is None
    assert rotations_alone(matches(turn, (1, 3), pairs[:3]), turn.intrinsics[0], 6) is None  # frames 4 and 5 hang loose


def test_given_reads_files(tmp_path):
    trajectory = smooth_trajectory(9)
    trajectory.save(tmp_path / "clip.json")
    for place in (tmp_path, tmp_path / "clip.json"):
        answer = get_estimator("given", path=place).estimate(VIDEO, Hints(name="clip"))
        assert answer.trajectory is not None and answer.confidence == 1
        assert pose_errors(answer.trajectory, trajectory).ate < 1e-9
    assert "holds no trajectory file" in get_estimator("given", path=tmp_path).estimate(VIDEO, Hints(name="b")).failure
    with pytest.raises(SightlineError, match=r"no\.json: the estimator given expects a trajectory file"):
        get_estimator("given", path=tmp_path / "no.json")
    short = get_estimator("given", path=tmp_path / "clip.json").estimate(VIDEO[:5], Hints())
    assert short.trajectory is None and "has 9 frames but the video has 5" in short.failure
    with pytest.raises(SightlineError, match="path is not given"):
        get_estimator("given").estimate(VIDEO, Hints())
    with pytest.raises(SightlineError, match="is a folder"):
        get_estimator("given", path=tmp_path).estimate(VIDEO, Hints())


@pytest.mark.parametrize(
    "file, options, unit",
    [
        ("a.json", {}, "scene"),  # our own json states it
        ("pose/a.npz", {}, "metre"),
        ("a.tum", {}, "arbitrary"),
        ("a.tum", {"stated_unit": "metre"}, "metre"),
        ("a.tum", {"stated_unit": "scene"}, "scene"),
    ],
)
def test_given_has_the_unit_that_its_file_or_its_user_states(tmp_path, file, options, unit):
    trajectory = smooth_trajectory(9)
    (tmp_path / "pose").mkdir()
    trajectory.save(tmp_path / file)
    given = get_estimator("given", path=tmp_path / file, **options)
    assert given.estimate(VIDEO, Hints(lens=trajectory)).trajectory.unit == unit
    assert given.unit("scene", False) == (unit if options else None)
    with pytest.raises(SightlineError, match="stated_unit is 'feet'"):
        get_estimator("given", path=tmp_path / file, stated_unit="feet")


def test_vipe_reads_its_folder(tmp_path):
    trajectory = smooth_trajectory(9)
    (tmp_path / "pose").mkdir()
    trajectory.save(tmp_path / "pose" / "clip.npz", format="vipe")
    vipe = get_estimator("vipe", folder=tmp_path)
    answer = vipe.estimate(VIDEO, Hints(name="clip"))
    assert answer.trajectory is not None and answer.trajectory.unit == "metre"
    assert pose_errors(answer.trajectory, trajectory.replace(unit="metre")).ate < 1e-9
    tail = vipe.estimate(np.concatenate([VIDEO, VIDEO[:1]]), Hints(name="clip"))  # its last frame has no pose
    assert tail.trajectory is not None and len(tail.trajectory) == 10 and tail.confidence == 0.9
    assert "11 of 20 frames" in vipe.estimate(np.repeat(VIDEO[:1], 20, 0), Hints(name="clip")).failure
    assert "ViPE placed no camera" in vipe.estimate(VIDEO, Hints(name="other")).failure
    with pytest.raises(SightlineError, match="expected the video's name"):
        vipe.estimate(VIDEO, Hints())


def test_vipe_runs_where_it_is_installed(tmp_path, monkeypatch):
    with pytest.raises(SightlineError, match="no-vipe is not installed"):
        get_estimator("vipe", command="no-vipe").estimate(VIDEO, Hints())
    trajectory = smooth_trajectory(9)
    (tmp_path / "pose").mkdir()
    trajectory.save(tmp_path / "pose" / "clip.npz", format="vipe")
    tool = tmp_path / "vipe"
    tool.write_text(
        f'#!/bin/sh\ntest -f "$2" || exit 3\nmkdir -p "$4"\ncp -r {tmp_path}/pose {tmp_path}/intrinsics "$4"\n'
    )
    tool.chmod(0o755)
    answer = get_estimator("vipe", command=str(tool)).estimate(VIDEO, Hints(lens=trajectory))
    assert answer.trajectory is not None and len(answer.trajectory) == 9
    tool.write_text("#!/bin/sh\necho no device >&2\nexit 7\n")
    assert "ended with code 7: no device" in get_estimator("vipe", command=str(tool)).estimate(VIDEO, Hints()).failure


def test_a_floor_keeps_its_failures(tmp_path):
    trajectory = smooth_trajectory(9)
    trajectory.scaled(1.1).save(tmp_path / "a.json")
    clips = [
        Clip(VIDEO, trajectory, "a room", "walkthrough", name, depth=np.ones((64, 64), np.float32))
        for name in ("a", "b")
    ]
    rows = estimator_floor(get_estimator("given", path=tmp_path), clips)
    summary = summarize(rows)
    assert (summary.asked, summary.scored, summary.failed) == (2, 1, 1)
    assert "holds no trajectory file called b" in summary.failures["b"]
    assert rows[1].translation_fraction is None
    assert summary.trans_fraction.worst == pytest.approx(rows[0].translation_fraction) == pytest.approx(0.05, rel=0.1)


def test_every_estimator_has_its_name():
    for name in ESTIMATORS:
        assert get_estimator(name).name == name
    assert Path(sys.modules[get_estimator("given").__module__].__file__).parent.name == "estimators"
