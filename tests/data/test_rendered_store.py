"""The store of rendered clips: one rendering for all runs, in any combination of the sources."""

from __future__ import annotations

import pytest
import torch

from sightline.data import rendered_latents
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import load_encoder
from sightline.data.rendered_latents import RenderedLatents
from sightline.data.rendered_store import RenderedStore
from sightline.data.sources import open_sources
from sightline.errors import SightlineError

ORBIT, WALK = "worlds:orbit?clips=3", "worlds:walkthrough?clips=2"


@pytest.fixture(scope="module")
def encoder():
    return load_encoder("tiny:pixels")


def latents_of(encoder, store, *sources):
    clips = Clips(open_sources(sources), ClipSpec(5, width=16, height=16))
    return RenderedLatents(clips, range(len(clips)), encoder, (1, 2, 2), 16, keep_in_memory=True, store=store)


def test_every_source_is_rendered_once_for_all_combinations(encoder, tmp_path, monkeypatch):
    expected = latents_of(encoder, None, ORBIT, WALK).read([4, 0, 2])
    latents_of(encoder, RenderedStore(tmp_path), ORBIT)
    latents_of(encoder, RenderedStore(tmp_path), WALK)
    assert len(list(tmp_path.iterdir())) == 2
    monkeypatch.setattr(rendered_latents, "render_batches", lambda *_: pytest.fail("rendered again"))
    store = RenderedStore(tmp_path)
    read = latents_of(encoder, store, ORBIT, WALK)
    assert read.names[2:4] == [("orbit", "00000002@0"), ("walkthrough", "00000000@0")]
    assert latents_of(encoder, store, ORBIT, WALK)._memory is read._memory  # a second run of the process reads no file
    batch = read.read([4, 0, 2])
    for name in ("latents", "text"):
        torch.testing.assert_close(getattr(batch, name), getattr(expected, name))
    torch.testing.assert_close(batch.camera_tokens.rows, expected.camera_tokens.rows)


@pytest.mark.parametrize("source", ["worlds:walkthrough?clips=2", "worlds:openworld?clips=2"])
def test_units_share_one_rendering(encoder, tmp_path, source):
    store = RenderedStore(tmp_path)
    for one in (source, f"{source}&unit=metre", f"{source}&eta=3"):
        expected, read = (latents_of(encoder, s, one).read([0, 1]).camera_tokens.rows for s in (None, store))
        torch.testing.assert_close(read, expected)
    assert len(list(tmp_path.iterdir())) == 1


def test_other_clips_are_other_files(encoder, tmp_path):
    latents_of(encoder, RenderedStore(tmp_path), ORBIT)
    latents_of(encoder, RenderedStore(tmp_path), "worlds:orbit?clips=3&returning=1")
    assert len(list(tmp_path.iterdir())) == 2


def test_a_damaged_file_is_refused_in_one_sentence(encoder, tmp_path):
    latents_of(encoder, RenderedStore(tmp_path), ORBIT)
    (file,) = tmp_path.iterdir()
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(SightlineError, match="expected rendered clips"):
        latents_of(encoder, RenderedStore(tmp_path), ORBIT)


def test_clips_that_were_made_before_a_stop_are_kept(encoder, tmp_path, monkeypatch):
    expected = latents_of(encoder, None, ORBIT).read([0, 1, 2])
    real, rendered = rendered_latents.render_batches, []
    monkeypatch.setattr(rendered_latents, "BATCH", 1)
    monkeypatch.setattr(rendered_latents, "render_batches", lambda *a: rendered.append(1) or real(*a))

    def stop():
        raise TimeoutError

    for _ in range(2):
        with pytest.raises(TimeoutError):
            latents_of(encoder, RenderedStore(tmp_path, stop), ORBIT)
    read = latents_of(encoder, RenderedStore(tmp_path), ORBIT).read([0, 1, 2])
    assert len(rendered) == 3 and len(list(tmp_path.iterdir())) == 1
    torch.testing.assert_close(read.latents, expected.latents)
    torch.testing.assert_close(read.camera_tokens.rows, expected.camera_tokens.rows)
