"""benchmarks/cache_speed.py: the cache that it writes is one that training reads."""

from __future__ import annotations

import json
import sys

import pytest

from benchmarks import cache_speed
from sightline.data.cached import CachedClips


@pytest.mark.parametrize("model", ["5b", "14b"])
def test_a_cache_of_random_numbers_is_read_as_training_reads_it(model, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(cache_speed.LATENTS, model, (2, 21, 6, 10))
    monkeypatch.setattr(cache_speed, "TEXT_CHANNELS", 8)
    monkeypatch.setattr(cache_speed, "SHARD_CLIPS", 30)
    cache_speed.write_cache(tmp_path, model, clips=40, text_tokens=3)
    clips = CachedClips(tmp_path)
    assert len(clips) == 40 and len(list(tmp_path.glob("shard-*"))) == 2
    assert clips[39].latents.shape == (2, 21, 6, 10) and (clips[39].condition is None) == (model == "5b")
    monkeypatch.setattr(sys, "argv", ["cache_speed.py", "--model", model, "--clips", "40", "--folder", str(tmp_path)])
    cache_speed.main()
    report = json.loads(capsys.readouterr().out)
    assert report["feed"]["clips_per_second"] > 0 and set(report["ms_per_clip"]) == {"read", "batch", "draw"}
