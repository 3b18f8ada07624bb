"""Each metric against its formula written another way, and the networks through files in the layouts of the real ones."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate1d

from sightline.errors import SightlineError
from sightline.evaluation.metrics import frechet, networks
from sightline.evaluation.metrics.similarity import ssim
from sightline.evaluation.metrics.suite import DEFAULT_METRICS, METRICS, Suite, metric_names

RANDOM = np.random.default_rng(0)


def random_video(frames=3, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (frames, 64, 48, 3), dtype=np.uint8)


def test_the_frechet_distance_is_the_closed_form_on_gaussians():
    mean, other = RANDOM.normal(size=6), RANDOM.normal(size=6)
    variances, other_variances = RANDOM.uniform(0.1, 2, 6), RANDOM.uniform(0.1, 2, 6)
    turn = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]  # covariances that commute, in no special axes
    first, second = turn * variances @ turn.T, turn * other_variances @ turn.T
    expected = np.square(mean - other).sum() + np.square(np.sqrt(variances) - np.sqrt(other_variances)).sum()
    assert np.isclose(frechet.gaussian_distance(mean, first, other, second), expected, rtol=1e-10)
    # In one dimension it is the difference of means and of deviations, whatever the covariance.
    one = frechet.gaussian_distance(np.array([1.0]), np.array([[4.0]]), np.array([-2.0]), np.array([[9.0]]))
    assert np.isclose(one, 9 + 1)


@pytest.mark.parametrize("count, dimensions", [(30, 8), (8, 30), (8, 8)])
def test_features_give_the_distance_of_their_moments_however_few_they_are(count, dimensions):
    real, generated = RANDOM.normal(size=(count, dimensions)), RANDOM.normal(1, 2, size=(count + 3, dimensions))
    moments = [(one.mean(0), np.cov(one, rowvar=False)) for one in (real, generated)]
    expected = frechet.gaussian_distance(*moments[0], *moments[1])
    assert np.isclose(frechet.feature_distance(real, generated), expected, rtol=1e-6)
    assert frechet.feature_distance(real, real) < 1e-6


def test_a_distance_comes_with_its_n_and_a_floor_of_real_clips_against_real_clips():
    clips = [RANDOM.normal(size=(5, 4)) for _ in range(8)]
    result = frechet.frechet(clips, [clip + 3 for clip in clips])
    assert (result.n_real, result.n_generated, result.n_half, result.dimensions) == (40, 40, 20, 4)
    assert np.isclose(result.distance, 36) and result.between_halves is not None and 0 < result.between_halves < 3
    assert frechet.frechet(clips[:1], clips[:1]).between_halves is None


def test_ssim_is_the_paper_s_formula():
    one, other = random_video(), random_video(seed=1) // 2 + random_video() // 2
    at = np.arange(-5, 6)
    weight = np.exp(-(at**2) / 4.5)
    weight /= weight.sum()

    def blurred(image):
        return correlate1d(correlate1d(image, weight, axis=0), weight, axis=1)[5:-5, 5:-5]

    for frame in range(len(one)):
        x, y = one[frame].astype(float), other[frame].astype(float)
        mx, my = blurred(x), blurred(y)
        vx, vy, cxy = blurred(x * x) - mx**2, blurred(y * y) - my**2, blurred(x * y) - mx * my
        score = (2 * mx * my + 6.5025) * (2 * cxy + 58.5225) / ((mx**2 + my**2 + 6.5025) * (vx + vy + 58.5225))
        assert np.isclose(ssim(one, other)[frame], score.mean(), rtol=1e-9)
    assert np.allclose(ssim(one, one), 1)
    with pytest.raises(SightlineError, match="at least 11 pixels"):
        ssim(one[:, :8], other[:, :8])


def test_lpips_comes_from_its_package_in_the_range_it_expects(small_weights):
    """The stand-in's distance is known; the adapter scales 0..255 to -1..1 and compares one reference with all frames."""
    network = networks.open_network("lpips", {})
    one, other = random_video(20), random_video(20, seed=1)
    difference = (one.astype(np.float32) - other) / 127.5
    assert np.allclose(network.frames(one, other), np.abs(difference).mean(axis=(1, 2, 3)), rtol=1e-4)
    assert np.allclose(network.frames(one, one), 0)
    assert np.allclose(network.frames(other, one[:1])[0], network.frames(other[:1], one[:1]))
    scaled = networks.open_network("lpips", small_weights)  # the state dict of a file: twice the distance
    assert np.allclose(scaled.frames(one, other), 2 * network.frames(one, other))
    with pytest.raises(SightlineError, match="at least 31 a side"):
        network.frames(one[:, :16], other[:, :16])
    with pytest.raises(SightlineError, match="weights of lpips cannot be had from nowhere"):
        networks.open_network("lpips", {"lpips": "nowhere.pth"})


