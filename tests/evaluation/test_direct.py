"""Direct alignment on true videos: its floor, known answers, and videos that have no cameras."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip import Clip
from sightline.errors import SightlineError
from sightline.evaluation import held_out, pose_errors
from sightline.evaluation.estimator_floor import estimator_floor, summarize
from sightline.evaluation.estimators import Hints, get_estimator, open_estimator
from sightline.evaluation.estimators._agreement import agreement, static_weights
from sightline.evaluation.held_out import held_out_clips
from sightline.worlds import render_clip, sample_batch, sample_clip

FRAMES, SIZE = 9, 96


@pytest.fixture(scope="module", autouse=True)
def shorter_clips():
    """Half the frames of the lab's clips, to save time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(held_out, "NUM_FRAMES", 17)
        yield


@pytest.fixture(scope="module")
def truths(shorter_clips):
    return held_out_clips(4, depth=True)


def render(trajectory: Trajectory, seed: int = 900_012) -> Clip:
    """A clip of a held-out room along a trajectory, in metres of the room."""
    scene = sample_clip("walkthrough", seed, 2, trajectory.width, trajectory.height)
    placed = trajectory.replace(
        camera_to_world=scene.true_trajectory.camera_to_world[0] @ trajectory.camera_to_world, unit="metre"
    )
    shown = render_clip(scene.scene, placed)
    return Clip(
        shown.frames.numpy(), placed.anchored(), shown.caption, "walkthrough", "own", depth=shown.depth[0].numpy()
    )


def small(move, *amounts, frames=FRAMES):
    return move(*amounts, frames=frames, width=SIZE, height=SIZE)


def test_the_true_clips_are_the_lab_s(truths):
    lab = held_out_clips(4)
    assert len(lab) == len(truths) == 4
    for mine, theirs in zip(truths, lab, strict=True):
        np.testing.assert_array_equal(mine.frames, theirs.frames)
        assert torch.equal(mine.trajectory.camera_to_world, theirs.trajectory.camera_to_world)


def test_the_floor_on_the_lab_s_clips(truths):
    rows = estimator_floor(get_estimator("direct"), truths[2:3])  # a turn with a wide lens
    summary = summarize(rows)
    assert (summary.asked, summary.scored, summary.failed) == (1, 1, 0)
    for row in rows:
        assert row.errors is not None and row.errors.rot_err < 0.01
        assert row.translation_fraction is not None and row.translation_fraction < 0.03


def test_pure_rotation():
    clip = render(small(moves.pan, 15))
    answer = get_estimator("direct").estimate(clip.frames, Hints.from_clip(clip))
    assert answer.trajectory is not None, answer.failure
    errors = pose_errors(answer.trajectory, clip.trajectory)
    assert errors.rot_err < 0.002 and errors.ate < 0.005  # metres; the room is 3 m deep
    assert answer.confidence > 0.7 and answer.trajectory.unit == "metre"


def test_videos_in_one_batch_are_estimated_as_each_alone():
    """Up to rounding, which differs between batches; also a wide lens, a video that is lost, and one of another length."""
    clips = [render(small(move, amount)) for move, amount in ((moves.truck, 0.4), (moves.pan, 15), (moves.dolly, 0.5))]
    wide = render(small(moves.pan, 15).replace(xi=0.5))
    videos = [clip.frames for clip in (*clips, wide)] + [clips[0].frames[:5], clips[0].frames.copy()]
    videos[-1][3:] = np.random.default_rng(0).integers(0, 256, videos[-1][3:].shape, dtype=np.uint8)
    hints = [Hints(lens=clip.trajectory, depth=clip.depth, first=clip.frames[0]) for clip in (*clips, wide)]
    hints += [replace(hints[0], lens=clips[0].trajectory.resampled(5)), hints[0]]
    together = get_estimator("direct", videos_at_once=3).estimate_all(videos, hints)
    assert [answer.trajectory is None for answer in together] == [False] * 5 + [True]
    for video, of_video, answer in zip(videos, hints, together, strict=True):
        alone = get_estimator("direct").estimate(video, of_video)
        assert answer.failure == alone.failure and answer.details["keyframes"] == alone.details["keyframes"]
        if alone.trajectory is not None and answer.trajectory is not None:
            poses, expected = answer.trajectory.camera_to_world, alone.trajectory.camera_to_world
            torch.testing.assert_close(poses, expected, atol=2e-3, rtol=0)


