"""The generate verb on tiny models in the hub's exact layout: what it writes, and one sentence for every fault."""

from __future__ import annotations

import errno
import json
import shutil
from pathlib import Path

import av
import huggingface_hub
import numpy as np
import pytest
import torch
from PIL import Image

import sightline as sl
from sightline import cli, video
from sightline.backbones import shipped
from sightline.backbones.tiny import tiny_pipeline
from sightline.generation import outputs
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions
from sightline.generation.outputs import run_job
from sightline.generation.plan import shipped_caption
from tests.conftest import wake

SMALL = "--num-frames 5 --size 64x64 --num-inference-steps 2"


@pytest.fixture(scope="session")
def models(tmp_path_factory):
    """Both layouts, sharded with index files, and camera weights for each."""
    place = tmp_path_factory.mktemp("models")
    for kind in ("ti2v-5b", "i2v-a14b"):
        pipe = tiny_pipeline(kind)
        pipe.save_pretrained(place / kind, max_shard_size="20KB")
        assert (place / kind / "transformer" / "diffusion_pytorch_model.safetensors.index.json").exists()
        sl.attach_camera(pipe, sl.Scope())
        for name in ("transformer", "transformer_2"):
            if getattr(pipe, name, None) is not None:
                wake(getattr(pipe, name))
        sl.save_pipeline_camera(pipe, place / f"{kind}-camera")
    return place


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


@pytest.fixture
def run(models):
    def call(line, *more, kind="ti2v-5b"):
        place = ["--model", str(models / kind), "--camera", str(models / f"{kind}-camera")]
        return cli.main(["generate", *place, *line.split(), *more])

    return call


def settings(folder="out"):
    return json.loads((Path(folder) / "settings.json").read_text())


def everything():
    return {str(path) for path in Path().rglob("*")}


def test_a_video_of_the_shipped_frame_and_the_same_bytes_again(run, capsys):
    assert run(f"{SMALL} -o out") == 0
    assert {path.name for path in Path("out").iterdir()} == {
        "video.mp4", "sheet.png", "trajectory.png", "trajectory.json", "settings.json"
    }  # fmt: skip
    assert "wrote out" in capsys.readouterr().out
    report = settings()
    assert report["generated"]["prompt"] == shipped_caption() and "teal armchair" in shipped_caption()
    assert (
        report["generated"]["num_inference_steps"],
        report["generated"]["seed"],
        report["generated"]["num_frames"],
    ) == (2, 0, 5)
    assert set(report["versions"]) >= {"sightline", "torch", "diffusers"}
    assert set(report["model"]["weights"]) == {"transformer", "camera of transformer", "vae", "text_encoder"}
    path = sl.Trajectory.load("out/trajectory.json")
    assert np.allclose(path.camera_to_world, sl.moves.orbit(30, frames=5, width=64, height=64).camera_to_world)
    with av.open("out/video.mp4") as container:
        assert len(list(container.decode(video=0))) == 5

    assert run(f"{SMALL} -o again") == 0
    assert Path("again/video.mp4").read_bytes() == Path("out/video.mp4").read_bytes()
    assert run(f"{SMALL} -o other --seed 1") == 0
    assert Path("other/video.mp4").read_bytes() != Path("out/video.mp4").read_bytes()


def test_two_experts_generate_a_world_beside_its_ground_truth(run, capsys):
    line = "--num-frames 5 --size 64x64 --num-inference-steps 4 --world 3 --style walkthrough --camera-guidance-scale 2 -o out"
    assert run(line, "--move", "pan:20", kind="i2v-a14b") == 0
    assert "PSNR to the ground-truth video" in capsys.readouterr().out
    report = settings()
    assert {"camera of transformer", "camera of transformer_2"} <= set(report["model"]["weights"])
    assert len(report["result"]["psnr"]["per_frame"]) == 5 and report["generated"]["camera_guidance_scale"] == 2.0
    assert report["generated"]["prompt"]  # the world's own caption
    for name, width in (("true.mp4", 64), ("side-by-side.mp4", 128)):
        with av.open(f"out/{name}") as container:
            assert container.streams.video[0].width == width and len(list(container.decode(video=0))) == 5


