"""Camera weights by a hub id: what is downloaded, and what is refused before anything is."""

from __future__ import annotations

from pathlib import Path

import huggingface_hub
import pytest

import sightline as sl
from sightline.backbones.hub_camera import is_hub_id, local_camera
from sightline.errors import SightlineError
from sightline.generation.model import Model, ModelOptions
from tests.backbones import releases

FUN = "alibaba-pai/Wan2.2-Fun-5B-Control-Camera"


@pytest.fixture
def hub(monkeypatch, tmp_path):
    """A hub with one release, beside pickles and other folders; asked: the files that were downloaded."""
    monkeypatch.chdir(tmp_path)
    folder, asked = releases.write_fun(tmp_path / "cache", "5b"), []
    listing = [file.name for file in folder.iterdir()] + ["google/umt5-xxl/tokenizer.json", "README.md"]

    def list_repo_files(name):
        if name != FUN:
            raise OSError("no such repository")
        return listing

    def snapshot_download(name, allow_patterns=(), local_files_only=False):
        if local_files_only:
            raise OSError("not in the cache")
        asked.extend(allow_patterns)
        return str(folder)

    monkeypatch.setattr(huggingface_hub, "list_repo_files", list_repo_files)
    monkeypatch.setattr(huggingface_hub, "snapshot_download", snapshot_download)
    return asked, listing


def test_a_release_is_downloaded_by_its_id(hub):
    asked, _ = hub
    pipe = sl.load_pipeline("tiny:ti2v-5b", camera=FUN)
    assert sorted(asked) == ["config.json", "diffusion_pytorch_model.safetensors"]
    assert pipe.transformer.config.encoding["name"] == "cameractrl"
    model = Model(ModelOptions("tiny:ti2v-5b", Path(FUN)))
    assert model.info.pinhole_only and model.settings()["camera"] == FUN and "camera" in model.files


def test_experts_in_folders_are_wanted(hub):
    asked, listing = hub
    listing[:] = ["high_noise_model/a.safetensors", "low_noise_model/config.json", "other/b.safetensors", "vae.pth"]
    local_camera(FUN)
    assert asked == listing[:2]


def test_what_the_hub_does_not_have_is_refused(hub, tmp_path):
    asked, listing = hub
    with pytest.raises(
        SightlineError, match=r"camera someone/else is no file or folder here, and cannot be found on the hub"
    ):
        sl.load_pipeline("tiny:ti2v-5b", camera="someone/else")
    listing[:] = ["wan_transformer/diffusion_pytorch_model.safetensors", "wan_distilled_model/model.pt"]
    with pytest.raises(SightlineError, match=r"on the hub has no \.safetensors beside its configuration"):
        sl.load_pipeline("tiny:ti2v-5b", camera=FUN)
    assert not asked
    (tmp_path / "runs").mkdir()
    assert (
        not is_hub_id("runs/mistyped")
        and not is_hub_id("a/b/c")
        and not is_hub_id("a/b.safetensors")
        and not is_hub_id("../camera")
        and is_hub_id(FUN)
    )
    with pytest.raises(SightlineError, match="camera runs/mistyped does not exist: expected camera weights"):
        Model(ModelOptions(None, Path("runs/mistyped")))