def test_half_the_path_and_a_frozen_video():
    asked, actual = render(small(moves.truck, 0.4)), render(small(moves.truck, 0.2))
    estimator = get_estimator("direct")
    answer = estimator.estimate(actual.frames, Hints.from_clip(asked))  # what the generator was told, and what it did
    assert answer.trajectory is not None
    raw = pose_errors(answer.trajectory, asked.trajectory)
    assert raw.trans_err == pytest.approx(0.1, rel=0.03)  # the mean of 0 .. 0.2
    assert pose_errors(answer.trajectory, asked.trajectory, "rescaled").trans_err < 0.01

    frozen = estimator.estimate(np.repeat(asked.frames[:1], FRAMES, 0), Hints.from_clip(asked))
    assert frozen.trajectory is not None
    assert pose_errors(frozen.trajectory, asked.trajectory).trans_err == pytest.approx(0.2, rel=0.03)
    for alignment in ("rescaled", "gt_scaled"):
        still = pose_errors(frozen.trajectory, asked.trajectory, alignment)
        assert still.trans_err > 0.4 > 10 * pose_errors(answer.trajectory, asked.trajectory, "rescaled").trans_err


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA")
def test_cuda_gives_the_same_cameras():
    clip = render(small(moves.truck, 0.2))
    estimates = [
        get_estimator("direct", device=device).estimate(clip.frames, Hints.from_clip(clip))
        for device in ("cpu", "cuda")
    ]
    assert pose_errors(estimates[1].trajectory, estimates[0].trajectory).ate < 1e-3


def test_a_palindrome_returns():
    clip = render(small(moves.loop_truck, 0.3, frames=13))
    answer = get_estimator("direct").estimate(clip.frames, Hints.from_clip(clip))
    assert answer.trajectory is not None
    distance = answer.trajectory.positions.norm(dim=-1)
    assert float(distance[-1]) / float(distance.max()) < 0.02


def test_noise_is_a_failure_and_not_a_number():
    video = np.random.default_rng(0).integers(0, 256, (6, SIZE, SIZE, 3), dtype=np.uint8)
    trajectory = small(moves.static)
    trajectory = trajectory.replace(
        camera_to_world=trajectory.camera_to_world[:6], intrinsics=trajectory.intrinsics[:6]
    )
    answer = get_estimator("direct").estimate(video, Hints(lens=trajectory, depth=torch.full((SIZE, SIZE), 2.0)))
    assert answer.trajectory is None
    assert "frames match too little" in (answer.failure or "") and answer.confidence < 0.3


def test_a_video_without_contrast_is_a_failure():
    trajectory = small(moves.static, frames=3)
    answer = get_estimator("direct").estimate(
        np.full((3, SIZE, SIZE, 3), 90, dtype=np.uint8),
        Hints(lens=trajectory, depth=torch.full((SIZE, SIZE), torch.inf)),
    )
    assert answer.trajectory is None and answer.failure


def blotches(seed: int) -> np.ndarray:  # [6, 64, 64, 3]
    """What a model makes that has learnt nothing: smooth noise, another in every frame."""
    noise = torch.randn(6, 3, 64, 64, generator=torch.Generator().manual_seed(seed))
    smooth = torch.nn.functional.avg_pool2d(noise, 5, 1, 2)
    return (128 + 50 * smooth / smooth.std()).clamp(0, 255).byte().permute(0, 2, 3, 1).numpy()


