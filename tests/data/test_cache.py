"""The cache: what it holds, what it refuses, and that no kill and no number of processes changes a byte."""

from __future__ import annotations

import itertools
import json
import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
import torch
from PIL import Image

import sightline.data.cache as cache_module
from sightline import cli
from sightline.backbones.tiny import tiny_pipeline
from sightline.data.cache import CacheWriter
from sightline.data.cached import CachedClips
from sightline.data.clip_spec import ClipSpec
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder, frames_to_video, load_encoder
from sightline.data.loader import ClipLoader
from sightline.data.order import Mixed, Shuffled
from sightline.data.sources import open_sources
from sightline.errors import SightlineError
from tests.conftest import count_calls, kill_after_calls
from tests.data.conftest import make_take
from tests.data.layouts import write_dl3dv, write_re10k
from tests.processes import start_two

SPEC = ClipSpec(num_frames=5, width=32, height=32, hop=3)
CLIPS = 12  # 5 + 7 windows, less the broken ones


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two sources; one shot with bad poses, and one with a picture missing."""
    root = tmp_path_factory.mktemp("data")
    for index in range(5):
        write_re10k(root / "re10k", make_take(f"r{index}", 5, index, 48, 32))
    write_dl3dv(root / "dl3dv", make_take("d0", 5 + 3 * 6, 7, 48, 32))
    (root / "re10k" / "pose_files" / "r9.txt").write_text("no poses\n")
    (root / "re10k" / "frames" / "r2" / "1033367.png").unlink()
    return root


@pytest.fixture(scope="module")
def encoder() -> ClipEncoder:
    return ClipEncoder(tiny_pipeline("ti2v-5b"))


def clips_of(data: Path, spec: ClipSpec = SPEC) -> Clips:
    return Clips(open_sources([f"re10k:{data / 're10k'}", f"dl3dv:{data / 'dl3dv'}"]), spec)


def write_cache(folder: Path, data: Path, encoder: ClipEncoder, spec: ClipSpec = SPEC, **options: Any) -> CacheWriter:
    writer = CacheWriter(folder, clips_of(data, spec), encoder, "tiny", **{"shard_clips": 2, **options})
    writer.prepare()
    writer.write()
    return writer


def bytes_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory, data: Path, encoder: ClipEncoder) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "cache"
    write_cache(folder, data, encoder)
    return folder


# -- what it holds --------------------------------------------------------------------------------------------------


def test_the_index_lists_each_readable_clip_once(undisturbed: Path):
    cached = CachedClips(undisturbed)
    names = [(entry["source"], entry["name"]) for entry in cached.entries]
    expected = [("re10k", f"r{index}@0") for index in (0, 1, 3, 4)] + [("dl3dv", f"1K/d0@{3 * i}") for i in range(7)]
    assert names == expected
    assert [skip["name"] for skip in cached.skips] == ["r9", "r2@0"]
    assert sorted(path.name for path in undisturbed.iterdir()) == [
        "empty_text.safetensors", "index.json", "settings.json",
        *(f"shard-{shard:05d}.safetensors" for shard in range(CLIPS // 2)),
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["ti2v-5b", "i2v-a14b", "t2v-a14b"])
@torch.no_grad()
def test_latents_and_text_are_the_pipeline_s_own(tmp_path: Path, data: Path, kind: Any):
    pipe = tiny_pipeline(kind)
    pipe.vae.register_to_config(
        latents_mean=[0.1 * channel for channel in range(pipe.vae.config.z_dim)],
        latents_std=[1.0 + 0.1 * channel for channel in range(pipe.vae.config.z_dim)],
    )
    write_cache(tmp_path, data, ClipEncoder(pipe), dtype="float32", shard_clips=20)
    cached, clips = CachedClips(tmp_path), clips_of(data)
    for index in (0, 10):
        mine = cached[index]
        clip = next(clip for clip in clips if (clip.source, clip.name) == (mine.source, mine.name))
        expected, _ = pipe.encode_prompt(clip.caption, do_classifier_free_guidance=False, max_sequence_length=512)
        assert torch.equal(mine.text, expected[0])
        torch.testing.assert_close(mine.trajectory.camera_to_world, clip.trajectory.camera_to_world, atol=0, rtol=0)
        torch.testing.assert_close(mine.trajectory.intrinsics, clip.trajectory.intrinsics, atol=0, rtol=0)
        assert (mine.trajectory.width, mine.trajectory.fps) == (clip.trajectory.width, clip.trajectory.fps)
        assert mine.caption == clip.caption
        if kind == "t2v-a14b":
            assert mine.condition is None
            continue
        # What the pipeline makes of the first frame, from a PIL picture on.
        image = pipe.video_processor.preprocess(Image.fromarray(clip.frames[0]), height=32, width=32)
        prepared = pipe.prepare_latents(
            image, 1, pipe.vae.config.z_dim, 32, 32, len(clip.frames), torch.float32, torch.device("cpu")
        )
        if kind == "ti2v-5b":
            # The causal VAE: latent frame 0 of a clip is the latent of its first frame alone, to the bit.
            assert mine.condition is None
            assert torch.equal(mine.latents[:, :1], prepared[1][0])
        else:
            assert torch.equal(mine.condition, prepared[1][0][4:])


@pytest.mark.parametrize("kind", ["ti2v-5b", "i2v-a14b", "t2v-a14b"])
def test_a_model_is_loaded_without_its_transformers(tmp_path: Path, kind: Any):
    tiny_pipeline(kind).save_pretrained(tmp_path)
    encoder = load_encoder(tmp_path)
    assert encoder.pipe.transformer is None and encoder.pipe.transformer_2 is None
    assert encoder.digests() == ClipEncoder(tiny_pipeline(kind)).digests()
    with pytest.raises(SightlineError, match="cannot be loaded"):
        load_encoder(tmp_path / "nowhere")


def test_pixels_are_those_of_the_pipeline(encoder: ClipEncoder):
    frame = np.arange(256 * 3, dtype=np.uint8).reshape(16, 16, 3)
    expected = encoder.pipe.video_processor.preprocess(Image.fromarray(frame), height=16, width=16)
    assert torch.equal(frames_to_video(torch.from_numpy(frame)[None, None])[:, :, 0], expected)


def test_bfloat16_is_float32_rounded(tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder):
    write_cache(tmp_path, data, encoder, dtype="float32")
    exact, stored = CachedClips(tmp_path)[3], CachedClips(undisturbed)[3]
    assert stored.latents.dtype == torch.bfloat16
    assert torch.equal(exact.latents.bfloat16(), stored.latents)
    assert torch.equal(exact.text.bfloat16(), stored.text)


# -- kills ----------------------------------------------------------------------------------------------------------


def killed_run(folder: Path, data: Path, encoder: ClipEncoder, before: Callable[[], None]) -> bool:
    """Run the cache in a process of its own, in which `before` prepares a kill -9: whether it came."""

    def work() -> None:
        before()
        write_cache(folder, data, encoder)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join()
    return process.exitcode == -signal.SIGKILL


def test_kill_9_at_random_moments_changes_no_byte(tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder):
    folder, chance = tmp_path / "cache", random.Random(3)
    calls = count_calls(lambda: write_cache(tmp_path / "counted", data, encoder))
    moments = [chance.randrange(calls // 2) for _ in range(12)]
    kills = [killed_run(folder, data, encoder, lambda moment=moment: kill_after_calls(moment)) for moment in moments]
    assert sum(kills) >= 3
    write_cache(folder, data, encoder)
    assert bytes_of(folder) == bytes_of(undisturbed)


def kill_at(moment: str, call: int) -> None:
    """From inside: at the call-th rename, before or after it, or half way through the temporary file."""
    replace, save = os.replace, cache_module.save_file
    calls = itertools.count(1)

    def deadly_replace(*arguments: Any) -> None:
        last = next(calls) == call
        if last and moment == "before the rename":
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)
        if last:
            os.kill(os.getpid(), signal.SIGKILL)

    def deadly_save(tensors: Any, path: Path, metadata: Any) -> None:
        save(tensors, path, metadata=metadata)
        os.truncate(path, path.stat().st_size // 2)
        os.kill(os.getpid(), signal.SIGKILL)

    if moment == "in the middle of a shard":
        cache_module.save_file = deadly_save
    else:
        os.replace = deadly_replace


MOMENTS = [
    *itertools.product(
        ["before the rename", "after the rename"], [1, 2, 3, 5, 9]
    ),  # settings, text, shards 0 and 2, index
    ("in the middle of a shard", 1),
]


@pytest.mark.parametrize("moment, call", MOMENTS)
def test_kill_9_at_the_worst_moments(
    tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder, moment: str, call: int
):
    folder = tmp_path / "cache"
    assert killed_run(folder, data, encoder, lambda: kill_at(moment, call))
    if not (moment == "after the rename" and call == 9):
        with pytest.raises(SightlineError, match=r"found no index\.json, expected a finished cache"):
            CachedClips(folder)
    write_cache(folder, data, encoder)
    assert bytes_of(folder) == bytes_of(undisturbed)


def test_a_shard_that_lost_its_end_is_made_again(tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder):
    write_cache(tmp_path, data, encoder)
    path = tmp_path / "shard-00002.safetensors"
    path.write_bytes(path.read_bytes()[:1000])
    write_cache(tmp_path, data, encoder)
    assert bytes_of(tmp_path) == bytes_of(undisturbed)


# -- processes ------------------------------------------------------------------------------------------------------


def test_shares_of_three_processes_make_the_same_cache(
    tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder
):
    writers = [
        CacheWriter(tmp_path, clips_of(data), encoder, "tiny", shard_clips=2, rank=rank, processes=3)
        for rank in range(3)
    ]
    writers[0].prepare()
    for writer in (writers[2], writers[0], writers[1]):
        assert not (tmp_path / "index.json").exists()
        writer.write()
    assert bytes_of(tmp_path) == bytes_of(undisturbed)


def cache_by_command(rank: int, port: int, arguments: list[str], folder: Path) -> None:
    """The command in one of two processes, with the environment that torchrun gives it; what it prints goes to a file.

    Another file has the numbers of the shards that it wrote.
    """
    written: list[int] = []
    write_shard = CacheWriter._write_shard

    def noted(writer: CacheWriter, shard: int, on_clip: Callable[[], object]) -> None:
        written.append(shard)
        write_shard(writer, shard, on_clip)

    place = {"RANK": rank, "LOCAL_RANK": rank, "WORLD_SIZE": 2, "LOCAL_WORLD_SIZE": 2}
    place |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    os.environ.update({name: str(value) for name, value in place.items()})
    wrapped = patch.object(CacheWriter, "_write_shard", noted)
    with (folder / f"printed-{rank}").open("w") as file, redirect_stdout(file), redirect_stderr(file), wrapped:
        assert cli.main(arguments) == 0
    (folder / f"written-{rank}").write_text(json.dumps(written))


def test_two_processes_end_what_a_killed_one_began(tmp_path: Path, data: Path, model: Path):
    """The command itself: begun by one process that is killed, ended by two, against an undisturbed one."""
    verb = ["data", "cache", f"re10k:{data / 're10k'}", f"dl3dv:{data / 'dl3dv'}", "--model", str(model)]
    verb += ["--num-frames", "5", "--hop", "3", "--size", "32x32", "--shard-clips", "2", "--part", "all"]
    verb += ["-o", str(tmp_path / "two")]

    began = multiprocessing.get_context("forkserver").Process(target=cli.main, args=(verb,))
    began.start()
    while not list((tmp_path / "two").glob("shard-*")):
        # 0: it ended after this look at the folder, and the next one finds its shards
        assert began.exitcode in (None, 0)
        time.sleep(0.02)
    began.kill()
    began.join()
    start_two(cache_by_command, verb, tmp_path)
    first, second = (set(json.loads((tmp_path / f"written-{rank}").read_text())) for rank in range(2))
    assert not first & second  # two processes shared the work, neither did it all
    assert "cached " in "".join((tmp_path / f"printed-{rank}").read_text() for rank in range(2))

    writer = CacheWriter(tmp_path / "one", clips_of(data), load_encoder(model), str(model), shard_clips=2)
    writer.prepare()
    writer.write()
    assert bytes_of(tmp_path / "two") == bytes_of(tmp_path / "one")


def test_a_cache_can_be_read_by_others(undisturbed: Path):
    mask = os.umask(0)
    os.umask(mask)
    assert {path.stat().st_mode & 0o777 for path in undisturbed.iterdir()} == {0o666 & ~mask}


def shifted_encoder() -> ClipEncoder:
    """The same weights with other statistics of the latents."""
    pipe = tiny_pipeline("ti2v-5b")
    pipe.vae.register_to_config(latents_mean=[5.0] * 48)
    return ClipEncoder(pipe)


# -- refusals -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change, sentence",
    [
        ({"spec": ClipSpec(num_frames=5, width=32, height=32, hop=4)}, "was made with hop 3 and this run asks for 4"),
        (
            {"spec": ClipSpec(num_frames=5, width=32, height=32, hop=3, near_depth=True)},
            "was made with near_depth false",
        ),
        ({"dtype": "float32"}, 'was made with dtype "bfloat16" and this run asks for "float32"'),
        ({"shard_clips": 3}, "was made with shard_clips 2 and this run asks for 3"),
        ({"encoder": ClipEncoder(tiny_pipeline("ti2v-5b", seed=1))}, "was made with weights of the vae"),
        ({"encoder": shifted_encoder()}, "was made with configuration of the model"),
    ],
)
def test_other_settings_are_refused(undisturbed: Path, data: Path, encoder: ClipEncoder, change: Any, sentence: str):
    before = bytes_of(undisturbed)
    with pytest.raises(SightlineError, match=sentence):
        write_cache(undisturbed, data, **{"encoder": encoder, **change})
    assert bytes_of(undisturbed) == before


def test_other_options_of_a_source_are_refused(tmp_path: Path, data: Path, encoder: ClipEncoder):
    def write(options: str) -> None:
        writer = CacheWriter(tmp_path, Clips(open_sources([f"dl3dv:{data / 'dl3dv'}{options}"]), SPEC), encoder, "tiny")
        writer.prepare()

    write("")
    write("?eta=1")  # what it is anyway
    for options in ("?eta=2", "?images=images_8", "?fps=30"):
        with pytest.raises(SightlineError, match=r"was made with sources .* and this run asks for"):
            write(options)


def test_shards_of_another_run_are_refused(tmp_path: Path, undisturbed: Path, data: Path, encoder: ClipEncoder):
    write_cache(tmp_path, data, encoder, dtype="float32")
    (tmp_path / "shard-00000.safetensors").write_bytes((undisturbed / "shard-00000.safetensors").read_bytes())
    with pytest.raises(SightlineError, match=r"shard-00000\.safetensors: was made with other settings"):
        write_cache(tmp_path, data, encoder, dtype="float32")
    (tmp_path / "settings.json").unlink()
    with pytest.raises(SightlineError, match=r"found shards without a settings\.json"):
        write_cache(tmp_path, data, encoder, dtype="float32")


def test_a_size_that_the_model_cannot_take(tmp_path: Path, data: Path, encoder: ClipEncoder):
    with pytest.raises(SightlineError, match="height is 48: expected a multiple of 32"):
        write_cache(tmp_path, data, encoder, ClipSpec(num_frames=5, width=32, height=48))


# -- reading --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("mixed", [False, True])
def test_training_order_and_exact_resume(undisturbed: Path, workers: int, mixed: bool):
    cached = CachedClips(undisturbed)
    order = Mixed(cached.groups(), {"re10k": 3.0, "dl3dv": 1.0}, seed=5) if mixed else Shuffled(len(cached), seed=5)

    def run(batches: int, state: dict[str, int] | None = None, workers: int = workers):
        loader = ClipLoader(CachedClips(undisturbed), order, 2, workers=workers)
        if state is not None:
            loader.load_state_dict(state)
        seen = list(itertools.islice(iter(loader), batches))
        return [[clip.name for clip in batch] for batch in seen], loader.state_dict(), seen

    whole, _, clips = run(8, workers=0)
    head, state, _ = run(3)
    tail, _, resumed = run(5, json.loads(json.dumps(state)))
    assert head + tail == whole
    assert torch.equal(resumed[0][0].latents, clips[3][0].latents)
    assert clips[0][0].latents.shape == (48, 2, 2, 2)
    assert clips[0][0].text.shape == (512, 32)


def test_an_unfinished_cache_is_not_read(tmp_path: Path):
    with pytest.raises(SightlineError, match=r"found no index\.json, expected a finished cache"):
        CachedClips(tmp_path)


@pytest.mark.parametrize("model", ["lab", "tiny:ti2v-5b"])
def test_the_models_that_ship_can_be_named(model):
    encoder = load_encoder(model)
    assert getattr(encoder.pipe, "transformer", None) is None or model != "lab"
    assert encoder.text("a room").shape[0] > 0
