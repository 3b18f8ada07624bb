"""Feeds: reading ahead stops when the feed is closed."""

from __future__ import annotations

import threading
import time

import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.data.latents import PerClipLatents, encode_clip
from sightline.data.order import Shuffled
from sightline.data.sources import open_sources
from sightline.training.feeds import Feed


def test_a_closed_feed_reads_nothing_more():
    encoder, spec = ClipEncoder(tiny_pipeline("pixels")), ClipSpec(num_frames=5, width=16, height=16)
    worlds = Clips(open_sources(["worlds:orbit?clips=3"]), spec, part="all")
    clips = PerClipLatents(
        worlds, range(3), lambda clip: encode_clip(encoder, 8, clip), (1, 2, 2), 8, keep_in_memory=True
    )
    at_work = threading.Semaphore(0)

    def slowly(batch):
        at_work.release()
        time.sleep(0.5)

    before = set(threading.enumerate())
    feed = Feed(clips, clips, Shuffled(3, seed=0), torch.zeros(8, 4), with_camera=True)
    batches = feed.micro_batches(0, 1, [slice(0, 1)], 2, torch.device("cpu"), slowly)
    next(batches)
    for _ in range(2):  # the one that was asked for, and one that is read ahead of its use
        assert at_work.acquire(timeout=600)
    batches.close()
    assert set(threading.enumerate()) <= before
