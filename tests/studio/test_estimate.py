"""The path of a film from its pixels: of a true video it is the commanded one."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.studio import estimate
from sightline.studio.estimate import estimate_film
from sightline.video import save_video
from sightline.worlds import render_clip, sample_clip


def write(folder, frames, trajectory):
    folder.mkdir()
    save_video(frames, folder / "video.mp4")
    trajectory.save(folder / "trajectory.json")
    (folder / "settings.json").write_text(json.dumps({"request": {}, "generated": {}, "model": {}, "result": {}}))


def test_the_path_of_a_true_video_is_the_commanded_one(tmp_path):
    clip = sample_clip("walkthrough", 16, 2, 96, 96)
    path = moves.parse("truck:0.2+pan:6", frames=5, width=96, height=96)
    placed = clip.true_trajectory.camera_to_world[0] @ path.camera_to_world
    rendered = render_clip(clip.scene, path.replace(camera_to_world=placed, unit="metre"))
    write(tmp_path / "film", rendered.frames.numpy(), rendered.trajectory)
    progress, threads = [], torch.get_num_threads()
    found = estimate_film(tmp_path / "film", rendered.depth[0].numpy(), progress.append)
    assert np.shape(found["poses"]) == (5, 4, 4) and found["unit"] == "metre"
    assert found["rotation"] < 0.01 and found["translation"] < 0.02 and found["confidence"] > 0.7
    assert progress == sorted(progress) and 0 < progress[0] < 0.3 and progress[-1] == pytest.approx(1.0)
    assert len(progress) >= 6 and torch.get_num_threads() == threads


def test_a_large_film_is_estimated_at_a_size_that_direct_alignment_is_made_for(tmp_path, monkeypatch):
    monkeypatch.setattr(estimate, "MAX_SIDE", 96)
    clip = sample_clip("walkthrough", 16, 2, 192, 128)
    path = moves.parse("truck:0.2+pan:6", frames=4, width=192, height=128)
    placed = clip.true_trajectory.camera_to_world[0] @ path.camera_to_world
    rendered = render_clip(clip.scene, path.replace(camera_to_world=placed, unit="metre"))
    frames, depth = rendered.frames.numpy(), rendered.depth[0].numpy()
    video, near = estimate.reduced(frames, depth)
    assert video.shape == (4, 64, 96, 3) and near.shape == (64, 96) and set(near.flat) <= set(depth.flat)
    write(tmp_path / "film", frames, rendered.trajectory)
    found = estimate_film(tmp_path / "film", depth)
    assert found["rotation"] < 0.01 and found["translation"] < 0.02
    monkeypatch.setattr(estimate, "MAX_SIDE", 192)
    assert estimate.reduced(frames, depth)[0] is frames


def test_an_estimate_ends_when_its_progress_raises(tmp_path):
    class CancelledError(Exception):
        pass

    def cancel(fraction):
        raise CancelledError

    frames = np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), np.uint8)
    write(tmp_path / "film", frames, moves.truck(0.2, frames=5, width=64, height=64))
    threads = torch.get_num_threads()
    with pytest.raises(CancelledError):
        estimate_film(tmp_path / "film", np.full((64, 64), 2.0, np.float32), cancel)
    assert torch.get_num_threads() == threads


def test_a_film_that_shows_something_else_is_one_sentence(tmp_path):
    path = moves.truck(0.2, frames=5, width=64, height=64)
    write(tmp_path / "film", np.random.default_rng(0).integers(0, 256, (5, 64, 64, 3), np.uint8), path)
    with pytest.raises(SightlineError, match="the path cannot be estimated"):
        estimate_film(tmp_path / "film", np.full((64, 64), 2.0, np.float32))