def test_text_alone_and_the_layout_options(run):
    options = "--text-only --dtype bfloat16 --attention native --tiled-decode"
    assert run(f"{SMALL} {options} -o out", "--prompt", "a quiet kitchen") == 0
    report = settings()
    assert report["generated"]["first_frame"] is False
    assert (report["model"]["dtype"], report["model"]["tiled_decode"]) == ("bfloat16", True)


def test_longer_camera_files_are_resampled_with_a_notice(run, capsys):
    sl.moves.truck(1, frames=11, width=640, height=360).save("path.json")
    assert run(f"{SMALL} --trajectory path.json -o out") == 0
    assert "note: path.json has 11 frames: resampled to 5 over the same time." in capsys.readouterr().err
    path = sl.Trajectory.load("out/trajectory.json")
    assert (len(path), path.width, path.height) == (5, 64, 64) and float(path.positions[-1, 0]) == pytest.approx(1)


def bad_files():
    sl.moves.orbit(30, frames=17).save("short.json")
    document = json.loads(Path("short.json").read_text())
    document["camera_to_world"][3][0][3] = float("nan")
    Path("nan.json").write_text(json.dumps(document))
    Path("weights.safetensors").write_text("no weights")
    Path("full").mkdir()
    Path("full/kept.txt").write_text("mine")
    Path("text.png").write_text("no picture")


@pytest.mark.parametrize(
    "line, sentence",
    [
        (f"{SMALL} --image nope.png", "image nope.png does not exist: expected a picture file."),
        (f"{SMALL} --image text.png", "image text.png cannot be read"),
        (
            "--num-frames 81 --trajectory short.json",
            "short.json has 17 frames: expected at least 81; say --num-frames 17, or",
        ),
        ("--num-frames 17 --trajectory nan.json", "nan.json"),
        (f"{SMALL} --trajectory nope.json", "nope.json"),
        (f"{SMALL} --camera weights.safetensors", "weights.safetensors cannot be read"),
        (f"{SMALL} --camera nope", "camera nope does not exist"),
        (f"{SMALL} --camera MODELS/i2v-a14b-camera", "backbone with in_channels 36: this model has 48"),
        (f"{SMALL} --model somebody/absent-model", "model 'somebody/absent-model' cannot be loaded"),
        (f"{SMALL} --model outputs/lab/start", "model 'outputs/lab/start' cannot be loaded (no such folder)"),
        (f"{SMALL} --model full", "model 'full' cannot be loaded (model_index.json: No such file"),
        ("--size 70x64", "size is 70x64: expected multiples of 32x32, the nearest is 64x64."),
        ("--size 0x64", "size is '0x64'"),
        ("--num-frames 8", "num_frames is 8: expected 4 n + 1 for this model, the nearest is 9."),
        (f"{SMALL} --move fly:3", "fly"),
        (f"{SMALL} --move=", "move is ''"),
        (f"{SMALL} --fps 1001", "fps is 1001.0: expected a finite number of at least 0.001 and of at most 1000"),
        (f"{SMALL} --move pan --trajectory short.json", "move and trajectory are both given"),
        (f"{SMALL} --world 3 --image text.png", "image and world are both given"),
        (f"{SMALL} --world 3 --style x", "style is 'x': expected one of"),
        (f"{SMALL} --world -3", "world is -3: expected a whole number"),
        (f"{SMALL} --style orbit", "style is given without a world"),
        (f"{SMALL} --text-only", "prompt is missing"),
        (f"{SMALL} --offload group", "offload is 'group' but there is no GPU"),
        (f"{SMALL} --context-parallel ulysses", "context_parallel is given to one process"),
        (f"{SMALL} --attention magic", "the model cannot be laid out as asked"),
        (f"{SMALL} --guidance-scale -1", "guidance_scale is -1.0: expected a finite number of at least 0"),
        (f"{SMALL} --camera-guidance-scale nan", "camera_guidance_scale is nan"),
        (f"{SMALL} --seed 99999999999999999999", "seed is 99999999999999999999: expected a whole number"),
        (f"{SMALL} --seed -1", "seed is -1: expected a whole number"),
        (f"{SMALL} --overwrite --jobs nope.json", "nope.json cannot be read"),
        (f"{SMALL} -o full", "full exists: expected a new or empty folder, or --overwrite to replace it."),
        (f"{SMALL} -o full/kept.txt/out", "full/kept.txt/out: cannot be written"),
    ],
)
def test_bad_input_is_one_sentence_and_leaves_nothing(line, sentence, run, models, capsys, monkeypatch):
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", True)
    bad_files()
    before = everything()
    output = "" if "-o " in line else " -o new/out"
    assert run(line.replace("MODELS", str(models)) + output) == cli.FAULT
    error = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note:")]
    assert len(error) == 1 and error[0].startswith("sightline: ") and sentence in error[0], error
    assert everything() == before


