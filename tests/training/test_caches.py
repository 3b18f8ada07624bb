"""Training on caches: mixtures of several, their own validation data, and caches that do not fit the recipe."""

from __future__ import annotations

import shutil
from collections import Counter
from itertools import islice
from pathlib import Path

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.cache import CacheWriter
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from sightline.training import trainer
from sightline.training.feeds import make_feed
from tests.training.conftest import changed


def write(folder, *sources, kind="pixels", **spec):
    clips = Clips(open_sources(sources), ClipSpec(**{"num_frames": 5, "width": 16, "height": 16, **spec}))
    writer = CacheWriter(folder, clips, ClipEncoder(tiny_pipeline(kind)), f"tiny:{kind}")
    writer.prepare()
    writer.write()
    return str(folder)


@pytest.fixture(scope="module")
def caches(tmp_path_factory):
    root = tmp_path_factory.mktemp("caches")
    first = write(root / "first", "worlds:orbit?clips=6", "worlds:walkthrough?clips=6")
    return first, write(root / "second", "worlds:panorama?clips=6")


@pytest.fixture
def cached(small, caches):
    """The small recipe on two caches of three sources."""
    return changed(small, "data", cache=caches, sources=(), held_out_fraction=0.2)


def feed_of(recipe):
    return make_feed(recipe.data, None, 0, batch_size=2, patch_size=(1, 2, 2), with_camera=True)


def test_a_mixture_of_caches_trains_without_encoders_by_its_weights(cached, monkeypatch):
    def load_nothing(*_):
        raise AssertionError("neither VAE nor text encoder is needed")

    monkeypatch.setattr(trainer, "load_encoder", load_nothing)
    weights = {"orbit": 6.0, "panorama": 2.0}
    recipe = changed(cached, "data", subset=("orbit", "panorama"), source_weights=weights)
    trainer.train(changed(recipe, "optimizer", max_steps=2))
    feed = feed_of(recipe)
    clips = feed.train.clips
    seen = [clips.entries[feed.train.indices[index]]["source"] for index in islice(feed.order.from_position(0), 4000)]
    shares = Counter(seen)
    assert set(shares) == {"orbit", "panorama"} and 0.72 < shares["orbit"] / 4000 < 0.78


def test_weights_name_the_sources_that_are_used(cached, monkeypatch):
    monkeypatch.setattr(trainer, "load_base", lambda *_: pytest.fail("the model was read"))
    with pytest.raises(SightlineError, match="weights name orbit: expected the sources orbit, panorama, walkthrough"):
        trainer.train(changed(cached, "data", source_weights={"orbit": 1.0}))
    with pytest.raises(SightlineError, match="the data has no held-out clips"):
        trainer.train(changed(cached, "data", held_out_fraction=0.0))


def test_validation_may_have_a_cache_of_its_own(cached, tmp_path):
    test = write(tmp_path / "test", "worlds:orbit?clips=3&seed=100")
    feed = feed_of(changed(cached, "data", validation_cache=(test,)))
    assert (len(feed.train), len(feed.held_out)) == (18, 3)
    with pytest.raises(SightlineError, match=r"second holds panorama/.* holds too"):
        feed_of(changed(cached, "data", cache=cached.data.cache, validation_cache=(cached.data.cache[1],)))


@pytest.mark.parametrize(
    "settings, sentence",
    [
        (
            {"num_frames": 81, "width": 832, "height": 480},
            "first was made with num_frames 5, and data.num_frames is 81",
        ),
        ({"width": 32}, "made with width 16, and data.width is 32"),
        ({"stride": 2}, "made with stride 1, and data.stride is 2"),
        ({"near_depth": True}, "made with near_depth False, and data.near_depth is True"),
        ({"subset": ("orbits",)}, "subset names 'orbits': expected sources of the caches, orbit"),
    ],
)
def test_a_cache_that_is_not_the_recipe_s_is_refused_and_nothing_is_left(cached, settings, sentence):
    with pytest.raises(SightlineError, match=sentence) as caught:
        trainer.train(changed(cached, "data", **settings))
    assert "\n" not in str(caught.value) and not Path(cached.output).exists()


@pytest.mark.parametrize(
    "kind, sentence",
    [("ti2v-5b", "latents of 48 channels without image"), ("i2v-a14b", "latents of 16 channels with image conditions")],
)
def test_a_cache_of_another_model_is_refused(small, tmp_path, kind, sentence):
    cache = write(tmp_path / "cache", "worlds:orbit?clips=8", kind=kind, width=32, height=32)
    data = {"cache": (cache,), "sources": (), "width": 32, "height": 32, "held_out_fraction": 0.4}
    with pytest.raises(SightlineError, match=f"{sentence}.* encoded for model.base"):
        trainer.train(changed(small, "data", **data))
    assert not Path(small.output).exists()


@pytest.fixture
def stored(small, tmp_path):
    """The small recipe on a cache of a tiny TI2V-5B, whose base is another one: the folder "base"."""
    cache = write(tmp_path / "cache", "worlds:orbit?clips=8", kind="ti2v-5b", width=32, height=32)
    recipe = changed(small, "model", base=str(tmp_path / "base"))
    recipe = changed(recipe, "validation", num_inference_steps=2, guidance_scale=1.0)
    recipe = changed(recipe, "optimizer", max_steps=1)
    return changed(recipe, "data", cache=(cache,), sources=(), width=32, height=32, held_out_fraction=0.4)


@pytest.mark.parametrize("num_videos", [0, 1])
def test_a_cache_of_another_vae_of_the_same_configuration_is_refused(stored, num_videos):
    recipe, pipe = changed(stored, "validation", num_videos=num_videos), tiny_pipeline("ti2v-5b")
    with torch.no_grad():
        next(iter(pipe.vae.parameters())).add_(1.0)
    pipe.save_pretrained(recipe.model.base)
    with pytest.raises(SightlineError, match=r"cache was encoded by another VAE than that of model\.base '.*base'"):
        trainer.train(recipe)
    assert not Path(recipe.output).exists()
    tiny_pipeline("ti2v-5b").save_pretrained(recipe.model.base)
    trainer.train(recipe)


def test_a_vae_that_is_not_at_hand_cannot_be_compared_and_a_note_says_so(stored, caplog):
    tiny_pipeline("ti2v-5b").save_pretrained(stored.model.base)
    shutil.rmtree(Path(stored.model.base) / "vae")
    trainer.train(stored)
    assert "whether the cache was encoded by the VAE of" in caplog.text


@pytest.mark.parametrize("report_to", ["wandb"])
def test_a_tracker_that_is_not_installed_leaves_no_folder(small, monkeypatch, report_to):
    monkeypatch.setitem(__import__("sys").modules, report_to, None)
    with pytest.raises(SightlineError, match="which is not installed"):
        trainer.train(changed(small, report_to=report_to))
    assert not Path(small.output).exists()