def test_every_metric_through_files_of_its_network(small_weights):
    suite = Suite(["all"], small_weights).open()
    assert suite.names == tuple(METRICS)
    video, truth = random_video(35), random_video(35, seed=1)
    scores = suite.score(video, truth, "a quiet kitchen, and more words than its text encoder has room for")
    assert {name: len(values) for name, values in scores.by_frame.items()} == {
        "psnr": 35, "ssim": 35, "lpips": 35, "clip_text": 35, "clip_frames": 34, "dino": 35
    }  # fmt: skip
    assert all(np.isfinite(values).all() for values in scores.by_frame.values())
    assert scores.generated["fvd"].shape == scores.real["fvd_c"].shape == (1, 6)
    assert scores.generated["fid"].shape == scores.real["fid"].shape == (35, 3)
    # Two whole windows of 16 frames; the second of them is the clip of those frames alone.
    assert scores.generated["fvd_16"].shape == scores.real["fvd_c_16"].shape == (2, 6)
    second = suite.networks["i3d"].clip(video[16:32], cropped=False)
    assert np.allclose(scores.generated["fvd_16"][1:], second) and not np.allclose(scores.generated["fvd"], second)
    assert "clip_text" not in suite.score(video, truth, None).by_frame  # no caption, no similarity to it
    assert not np.allclose(scores.generated["fvd"], scores.generated["fvd_c"])  # not square: the crop differs
    with pytest.raises(SightlineError, match="video has 5 frames: expected at least 16"):
        Suite(["fvd_16"], small_weights).open().score(video[:5], truth[:5], None)
    same = suite.score(truth, truth, "a kitchen")
    for name in ("ssim", "dino"):
        assert np.allclose(same.by_frame[name], 1, atol=1e-5)


def test_what_is_absent_is_one_sentence_or_left_out(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setitem(sys.modules, "lpips", None)

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    for name, words in (
        ("lpips", "expected `pip install lpips`"), ("fid", "--weights inception=PATH"), ("fvd", "--weights i3d=PATH"),
        ("clip_text", "--weights clip=PATH"), ("dino", "--weights dino=PATH"),
    ):  # fmt: skip
        with pytest.raises(SightlineError, match=words) as error:
            Suite([name]).open()
        assert str(error.value).count("\n") == 0
    suite = Suite(DEFAULT_METRICS).open(leave_out=True)
    assert suite.names == ("psnr", "ssim") == metric_names(["offline"]) and set(suite.left_out) == {"lpips"}
    assert "left out LPIPS" in caplog.text
    for asked in (["psnrr"], ["FID"]):
        with pytest.raises(SightlineError, match="expected some of"):
            metric_names(asked)
    with pytest.raises(SightlineError, match="NAME=PATH"):
        networks.read_weights(("resnet=here",))


def test_downloads_with_another_digest_are_refused(monkeypatch, tmp_path):
    (tmp_path / "checkpoints").mkdir()
    file = tmp_path / "checkpoints" / "inception-2015-12-05.pt"
    file.write_bytes(b"something else")
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    monkeypatch.setattr("huggingface_hub.hf_hub_download", lambda repository, name, revision: str(file))
    for network in ("inception", "i3d", "clip", "dino"):
        with pytest.raises(SightlineError, match=rf"has the SHA-256 \w{{64}}: expected \w{{64}}, .* of {network};"):
            networks.open_network(network, {})
