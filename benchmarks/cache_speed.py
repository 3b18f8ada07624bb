"""How many clips per second training reads from a cache of the paper's size: 480 x 832 x 81, with text, for 5B or 14B.

    python benchmarks/cache_speed.py                           # a cache of random numbers is written, read, and removed
    python benchmarks/cache_speed.py --model 14b --num-workers 4 --folder /data/scratch

Prints one json object.
feed: clips per second as the training loop gets them, read ahead by `data.num_workers` threads: the file, its checksum, the
check for numbers that are not finite, padding of the text, camera tokens, noise. The shards are put out of the page cache
before, so that they are read from the disk.
ms_per_clip: the same work in one thread, one stage after the other.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from safetensors.torch import save_file

from sightline.cameras import moves
from sightline.data.cache_files import METADATA, clip_entry, write_empty_text
from sightline.data.cached import CachedClips
from sightline.data.checksums import clip_checksum
from sightline.data.clip_spec import ClipSpec
from sightline.data.encode import DIGESTS
from sightline.data.latents import PerClipLatents
from sightline.training.feeds import make_feed
from sightline.training.objective import draw
from sightline.training.recipe import DataConfig, ObjectiveConfig

NUM_FRAMES, WIDTH, HEIGHT, TEXT_CHANNELS = 81, 832, 480, 4096
LATENTS = {"5b": (48, 21, 30, 52), "14b": (16, 21, 60, 104)}  # [C, t, h, w]
PATCH_SIZE = (1, 2, 2)
SHARD_CLIPS = 64  # as `sightline data cache` writes them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=sorted(LATENTS), default="5b")
    parser.add_argument("--clips", type=int, default=256)
    parser.add_argument("--text-tokens", type=int, default=128, help="tokens of a caption")
    parser.add_argument("--num-workers", type=int, default=DataConfig().num_workers)
    parser.add_argument("--folder", type=Path, help="where the cache is written; default: a temporary folder")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        size = write_cache(Path(folder), options.model, options.clips, options.text_tokens)
        report: dict[str, Any] = {"cores": len(os.sched_getaffinity(0)), "torch": torch.__version__}
        report |= {
            "model": options.model,
            "clips": options.clips,
            "megabytes_per_clip": round(size / options.clips / 1e6, 2),
        }
        report["feed"] = {"num_workers": options.num_workers, **feed_speed(Path(folder), options.num_workers)}
        report["ms_per_clip"] = stages(Path(folder))
    print(json.dumps(report, indent=2))


def write_cache(folder: Path, model: str, clips: int, text_tokens: int) -> int:
    """A cache of random numbers, in the form that `sightline data cache` writes; returns its bytes."""
    spec = ClipSpec(NUM_FRAMES, width=WIDTH, height=HEIGHT)
    settings = asdict(spec) | dict.fromkeys(DIGESTS, "random") | {"dtype": "bfloat16", "sources": []}
    (folder / "settings.json").write_text(json.dumps(settings))
    write_empty_text(folder, torch.randn(1, TEXT_CHANNELS).bfloat16())
    trajectory = moves.orbit(frames=NUM_FRAMES, width=WIDTH, height=HEIGHT)
    index: list[dict[str, Any]] = []
    for shard in range(-(-clips // SHARD_CLIPS)):
        tensors, entries = {}, []
        for position in range(min(SHARD_CLIPS, clips - shard * SHARD_CLIPS)):
            name = f"clip {shard * SHARD_CLIPS + position}"
            own = {
                "latents": torch.randn(LATENTS[model]).bfloat16(),
                "text": torch.randn(text_tokens, TEXT_CHANNELS).bfloat16(),
            }
            if model == "14b":  # the latents of the first frame, which I2V-A14B takes beside the noise
                own["condition"] = torch.randn(LATENTS[model]).bfloat16()
            own |= {"camera_to_world": trajectory.camera_to_world.clone(), "intrinsics": trajectory.intrinsics.clone()}
            clip: Any = SimpleNamespace(source="random", name=name, scene=name, caption="a room", trajectory=trajectory)
            entry = clip_entry(clip)
            entries.append({**entry, "checksum": clip_checksum(entry, own)})
            tensors |= {f"{position:05d}.{key}": value.contiguous() for key, value in own.items()}
            index.append({"source": "random", "name": name, "scene": name, "shard": shard, "position": position})
        header = {"fingerprint": "random", "clips": entries, "skips": []}
        save_file(tensors, folder / f"shard-{shard:05d}.safetensors", metadata={METADATA: json.dumps(header)})
    (folder / "index.json").write_text(json.dumps({"fingerprint": "random", "skips": [], "clips": index}))
    forget_files(folder)
    return sum(file.stat().st_size for file in folder.glob("shard-*"))


def forget_files(folder: Path) -> None:
    """Put the shards out of the page cache, so that they are read from the disk."""
    for file in folder.glob("shard-*"):
        with file.open("rb") as opened:
            os.fsync(opened.fileno())
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def feed_speed(folder: Path, num_workers: int) -> dict[str, float]:
    data = DataConfig(cache=(str(folder),), held_out_fraction=0.05, num_workers=num_workers)
    feed = make_feed(data, None, 0, batch_size=1, patch_size=PATCH_SIZE, with_camera=True)
    batches = feed.micro_batches(
        0, 1, [slice(0, 1)], num_workers, torch.device("cpu"), partial(draw, objective=ObjectiveConfig(), seed=0)
    )
    next(batches)
    count, began = len(feed.train) - 1, time.perf_counter()
    for _ in range(count):
        next(batches)
    seconds = time.perf_counter() - began
    batches.close()
    return {"clips_per_second": round(count / seconds, 1)}


def stages(folder: Path) -> dict[str, float]:
    """Reading with its checks, camera tokens with the rest of the batch, and the random draws."""
    forget_files(folder)
    clips = CachedClips(folder)
    seconds = dict.fromkeys(("read", "batch", "draw"), 0.0)
    for index in range(len(clips)):
        began = time.perf_counter()
        clip = clips[index]
        read = time.perf_counter()
        batch = PerClipLatents([clip], [0], lambda one: one, PATCH_SIZE, 512, keep_in_memory=False).read([0])  # type: ignore[arg-type]
        made = time.perf_counter()
        draw(replace(batch, clip_indices=[index]), ObjectiveConfig(), 0)
        for name, start, end in (("read", began, read), ("batch", read, made), ("draw", made, time.perf_counter())):
            seconds[name] += end - start
    return {name: round(1000 * total / len(clips), 2) for name, total in seconds.items()}


if __name__ == "__main__":
    main()
