"""Several caches as one, parts of them, and caches that do not fit."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.cache import CacheWriter
from sightline.data.cached import CachedClips
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.joined_caches import JoinedCaches
from sightline.data.sources import open_sources
from sightline.errors import SightlineError


def write(folder: Path, *sources: str, pipe="ti2v-5b", seed=0, **spec) -> Path:
    clips = Clips(open_sources(sources), ClipSpec(**{"num_frames": 5, "width": 32, "height": 32, **spec}))
    writer = CacheWriter(folder, clips, ClipEncoder(tiny_pipeline(pipe, seed)), "tiny")
    writer.prepare()
    writer.write()
    return folder


@pytest.fixture(scope="module")
def caches(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("caches")
    write(root / "two", "worlds:orbit?clips=3", "worlds:walkthrough?clips=2")
    write(root / "one", "worlds:panorama?clips=2")
    write(root / "again", "worlds:orbit?clips=1")
    write(root / "scaled", "worlds:orbit?clips=1&seed=50&eta=3")
    write(root / "other", "worlds:openworld?clips=1", seed=1)
    return root


def test_caches_are_joined_and_divided_by_source(caches):
    joined = JoinedCaches([caches / "two", caches / "one"])
    assert [entry["source"] for entry in joined.entries] == 3 * ["orbit"] + 2 * ["walkthrough"] + 2 * ["panorama"]
    assert [joined[index].source for index in (0, 4, 6)] == ["orbit", "walkthrough", "panorama"]
    subset = JoinedCaches([caches / "two", caches / "one"], ["panorama", "walkthrough"])
    assert [clip["source"] for clip in subset.entries] == 2 * ["walkthrough"] + 2 * ["panorama"]
    assert torch.equal(subset[0].latents, CachedClips(caches / "two")[3].latents)
    assert torch.equal(subset[3].latents, CachedClips(caches / "one")[1].latents)


def test_the_empty_prompt_is_in_the_cache(caches):
    expected = ClipEncoder(tiny_pipeline("ti2v-5b")).texts([""])[0].to(torch.bfloat16)
    assert torch.equal(JoinedCaches([caches / "two"]).empty_text(), expected)


@pytest.mark.parametrize(
    "names, subset, sentence",
    [
        ([], (), "no cache is given"),
        (["two", "again"], (), "again holds orbit/.*, which .*two holds too: expected different clips"),
        (["two", "two"], (), "holds too"),
        (["two", "other"], (), "differ in the weights of the vae: expected caches that one model"),
        (["two", "scaled"], (), "two and .*scaled have eta 1.0 and 3.0 for orbit: expected one unit of positions"),
        (["two"], ["orbits"], "subset names 'orbits': expected sources of the caches, orbit, walkthrough"),
        (["nothing"], (), "found no index.json"),
    ],
)
def test_what_cannot_be_joined_is_one_sentence(caches, names, subset, sentence):
    with pytest.raises(SightlineError, match=sentence) as caught:
        JoinedCaches([caches / name for name in names], subset)
    assert "\n" not in str(caught.value)
    assert len(JoinedCaches([caches / "two", caches / "again"], ["walkthrough"])) == 2  # the clips that differ


@pytest.mark.parametrize("name, value", [("num_frames", 81), ("width", 832), ("height", 480), ("stride", 2)])
def test_caches_of_other_clips_are_refused(caches, name, value):
    joined = JoinedCaches([caches / "one", caches / "two"])
    wanted = {"num_frames": 5, "width": 32, "height": 32, "stride": 1, "near_depth": False, "unrelated": 3}
    joined.require_settings(wanted)
    found = joined.caches[0].settings[name]
    with pytest.raises(SightlineError, match=f"one was made with {name} {found}, and data.{name} is {value}: expected"):
        joined.require_settings({**wanted, name: value})
