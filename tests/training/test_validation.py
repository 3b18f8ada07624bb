"""Validation while a feed is still encoding: a Wan VAE has state, and several threads use it."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.encode import ClipEncoder
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
