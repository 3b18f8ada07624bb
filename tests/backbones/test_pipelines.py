"""load_pipeline: what it is given, before anything is loaded."""

from __future__ import annotations

import pytest
import torch
from diffusers import AutoencoderKLWan, DiffusionPipeline

import sightline as sl
from sightline.backbones.tiny import tiny_pipeline


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    tiny_pipeline().save_pretrained(folder)
    return folder


def test_misspelt_options_are_refused(folder):
    for options in ({"revison": "main"}, {"torch_dtype": torch.float16}, {"cmaera": "x"}):
        with pytest.raises(sl.SightlineError, match=f"{next(iter(options))} is no option of load_pipeline"):
            sl.load_pipeline(folder, **options)
    with pytest.raises(
        sl.SightlineError, match="torch_dtype is no option of load_pipeline: expected one of dtype, device"
    ):
        sl.load_pipeline(folder, torch_dtype=torch.float16)
    with pytest.raises(sl.SightlineError, match="expected none for an untrained miniature"):
        sl.load_pipeline("tiny:ti2v-5b", revision="main")
    pipe = sl.load_pipeline(folder, local_files_only=True, scheduler=None, dtype="bfloat16")
    assert pipe.scheduler is None and pipe.transformer.dtype == torch.bfloat16


def test_the_vae_is_read_from_the_same_place_as_the_rest(folder, monkeypatch):
    seen = {}
    for kind in (AutoencoderKLWan, DiffusionPipeline):

        def load(path, real=kind.from_pretrained, kind=kind, **options):
            seen[kind] = options
            return real(path, **options)

        monkeypatch.setattr(kind, "from_pretrained", load)
    sl.load_pipeline(folder, revision="refs/pr/1", cache_dir="somewhere", local_files_only=True)
    for options in seen.values():
        assert (options["revision"], options["cache_dir"]) == ("refs/pr/1", "somewhere")


@pytest.mark.parametrize("options, sentence", [({"device": "cuda"}, "finds 0 CUDA"), ({"dtype": "half"}, "dtype is")])
def test_bad_devices_and_dtypes_are_refused_before_loading(options, sentence, monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.load_pipeline("/nowhere", **options)


def test_a_model_that_is_not_there_is_an_os_error_as_well():
    with pytest.raises(OSError, match="cannot be loaded"):
        sl.load_pipeline("/nowhere")