@pytest.mark.parametrize("first_is_true", [True, False])
def test_smooth_noise_is_a_failure_whatever_its_first_frame(first_is_true):
    trajectory = moves.truck(0.2, frames=6, width=64, height=64)
    clip = render(trajectory)
    video = blotches(0)
    if first_is_true:
        video[0] = clip.frames[0]
    answer = get_estimator("direct").estimate(video, Hints.from_clip(clip))
    assert answer.trajectory is None and answer.confidence < 0.4


def test_a_soft_video_with_noise_and_a_drift_of_colour_is_measured():
    clip = render(small(moves.truck, 0.3))
    pictures = torch.from_numpy(clip.frames).permute(0, 3, 1, 2).float()
    kernel = torch.tensor([1.0, 4.0, 6.0, 4.0, 1.0]) / 16  # a Gaussian of 1 pixel
    kernel = (kernel[:, None] * kernel).expand(3, 1, 5, 5)
    soft = torch.nn.functional.conv2d(
        torch.nn.functional.pad(pictures, (2, 2, 2, 2), mode="replicate"), kernel, groups=3
    )
    soft += 3 * torch.randn(soft.shape, generator=torch.Generator().manual_seed(0))
    soft += torch.linspace(0, 6, FRAMES)[:, None, None, None]
    answer = get_estimator("direct").estimate(
        soft.clamp(0, 255).byte().permute(0, 2, 3, 1).numpy(), Hints.from_clip(clip)
    )
    assert answer.trajectory is not None, answer.failure
    errors = pose_errors(answer.trajectory, clip.trajectory)
    assert errors.rot_err < 0.005 and errors.trans_err < 0.03 * 0.3 and answer.confidence > 0.75


def test_a_car_that_drives_ahead_is_left_out():
    """It is near and takes an eighth of the picture; aligned to it as well, the trajectory was wrong by a fifth of its length."""
    batch = sample_batch("openworld", [900_003], 33, 128, 128)
    frames, depth = batch.render("cpu")
    trajectory = batch.reported_trajectory(0)
    trajectory = trajectory.replace(
        camera_to_world=trajectory.camera_to_world[:10], intrinsics=trajectory.intrinsics[:10]
    ).anchored()
    first_depth = (depth[0, 0] * float(batch.scale[0])).numpy()
    clip = Clip(frames[0, :10].numpy(), trajectory, batch.captions[0], batch.style, "car", depth=first_depth)
    row = estimator_floor(get_estimator("direct", refinements=0), [clip])[0]
    assert row.errors is not None and row.translation_fraction is not None
    assert row.errors.rot_err < 0.002 and row.translation_fraction < 0.02


def test_regions_that_are_displaced_beside_the_others_are_left_out():
    generator = torch.Generator().manual_seed(0)
    slopes = 0.1 * torch.randn(2, 64 * 64, 2, generator=generator)
    shift = torch.zeros(2, 64, 64, 2)
    shift[:, 16:40, 8:32] = torch.tensor([0.5, -0.3])  # what moves by itself
    shift[1] += torch.tensor([1.0, 0.0])  # a frame that is not in its place yet
    residual = (slopes * shift.view(2, -1, 2)).sum(-1) + 1e-4 * torch.randn(2, 64 * 64, generator=generator)
    weight = static_weights(residual, slopes, torch.ones(2, 64 * 64), (64, 64)).view(2, 64, 64)
    assert float(weight[0, 16:40, 8:32].max()) == 0 and float(weight[0, :, 32:].min()) > 0.9
    assert float(weight[1].min()) > 0.3  # nothing is left out before it is


def test_agreement_is_of_structure_not_of_brightness():
    generator = torch.Generator().manual_seed(0)
    expected = torch.nn.functional.avg_pool2d(torch.rand(1, 1, 68, 68, generator=generator), 5, 1).flatten(1)
    other = torch.nn.functional.avg_pool2d(torch.rand(1, 1, 68, 68, generator=generator), 5, 1).flatten(1)
    everywhere = torch.ones_like(expected)

    def matched(seen, inside=everywhere):
        return float(agreement(expected, seen, inside, (64, 64)))

    assert matched(0.3 * expected + 0.5) == 1 and matched(1 - expected) == 0
    assert matched(other) < 0.2 and matched(torch.full_like(expected, 0.5)) == 0
    half = torch.where(torch.arange(64 * 64) < 32 * 64, expected, other)
    assert 0.45 < matched(half) < 0.65
    assert matched(half, (torch.arange(64 * 64) < 32 * 64)[None].float()) > 0.98
    assert matched(expected, 0 * everywhere) == 0


