"""Validation: while a feed is still encoding (a Wan VAE has state, and several threads use it), and its sample videos."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.encode import ClipEncoder
from sightline.training import validation
from sightline.training.validation import decode


def test_encoding_and_decoding_in_several_threads_give_what_one_gives():
    pipe = tiny_pipeline("ti2v-5b")
    encoder = ClipEncoder(pipe)
    videos = [torch.rand(1, 3, 9, 32, 32, generator=torch.Generator().manual_seed(n)) for n in range(8)]
    captions = [f"clip number {n}" for n in range(8)]
    latents, texts = [encoder.latents(video) for video in videos], [encoder.text(words) for words in captions]
    decoded = decode(pipe, latents[0])
    with ThreadPoolExecutor(4) as pool:
        encoding = [pool.submit(encoder.latents, video) for video in videos]
        reading = [pool.submit(encoder.text, words) for words in captions]
        decoding = [decode(pipe, latents[0]) for _ in range(4)]
    assert all(torch.equal(future.result(), expected) for future, expected in zip(encoding, latents, strict=True))
    assert all(torch.equal(future.result(), expected) for future, expected in zip(reading, texts, strict=True))
    assert all((video == decoded).all() for video in decoding)


@pytest.mark.parametrize("suffix", ["mp4", "gif"])
def test_samples_are_written_as_gif_where_pyav_is_missing(monkeypatch, tmp_path, suffix):
    video = np.zeros((5, 16, 16, 3), np.uint8)
    monkeypatch.setattr(validation, "can_write_mp4", lambda: suffix == "mp4")
    monkeypatch.setattr(validation, "own_share", lambda indices, recipe: [(index, True) for index in indices])
    monkeypatch.setattr(validation, "generate_sample", lambda *arguments: (video, video))
    sampler = SimpleNamespace(placed=lambda model, device: nullcontext())
    recipe = SimpleNamespace(validation=SimpleNamespace(num_videos=2), output=str(tmp_path))
    shown = []
    report = SimpleNamespace(video=lambda name, frames, step: shown.append(name))
    feed = SimpleNamespace(held_out=range(4))
    validation.write_samples(None, sampler, feed, recipe, report, 7, torch.device("cpu"))
    assert len(shown) == 2
    assert {file.suffix for file in (tmp_path / "samples").iterdir()} == {f".{suffix}"}
