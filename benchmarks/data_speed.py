"""How fast clips of procedural worlds become training data on this machine, in total and stage by stage.

    python benchmarks/data_speed.py                                                          # a few clips, on the CPU or on CUDA
    python benchmarks/data_speed.py "worlds:orbit?clips=7500&paths=5&moves=0.5&mirrored=true" ... --model lab --repeat-stages 20

Prints one json object.
cpu_ms_per_clip: what worker processes do, measured in one process of one thread.
device_ms_per_clip: rendering, encoding of frames and of captions, each waited for; the first batch, which compiles, is apart.
prepare: the whole preparation as training does it (`data.keep_in_memory`), with the start of processes and compilation.
read: batches as a training step reads them.
"""

from __future__ import annotations

import argparse
import json
import pickle
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from sightline.backbones.pipelines import load_pipeline
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips, Window
from sightline.data.encode import ClipEncoder
from sightline.data.rendered_latents import RenderedLatents, in_batches
from sightline.data.sampled_clips import sample_clips
from sightline.data.sources import open_sources
from sightline.parsing import parse_shape
from sightline.worlds import STYLES
from sightline.worlds.batches import available_cores
from sightline.worlds.styles import make_scenes

MAX_SEQUENCE_LENGTH, READ_AT_ONCE, SAMPLED_AT_ONCE = 64, 128, 62
EXAMPLES = [f"worlds:{style}?clips=4&paths=2&moves=0.5&mirrored=true" for style in STYLES]


class Stopwatch:
    """Milliseconds per clip of named stages."""

    def __init__(self, device: torch.device) -> None:
        self.device, self.stages = device, {}  # type: ignore[var-annotated]

    def time(self, stage: str, clips: int, function: Callable[[], Any]) -> Any:
        self._wait()
        began = time.perf_counter()
        result = function()
        self._wait()
        seconds, count = self.stages.get(stage, (0.0, 0))
        self.stages[stage] = (seconds + time.perf_counter() - began, count + clips)
        return result

    def ms_per_clip(self) -> dict[str, float]:
        return {stage: round(1000 * seconds / clips, 3) for stage, (seconds, clips) in self.stages.items()}

    def _wait(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sources", nargs="*", default=EXAMPLES, help="sources as in `sightline data`")
    parser.add_argument("--shape", default="33x128x128", help="FRAMESxWIDTHxHEIGHT")
    parser.add_argument("--model", default="tiny:pixels", help="whose VAE and text encoder are used, such as lab")
    parser.add_argument("--repeat-stages", type=int, default=2, help="batches over which stages are measured")
    options = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    num_frames, width, height = parse_shape(options.shape)
    clips = Clips(open_sources(options.sources), ClipSpec(num_frames, width=width, height=height), part="all")
    pipe = load_pipeline(options.model, dtype=torch.float32, device="cpu")
    pipe.vae.to(device)
    encoder, patch_size = ClipEncoder(pipe), tuple(pipe.transformer.config.patch_size)

    report: dict[str, Any] = {"device": _name(device), "cores": available_cores(), "torch": torch.__version__}
    report |= {"clips": len(clips), "shape": options.shape, "sources": options.sources}
    report["cpu_ms_per_clip"] = cpu_stages(clips, options.repeat_stages)
    dataset = RenderedLatents(clips, range(len(clips)), encoder, patch_size, MAX_SEQUENCE_LENGTH, keep_in_memory=False)
    with encoder.text_encoder_on(device):
        report |= device_stages(dataset, options.repeat_stages, device)
    del dataset
    watch, began = Stopwatch(device), time.perf_counter()
    kept = watch.time(
        "prepare",
        len(clips),
        lambda: RenderedLatents(
            clips, range(len(clips)), encoder, patch_size, MAX_SEQUENCE_LENGTH, keep_in_memory=True
        ),
    )
    seconds = time.perf_counter() - began
    report["prepare"] = {"seconds": round(seconds, 2), "clips_per_second": round(len(clips) / seconds, 1)}
    batch = [index % len(clips) for index in range(READ_AT_ONCE)]
    kept.read(batch)
    for _ in range(options.repeat_stages):
        watch.time("read", READ_AT_ONCE, lambda: kept.read(batch))
    report["read"] = {"batch_size": READ_AT_ONCE, "ms_per_clip": watch.ms_per_clip()["read"]}
    if device.type == "cuda":
        report["peak_memory_gib"] = round(torch.cuda.max_memory_allocated(device) / 2**30, 2)
    print(json.dumps(report, indent=2))


def cpu_stages(clips: Clips, repeats: int) -> dict[str, float]:
    """What a worker process does for its clips, and what sending them costs."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    watch = Stopwatch(torch.device("cpu"))
    for windows in _spread(clips.windows, repeats, SAMPLED_AT_ONCE):
        for number in dict.fromkeys(window.source for window in windows):
            source = clips.sources[number]
            names = [window.shot for window in windows if window.source == number]
            seeds = sorted({int(source.scene(name)) for name in names})
            watch.time(
                "scenes (part of takes)",
                len(names),
                lambda seeds=seeds, source=source: make_scenes(seeds, source.style),
            )
            shots = watch.time("takes", len(names), lambda names=names, source=source: source.sample_shots(names))
            watch.time("captions", len(names), lambda shots=shots: shots.captions)
            watch.time(
                "cameras", len(names), lambda shots=shots, source=source: shots.clip_cameras(clips.spec, source.eta)
            )
        sampled = watch.time(
            "all of it", len(windows), lambda windows=windows: sample_clips(clips.sources, clips.spec, windows)
        )
        sent = watch.time("pickling", len(windows), lambda sampled=sampled: pickle.dumps(sampled))
        watch.time("unpickling (main process)", len(windows), lambda sent=sent: pickle.loads(sent))
    torch.set_num_threads(threads)
    return watch.ms_per_clip() | {"kilobytes_sent": round(len(sent) / 1000 / len(windows), 1)}


def device_stages(dataset: RenderedLatents, repeats: int, device: torch.device) -> dict[str, Any]:
    """Rendering and encoding of batches that were sampled before."""
    first, watch = Stopwatch(device), Stopwatch(device)
    at_once = min(len(in_batches(dataset.windows)[0]), 248 if device.type == "cuda" else 4)
    for number, windows in enumerate(_spread(dataset.windows, repeats + 1, at_once)):
        sampled = dataset.sample(windows)
        timer = watch if number else first
        frames = timer.time("render", len(windows), lambda sampled=sampled: dataset.render(sampled))
        timer.time("encode frames", len(windows), lambda frames=frames: dataset.encode(frames))
        captions = [caption for part in sampled for caption in part.captions]
        timer.time(
            "encode captions",
            len(windows),
            lambda captions=captions: dataset.encoder.texts(captions, MAX_SEQUENCE_LENGTH),
        )
    started = {stage: round(seconds, 2) for stage, (seconds, _) in first.stages.items()}
    return {"first_batch_seconds": started, "device_ms_per_clip": watch.ms_per_clip()}


def _spread(windows: Sequence[Window], count: int, size: int) -> list[list[Window]]:
    """`count` runs of `size` consecutive clips, evenly spaced over all of them."""
    last = max(0, len(windows) - size)
    return [list(windows[start : start + size]) for start in (last * one // max(1, count - 1) for one in range(count))]


def _name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"


if __name__ == "__main__":
    main()