def test_the_unit_of_the_depth_is_the_unit_of_the_answer():
    clip = render(small(moves.truck, 0.2, frames=4))
    estimator = get_estimator("direct", refinements=1)
    metres = estimator.estimate(clip.frames, Hints.from_clip(clip)).trajectory
    inches = estimator.estimate(clip.frames, Hints(lens=clip.trajectory, depth=clip.depth * 39.37)).trajectory
    assert metres is not None and inches is not None
    torch.testing.assert_close(inches.positions, metres.positions * 39.37, rtol=1e-3, atol=1e-3)


def test_another_scene_after_a_cut_is_a_failure():
    clip, other = render(small(moves.truck, 0.1)), render(small(moves.truck, 0.1), 900_027)
    video = np.concatenate([clip.frames[:3], other.frames[3:]])
    assert get_estimator("direct").estimate(video, Hints.from_clip(clip)).trajectory is None


def test_a_video_that_starts_with_another_picture_than_the_depth_s_is_a_failure():
    clip, other = render(small(moves.truck, 0.1, frames=3)), render(small(moves.truck, 0.1, frames=3), 900_027)
    told = Hints(lens=clip.trajectory, depth=clip.depth, first=clip.frames[0])
    answer = get_estimator("direct").estimate(other.frames, told)
    assert answer.trajectory is None and "the picture whose depth is given" in (answer.failure or "")
    assert answer.confidence < 0.4 and get_estimator("direct").estimate(clip.frames, told).trajectory is not None
    with pytest.raises(SightlineError, match=r"first is \[8, 8, 3\]: expected \[96, 96, 3\]"):
        get_estimator("direct").estimate(clip.frames, Hints(clip.trajectory, clip.depth, clip.frames[0, :8, :8]))


def test_what_is_missing_is_told_in_a_sentence():
    video = np.zeros((3, 16, 16, 3), dtype=np.uint8)
    trajectory = moves.static(frames=3, width=16, height=16)
    direct = get_estimator("direct")
    with pytest.raises(SightlineError, match="lens is not given"):
        direct.estimate(video, Hints(depth=np.ones((16, 16))))
    with pytest.raises(SightlineError, match="depth is not given"):
        direct.estimate(video, Hints(lens=trajectory))
    with pytest.raises(SightlineError, match=r"depth has shape \[8, 8\]"):
        direct.estimate(video, Hints(lens=trajectory, depth=np.ones((8, 8))))
    with pytest.raises(SightlineError, match="not above 0"):
        direct.estimate(video, Hints(lens=trajectory, depth=np.zeros((16, 16))))
    with pytest.raises(SightlineError, match="lens has 2 frames"):
        direct.estimate(video, Hints(lens=moves.static(frames=2, width=16, height=16), depth=np.ones((16, 16))))
    with pytest.raises(SightlineError, match="video is float64"):
        direct.estimate(video.astype(float), Hints(lens=trajectory, depth=np.ones((16, 16))))
    with pytest.raises(SightlineError, match="estimator is 'orb'"):
        get_estimator("orb")
    with pytest.raises(SightlineError, match="colour is no option of direct: expected one of device, refinements"):
        get_estimator("direct", colour="red")
    with pytest.raises(SightlineError, match="colour is no option of direct"):
        open_estimator("direct?colour=red")
    with pytest.raises(SightlineError, match="refinements of direct is 'two': expected a whole number"):
        open_estimator("direct?refinements=two")
    assert open_estimator("direct?refinements=3&device=cpu").refinements == 3
