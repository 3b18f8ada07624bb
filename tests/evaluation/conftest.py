"""A tiny model with a camera, an estimator that knows the answer, and small networks in the place of large ones."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline
from sightline.cameras import se3
from sightline.evaluation.metrics import networks
from tests.conftest import wake


@pytest.fixture(scope="session")
def model_folder(tmp_path_factory):
    """A pipeline in diffusers' layout, and two cameras for it."""
    place = tmp_path_factory.mktemp("evaluated")
    pipe = tiny_pipeline("ti2v-5b")
    pipe.save_pretrained(place / "model")
    sl.attach_camera(pipe, sl.Scope())
    for name in ("one", "two"):
        wake(pipe.transformer, seed=len(name) + ord(name[0]))
        sl.save_pipeline_camera(pipe, place / name)
    return place


@dataclass
class Oracle:
    """Knows the commanded trajectory, and strays from it by a drift that grows; fails where it is told to."""

    noise: float = 0.05
    fails_on: tuple[str, ...] = ()
    frozen: bool = False
    asked: int = 0
    name: str = "oracle"
    reads_files: bool = False
    own_unit: str | None = None  # by default that of the clip

    def unit(self, clip_unit: str, has_depth: bool) -> str:
        return self.own_unit or clip_unit

    def require_installed(self) -> None:
        pass

    def estimate(self, video: np.ndarray, hints: Any) -> Any:
        self.asked += 1
        assert video.dtype == np.uint8 and len(video) == len(hints.lens)
        if any(word in hints.name for word in self.fails_on):
            return SimpleNamespace(trajectory=None, failure="the oracle is silent", confidence=0.0, details={})
        trajectory = hints.lens.anchored()
        noise = self.noise * {"true": 0.1, "compressed": 0.3}.get(hints.name.rpartition("-")[2], 1.0)
        fraction = torch.linspace(0, noise, len(trajectory), dtype=torch.float64)
        size = float(trajectory.positions.norm(dim=-1).max())
        drift = torch.stack([fraction, 0 * fraction, fraction], dim=-1) * size * (0.0 if self.frozen else 1.0)
        poses = se3.from_parts(
            trajectory.rotations @ se3.axis_rotation("y", fraction),
            (0.0 if self.frozen else 1.0) * trajectory.positions + drift,
        )
        estimated = trajectory.replace(camera_to_world=poses, unit=self.unit(trajectory.unit, True))
        return SimpleNamespace(trajectory=estimated, failure=None, confidence=0.9, details={})


@pytest.fixture
def oracle(monkeypatch):
    """In the place of every estimator that is asked for by name."""
    oracle = Oracle()
    for module in ("run", "choose"):
        monkeypatch.setattr(f"sightline.evaluation.{module}.open_estimator", lambda _: oracle)
    return oracle


class _Lpips(torch.nn.Module):
    """In the place of lpips.LPIPS: the mean absolute difference, times a weight."""

    def __init__(self, net, version, pretrained, pnet_rand, verbose):
        super().__init__()
        assert (net, version, verbose) == ("alex", "0.1", False) and pretrained is not pnet_rand
        self.scale = torch.nn.Parameter(torch.ones(()))

    def forward(self, images, references):  # [B, 3, H, W] in -1..1, twice -> [B, 1, 1, 1]
        assert images.shape == references.shape and images.abs().max() <= 1 >= references.abs().max()
        return self.scale * (images - references).abs().mean(dim=(1, 2, 3), keepdim=True)


@pytest.fixture(autouse=True)
def _lpips_package():
    """The real package needs torchvision."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(sys.modules, "lpips", SimpleNamespace(LPIPS=_Lpips))
        yield


@pytest.fixture(scope="session")
def small_weights(tmp_path_factory):
    """Random weights in the layouts of the real files: torchscript, safetensors, transformers folders."""
    from safetensors.torch import save_file

    place = tmp_path_factory.mktemp("weights")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        save_file({"scale": torch.tensor(2.0)}, place / "lpips.safetensors")
        torch.jit.script(_Inception()).save(str(place / "inception.pt"))
        torch.jit.script(_I3d()).save(str(place / "i3d.pt"))
        _save_transformers(place)
    names = {"lpips": "lpips.safetensors", "inception": "inception.pt", "i3d": "i3d.pt"}
    names |= {"clip": "clip", "dino": "dino"}
    assert set(names) == set(networks.NETWORKS)
    return {name: str(place / file) for name, file in names.items()}


class _Inception(torch.nn.Module):
    def forward(self, images: torch.Tensor, return_features: bool = False) -> torch.Tensor:
        assert images.dtype == torch.uint8 and return_features
        return images.float().mean(dim=(2, 3))


class _I3d(torch.nn.Module):
    def forward(
        self, video: torch.Tensor, rescale: bool = True, resize: bool = True, return_features: bool = False
    ) -> torch.Tensor:
        assert video.shape[3] == 224 and video.shape[4] == 224 and return_features and not rescale and not resize
        return video.mean(dim=(3, 4)).flatten(1)[:, :6]


def _save_transformers(place):
    from transformers import CLIPConfig, CLIPModel, Dinov2Config, Dinov2Model, PreTrainedTokenizerFast

    from sightline.backbones.tiny import tiny_tokenizer

    small = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    vision = {**small, "image_size": 32, "patch_size": 16}
    text = {**small, "vocab_size": 128, "max_position_embeddings": 20, "eos_token_id": 1, "bos_token_id": 2}
    CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=8)).save_pretrained(place / "clip")
    tokenizer: PreTrainedTokenizerFast = tiny_tokenizer()
    tokenizer.save_pretrained(place / "clip")
    dino = Dinov2Config(hidden_size=16, num_hidden_layers=1, num_attention_heads=2, image_size=224, patch_size=14)
    Dinov2Model(dino).save_pretrained(place / "dino")