def test_a_full_disk_is_one_sentence_before_and_after_the_work(run, capsys, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(outputs.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000}))
        assert run(f"{SMALL} -o new/out") == cli.FAULT
    assert "new/out lies on a disk with 0.0 MiB free" in capsys.readouterr().err
    monkeypatch.setattr(video, "_write_h264", full)
    assert run(f"{SMALL} -o new/out") == cli.FAULT
    assert "new/out/video.mp4: cannot be written (No space left on device)" in capsys.readouterr().err
    assert not everything()


def test_an_interrupt_leaves_nothing_and_the_old_video_as_it_was(run, capsys, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    Path("out").mkdir()
    Path("out/settings.json").write_text('{"request": {}}')
    Path("out/old.txt").write_text("the old video")
    monkeypatch.setattr(outputs, "generate", interrupted)
    assert run(f"{SMALL} -o out --overwrite") == cli.INTERRUPTED
    assert everything() == {"out", "out/old.txt", "out/settings.json"}
    *notes, sentence = capsys.readouterr().err.splitlines()
    assert sentence == "sightline: interrupted." and all(line.startswith("note:") for line in notes)
    monkeypatch.setattr(outputs, "generate", lambda *_, **__: np.zeros((5, 64, 64, 3), np.uint8))
    assert run(f"{SMALL} -o out --overwrite") == 0
    assert Path("out/video.mp4").exists() and not Path("out/old.txt").exists()


def test_only_a_video_is_replaced(run, capsys):
    Path("papers").mkdir()
    Path("papers/thesis.tex").write_text("years of work")
    Path("file").write_text("a file")
    Path("cache").mkdir()
    Path("cache/settings.json").write_text('{"shard_clips": 64}')  # of a cache, or of an evaluation
    for place, sentence in {
        "papers": "papers exists: expected a folder that `sightline generate` wrote, or a new or empty one.",
        "cache": "cache exists",
        "file": "file exists",
        ".": "exists",
        "..": "exists",
    }.items():
        assert run(f"{SMALL} -o {place} --overwrite") == 2
        assert sentence in capsys.readouterr().err
    assert everything() == {"file", "papers", "papers/thesis.tex", "cache", "cache/settings.json"}


def test_a_batch_goes_on_after_a_failure_and_where_it_was(run, capsys):
    Image.new("RGB", (64, 64), "teal").save("teal.png")
    jobs = [
        {"move": "pan:10", "output": "pan"},
        {"image": "nope.png"},
        {"image": "teal.png", "seed": 3, "prompt": "teal"},
    ]
    Path("jobs.json").write_text(json.dumps(jobs))
    line = f"{SMALL} --jobs jobs.json -o videos"
    assert run(line) == cli.FAULT
    error = capsys.readouterr().err
    assert "videos/0001: image nope.png does not exist" in error and "1 of 3 jobs failed" in error
    assert {path.name for path in Path("videos").iterdir()} == {"pan", "0002"}
    assert settings("videos/0002")["generated"]["seed"] == 3

    written = Path("videos/pan/settings.json").stat().st_mtime_ns
    jobs[1], jobs[2]["seed"] = {"move": "tilt:5"}, 4
    Path("jobs.json").write_text(json.dumps(jobs))
    assert run(line) == cli.FAULT  # one is finished, one is new, one has changed
    error = capsys.readouterr().err
    assert "videos/pan is finished" in error
    assert "videos/0002: videos/0002 holds a video with seed 3: expected 4, another folder, or --overwrite" in error
    assert run(f"{line} --overwrite") == 0
    assert settings("videos/0002")["generated"]["seed"] == 4 and settings("videos/0001")["request"]["move"] == "tilt:5"
    assert Path("videos/pan/settings.json").stat().st_mtime_ns == written
    assert run(f"{line} --tiled-decode") == cli.FAULT  # it decides what the video looks like
    assert "videos/pan holds a video with tiled_decode False: expected True" in capsys.readouterr().err


def test_a_damaged_model_is_one_sentence(models, run, capsys, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(models / "ti2v-5b", folder)
    shard = next(folder.glob("transformer/*.safetensors"))
    line = f"{SMALL} --model {folder} -o out"
    config = (folder / "transformer" / "config.json").read_text()
    whole = shard.read_bytes()
    shard.write_bytes(whole[:100])
    assert run(line) == cli.FAULT
    shard.unlink()
    assert run(line) == cli.FAULT
    (folder / "transformer" / "config.json").write_text("{}")
    assert run(line) == cli.FAULT
    (folder / "transformer" / "config.json").write_text(config[:-9])
    assert run(line) == cli.FAULT
    sentences = [line for line in capsys.readouterr().err.splitlines() if not line.startswith("note:")]
    assert len(sentences) == 4 and all(one.startswith("sightline: ") for one in sentences), sentences
    assert not Path("out").exists()


def test_a_pipeline_in_hand_runs_a_job(models):
    pipe = sl.load_pipeline(models / "ti2v-5b", models / "ti2v-5b-camera")
    pipe.set_progress_bar_config(disable=True)
    job = Job(Path("out"), prompt="a room", move="pan:5", num_frames=5, size="64x64", num_inference_steps=1)
    report = run_job(Model.of(pipe), job)
    assert report == settings() and report["generated"]["prompt"] == "a room"


def test_a_picture_that_fails_leaves_the_video(run, capsys, monkeypatch):
    def fail(*_, **__):
        raise RuntimeError("no ink")

    monkeypatch.setattr("sightline.generation.outputs.contact_sheet", fail)
    sl.moves.orbit(30, frames=5, width=64, height=64).save("$x^{.json")  # matplotlib would read it as a formula
    assert run(f"{SMALL} --trajectory $x^{{.json -o out") == 0
    assert "out/sheet.png cannot be drawn (no ink)" in capsys.readouterr().err
    assert {path.name for path in Path("out").iterdir()} == {
        "video.mp4", "trajectory.png", "trajectory.json", "settings.json",
    }  # fmt: skip


def test_only_safetensors_are_loaded_from_a_model(models, run, capsys, tmp_path):
    folder = tmp_path / "model"
    shutil.copytree(models / "ti2v-5b", folder)
    for file in (folder / "vae").glob("*.safetensors*"):
        file.unlink()
    tensors = sl.load_pipeline(models / "ti2v-5b").vae.state_dict()
    torch.save(tensors, folder / "vae" / "diffusion_pytorch_model.bin")  # a pickle, which may hold code
    assert run(f"{SMALL} --model {folder} -o out") == cli.FAULT
    assert "safetensors" in capsys.readouterr().err and not Path("out").exists()


QUICK = f"{SMALL} --ignore-memory"


@pytest.fixture
def generating(monkeypatch):
    """Instead of generating: whatever a test puts into this list, with the job. Instead of all files: the settings."""

    def write(folder, model, job, *_):
        settings = {"request": outputs.request(model, job), "result": {"seconds": 0.0}}
        (folder / "settings.json").write_text(json.dumps(settings))
        return settings

    actions = []
    monkeypatch.setattr(
        outputs, "_generate", lambda model, job, plan, on_step, clock: [action(job) for action in actions]
    )
    monkeypatch.setattr(outputs, "_write", write)
    return actions


def test_a_folder_that_appears_meanwhile_is_not_replaced(run, capsys, generating):
    def foreign(job):
        Path("out").mkdir()
        Path("out/foreign.txt").write_text("not ours")

    generating.append(foreign)
    assert run(f"{QUICK} -o out --overwrite") == cli.FAULT  # to overwrite concerns what was there at the start
    assert "out appeared while this was made" in capsys.readouterr().err
    assert everything() == {"out", "out/foreign.txt", "out-2", "out-2/settings.json"}


def test_a_second_command_for_the_same_output_is_refused_at_once(run, capsys, generating):
    Path("jobs.json").write_text('[{"seed": 1}]')
    for line in (f"{QUICK} -o out", f"{QUICK} --jobs jobs.json -o videos"):
        outcomes = []
        generating[:] = [lambda job, line=line, outcomes=outcomes: outcomes.append(run(line))]
        assert run(line) == 0 and outcomes == [cli.FAULT]
        assert "is being written by another command (process" in capsys.readouterr().err


def test_a_batch_notices_that_weights_were_replaced(models, run, capsys, tmp_path, generating):
    shutil.copytree(models / "ti2v-5b-camera", tmp_path / "camera")
    Path("jobs.json").write_text("[{}]")
    line = f"{QUICK} --camera camera --jobs jobs.json -o videos"
    assert run(line) == 0 and set(settings("videos/0000")["request"]["weights"]) == {"model", "camera"}
    assert run(line) == 0 and "videos/0000 is finished" in capsys.readouterr().err
    pipe = tiny_pipeline("ti2v-5b")
    sl.attach_camera(pipe, sl.Scope())
    wake(pipe.transformer, seed=9)
    shutil.rmtree(tmp_path / "camera")
    sl.save_pipeline_camera(pipe, tmp_path / "camera")
    assert run(line) == cli.FAULT
    assert "videos/0000 holds a video of other weights, whose files were replaced" in capsys.readouterr().err


def test_any_failure_of_one_job_is_one_failed_job(run, capsys, generating):
    generating.append(lambda job: 1 // (job.seed - 1))
    Path("jobs.json").write_text('[{"seed": 1}, {"seed": 2}]')
    assert run(f"{QUICK} --jobs jobs.json -o videos") == cli.FAULT
    error = capsys.readouterr().err
    assert "videos/0000: an unexpected ZeroDivisionError (" in error and "1 of 2 jobs failed" in error
    assert Path("videos/0001").is_dir() and not Path("videos/0000").exists()


@pytest.mark.parametrize("model", [[], ["--model", "lab", "--camera", str(shipped.camera())]])
def test_what_cannot_fit_is_refused_before_anything_is_made(model, capsys, monkeypatch):
    monkeypatch.setattr(outputs, "make_plan", lambda *_: pytest.fail("a picture of this size was made"))
    assert cli.main(["generate", *model, "--size", "99968x99968", "-o", "out"]) == cli.FAULT
    assert "size is 99968x99968: expected at most 1024x1024" in capsys.readouterr().err
    assert cli.main(["generate", *model, "--size", "99968x99968", "--dry-run"]) == cli.FAULT
    assert "99968x99968" in capsys.readouterr().err
    monkeypatch.setattr("sightline.generation.memory.available_memory", lambda: 2**31)
    assert cli.main(["generate", *model, "--size", "1024x1024", "-o", "out"]) == cli.FAULT
    assert "GiB of memory and 2 are free: expected a smaller size" in capsys.readouterr().err
    assert not everything()


def test_steps_are_reported_and_a_report_that_raises_leaves_nothing_behind(models, tmp_path):
    model = Model(ModelOptions(str(models / "ti2v-5b"), models / "ti2v-5b-camera"))
    job, seen = Job(tmp_path / "out", num_frames=5, size="64x64", num_inference_steps=2), []
    settings = run_job(model, job, on_step=lambda step, latents: seen.append((step, latents.shape[0])))
    result = settings["result"]  # of which the studio judges the time of other films
    assert 0 < result["sampling_seconds"] + result["decoding_seconds"] <= result["seconds"] + 0.1
    assert seen == [(0, 1), (1, 1)]

    class Enough(Exception):
        pass

    def stop(step, latents):
        raise Enough

    with pytest.raises(Enough):
        run_job(model, Job(tmp_path / "stopped", num_frames=5, size="64x64"), on_step=stop)
    assert [place.name for place in tmp_path.iterdir()] == ["out"]
