"""One sample of every kind of file that the package reads, and the call that reads it; for the tests with damaged files."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import av
import numpy as np
import torch
import yaml
from PIL import Image
from safetensors.torch import save_file

from sightline.backbones.camera_weights import load_camera, save_camera
from sightline.backbones.config_files import read_configs
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.packed_weights import pack_component, unpack_weights
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.camera_batch import CameraBatch
from sightline.cameras.formats import load, save
from sightline.data import rendered_store
from sightline.data.cached import CachedClips
from sightline.data.checksums import clip_checksum
from sightline.data.clip import Skip
from sightline.data.latents import LatentBatch
from sightline.data.sources._source import json_lines
from sightline.encodings import Scope
from sightline.evaluation import compare, vbench
from sightline.evaluation.gather import gather, mean_scores
from sightline.evaluation.results import (
    CaseSettings,
    ClipResult,
    Counts,
    Failure,
    RunResults,
    RunSettings,
    Sampling,
    VideoScores,
    write_result,
)
from sightline.generation.batch import read_jobs
from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions
from sightline.generation.outputs import is_finished, request
from sightline.images import load_image
from sightline.settings import to_builtin
from sightline.studio.command import python_code, shell_line
from sightline.studio.depth import read_depth
from sightline.studio.film_job import film_job, reopened
from sightline.studio.keyframes import Key
from sightline.studio.library import Library
from sightline.studio.session import Session
from sightline.study import videos
from sightline.study.plan import Plan, read_plan
from sightline.study.results import RunResult, read_results
from sightline.study.study import Rate, Row, Study, TableConfig
from sightline.study.study_file import read_study
from sightline.training.checkpoint import State, load_checkpoint, save_checkpoint
from sightline.training.curves import _loss_curve
from sightline.training.recipe import DataConfig, ModelConfig, Recipe
from sightline.video import read_video_frames, save_video
from tests.cameras.formats.format_samples import CARRIED, FILE_NAMES, random_trajectory

FRAMES = np.random.default_rng(0).integers(0, 255, (5, 32, 48, 3), dtype=np.uint8)
NAMES = ["clip0", "clip1", "clip2"]
MODEL = Model(ModelOptions())


@dataclass(frozen=True)
class Reader:
    """write: puts a sound sample into an empty folder. read: reads it from there, as the package does.

    files: a pattern of those to damage.
    """

    write: Callable[[Path], object]
    read: Callable[[Path], object]
    files: str = "**/*"


# -- what is written ------------------------------------------------------------------------------------------------


def _recipe(folder: Path) -> None:
    recipe = Recipe(
        model=ModelConfig(encoding={"name": "scope", "gate_hidden": 8}),
        data=DataConfig(sources=("worlds:orbit", "worlds:walkthrough"), source_weights={"worlds:orbit": 1.0}),
    )
    (folder / "recipe.yaml").write_text(recipe.to_yaml())


_JOBS: list[dict[str, Any]] = [
    {"prompt": "a quiet kitchen", "move": "orbit:30", "seed": 3, "guidance_scale": 1.5, "num_frames": 9},
    {"world": 4, "style": "orbit", "output": "second", "size": "128x128", "text_only": False},
]


def _jobs_csv(folder: Path) -> None:
    (folder / "jobs.csv").write_text('prompt,move,seed,output\na room,orbit:30,1,one\n"a, b",pan:20,2,two\n')


def _read_job_settings(folder: Path) -> None:
    is_finished(MODEL, Job(output=folder / "done"))


def _job_settings(folder: Path) -> None:
    content = {"request": request(MODEL, Job(output=folder / "done")), "result": {"seconds": 1.0}}
    (folder / "done").mkdir()
    (folder / "done" / "settings.json").write_text(json.dumps(content))


def _settings() -> RunSettings:
    cases = CaseSettings([{"name": "walkthrough"}], 3, "", "all", None, 5, 1, 64, 64, False, 3, "a video", 0)
    return RunSettings(
        "standard",
        "the lab model",
        None,
        "float32",
        Sampling(1, 1.0),
        cases,
        "direct",
        "trajectory",
        ["psnr"],
        {},
        {},
        "0",
    )


def _clips() -> list[ClipResult]:
    scores = VideoScores(
        {"rot_err_raw": 0.1, "psnr": 20.0}, {"rot_err": [0.0, 0.1], "psnr": [20.0, 21.0]}, 0.9, {"kept": 3}
    )
    failed = ClipResult(NAMES[2], NAMES[2], failures=[Failure("pose of the generated video", "lost")])
    good = [ClipResult(name, name, "walkthrough", "a room", 5, 1, {"a": "b"}, scores, scores) for name in NAMES[:2]]
    return [*good, failed]


def _results(folder: Path) -> None:
    clips = _clips()
    means = mean_scores(clips, [clip.generated for clip in clips])
    for name in ("one", "two"):
        run = RunResults(name, "standard", _settings(), Counts(3, 3, 2, 1, 2), means, means, {}, clips)
        write_result(folder / name / "results.json", run)


def _read_results(folder: Path) -> None:
    runs = compare.read_runs([folder / "one", folder / "two"])
    compare.comparison_text(runs, compare.differences(runs))


def _clip_folders(folder: Path) -> None:
    write_result(folder / "settings.json", _settings())
    for number, clip in enumerate(_clips()):
        write_result(folder / "clips" / clip.name / "scores.json", clip)
        for name in ("generated.npz", "real.npz"):
            features = np.random.default_rng(number).normal(size=(3, 4)).astype(np.float32)
            np.savez_compressed(folder / "clips" / clip.name / name, fid=features)


def _vbench(folder: Path) -> None:
    scores = {name: [0.5, [{"video_path": "a.mp4", "video_results": 0.5}]] for name in vbench.DIMENSIONS}
    (folder / "results.json").write_text(json.dumps(scores))


def _cache(folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    camera = {"width": 64, "height": 64, "xi": 0.0, "fps": 16.0, "unit": "m", "near_depth": 1.5}
    clips = [{"source": "a", "name": f"a/{at}", "scene": "a", "caption": "a room", "camera": camera} for at in range(2)]
    tensors = {}
    for at, clip in enumerate(clips):
        own = {
            "latents": torch.randn(4, 3, 4, 4, generator=generator).to(torch.bfloat16),
            "text": torch.randn(6, 8, generator=generator).to(torch.bfloat16),
            "camera_to_world": torch.eye(4, dtype=torch.float64).repeat(9, 1, 1),
            "intrinsics": torch.tensor([[60.0, 0, 32], [0, 60, 32], [0, 0, 1]]).double().repeat(9, 1, 1),
        }
        clip["checksum"] = clip_checksum(clip, own)
        tensors |= {f"{at:05d}.{name}": tensor for name, tensor in own.items()}
    header = {"fingerprint": "f", "clips": clips, "skips": [asdict(Skip("a", "b", "c"))]}
    save_file(tensors, folder / "shard-00000.safetensors", metadata={"sightline": json.dumps(header)})
    entries = [{"source": "a", "name": f"a/{at}", "scene": "a", "shard": 0, "position": at} for at in range(2)]
    (folder / "index.json").write_text(json.dumps({"fingerprint": "f", "skips": [], "clips": entries}))
    (folder / "settings.json").write_text(json.dumps({"version": 1, "model": "tiny", "clips": 2, "sources": []}))


def _read_cache(folder: Path) -> None:
    clips = CachedClips(folder)
    clips.groups()
    for index in range(len(clips)):
        clips[index]


def _pictures(folder: Path) -> None:
    picture = Image.fromarray(FRAMES[0])
    for suffix in ("png", "jpg", "webp", "bmp", "gif", "ppm"):
        picture.save(folder / f"picture.{suffix}")
    picture.save(folder / "picture.tif", compression="tiff_lzw")
    Image.fromarray(FRAMES[0, ..., 0].astype(np.uint16) * 257).save(folder / "grey.png")
    Image.fromarray(FRAMES[0, ..., 0].astype(np.float32) / 255).save(folder / "float.tif")
    picture.save(folder / "turned.jpg", exif=_turned())


def _turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x0112] = 6
    return exif


def _videos(folder: Path) -> None:
    for suffix in ("mp4", "mkv", "mov"):
        save_video(FRAMES, folder / f"video.{suffix}")
    with av.open(str(folder / "video.avi"), "w") as container:
        stream = container.add_stream("mpeg4", rate=16)
        stream.width, stream.height, stream.pix_fmt = 48, 32, "yuv420p"
        for frame in FRAMES:
            container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
        container.mux(stream.encode())


def _read_video(file: Path) -> None:
    for _ in read_video_frames(file, [0, 2, 4], 5):
        pass


@cache
def _base() -> Any:
    return tiny_transformer()


def _camera_model() -> CameraWanTransformer3DModel:
    return CameraWanTransformer3DModel.from_transformer(_base(), Scope(gate_hidden=2), copy=False)


def _packed(folder: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    weights = {"matrix": torch.randn(300, 300, generator=generator), "bias": torch.randn(300, generator=generator)}
    pack_component(folder, weights)


def _trained() -> tuple[dict[str, torch.nn.Parameter], torch.optim.Optimizer]:
    parameters = {"gate": torch.nn.Parameter(torch.ones(3, 4)), "alpha": torch.nn.Parameter(torch.ones(1))}
    optimizer = torch.optim.AdamW(parameters.values())
    sum(parameter.sum() for parameter in parameters.values()).backward()
    optimizer.step()
    return parameters, optimizer


def _checkpoint(folder: Path) -> None:
    parameters, optimizer = _trained()
    average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    save_checkpoint(folder, State(step=7, seconds=1.0, base="base"), parameters, optimizer, average, total_limit=1)


def _read_checkpoint(folder: Path) -> None:
    parameters, optimizer = _trained()
    average = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    load_checkpoint(folder / "step-00000007", "base", parameters, optimizer, average)


def _log(folder: Path) -> None:
    lines: list[dict[str, Any]] = [{"event": "start", "version": "0"}]
    lines += [{"step": step, "loss": 1.0 / (step + 1), "grad_norm": 0.5} for step in range(4)]
    lines += [{"validation": 4, "loss": 0.5, "loss_without_camera": 0.6}]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _measured(folder: Path) -> None:
    (folder / "measured.json").write_text(json.dumps({"psnr": 30.0, "curve": [{"step": 50, "loss": 0.5}] * 2}))


@cache
def _configs() -> dict[str, str]:
    pipe = tiny_pipeline("ti2v-5b")
    files = {"model_index.json": {"_class_name": "WanPipeline", "expand_timesteps": True}}
    for name in ("transformer", "vae"):
        files["model_index.json"][name] = ["diffusers", type(getattr(pipe, name)).__name__]
        files[f"{name}/config.json"] = dict(getattr(pipe, name).config)
    return {name: json.dumps(content) for name, content in files.items()}


def _model_configs(folder: Path) -> None:
    for name, text in _configs().items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def _read_model_configs(folder: Path) -> None:
    info = ModelInfo.from_configs(read_configs(str(folder)))
    info.require_size(128, 128)
    info.require_num_frames(9)


def _table(folder: Path) -> None:
    lines = [{"video": f"{at}.mp4", "caption": "a room", "near_depth": 1.5} for at in range(3)]
    (folder / "table.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))


def _study_folder(folder: Path) -> None:
    plan = Plan(STUDY, "study", folder)
    plan.write_study()
    for task in plan.tasks():
        place = plan.task_folder(task)
        if task.rate is not None:
            place.mkdir(parents=True)
            (place / "trial.json").write_text(json.dumps({"loss": None, "failure": "the held-out loss is nan."}))
        else:
            history, facts = {"alpha_q/0": [(1, 0.5)]}, {"jobs": 2.0}
            values: dict[str, list[float | None]] = {"loss": [0.5, None]}
            RunResult(
                "study", "SCoPE", 0, "all", {"loss": ["a", "b"]}, values, {"steps": 3.0}, 1e-3, history, facts
            ).write(place)


def _read_study_folder(folder: Path) -> None:
    plan = read_plan(folder)
    for cell in plan.cells():
        plan.trials(cell)
    plan.forget_failures(lambda sentence: False)
    read_results(folder)


def _rendered_clips(folder: Path) -> None:
    cameras = CameraBatch(torch.eye(4).expand(2, 5, 4, 4), torch.eye(3).expand(2, 5, 3, 3), torch.zeros(2), 16, 16)
    batch = LatentBatch(torch.rand(2, 4, 2, 4, 4), torch.rand(2, 3, 8))
    rendered_store._write(folder / "clips.safetensors", batch, cameras, torch.ones(2))


def _study_videos(folder: Path) -> None:
    trajectory = random_trajectory(5, 3, True, True, constant=True)
    frames = np.zeros((5, trajectory.height, trajectory.width, 3), np.uint8)
    case = videos.VideoCase(
        "a/loop", "orbit", trajectory, frames[:1], frames[0, ..., 0] + 1.5, torch.rand(4, 1, 2, 2), torch.rand(3, 8)
    )
    videos._write(folder / "videos.safetensors", [case])


STUDY = Study(
    title="study",
    recipe="debug",
    rows={"SCoPE": Row({"name": "scope"})},
    tables={"all": TableConfig(videos=("worlds:orbit",))},
    seeds=(0,),
    steps=3,
    rates=(Rate(1e-3), Rate(1e-3, 10.0)),
)


def _study(folder: Path) -> None:
    content = json.loads(json.dumps(to_builtin(asdict(STUDY))))
    (folder / "study.yaml").write_text(yaml.safe_dump({"extends": "debug", **content}, sort_keys=False))


def _trajectory(name: str) -> Reader:
    carried = CARRIED[name]
    sample = random_trajectory(3, 3, carried.square, carried.centred, constant=name == "colmap")
    return Reader(
        lambda folder: save(sample, folder / FILE_NAMES[name], format=name),
        lambda folder: load(folder / FILE_NAMES[name]),
    )


def _film(folder: Path) -> None:
    """A film of keyframes, as the studio keeps it."""
    session = Session(MODEL.info)
    session.set_keys(session.first_keys().insert(1, Key(torch.eye(4), 35.0)))
    job = film_job(session, Library(folder), folder / "film", prompt="a room", seed=3)
    made = {"trajectory": "x", "prompt": "a room", "negative_prompt": None, "first_frame": True, "num_frames": 33}
    made |= {"width": 128, "height": 128, "num_inference_steps": 12, "guidance_scale": 1.0, "seed": 3}
    content = {"request": request(MODEL, job), "generated": {**made, "camera_guidance_scale": 1.0}, "result": {}}
    (folder / "film").mkdir()
    (folder / "film" / "settings.json").write_text(json.dumps(content))
    session.trajectory.save(folder / "film" / "trajectory.json")


def _read_film(folder: Path) -> None:
    film = Library(folder).film("film")
    str(film), shell_line(film), python_code(film)
    reopened(film, MODEL.info, Library(folder))


def _each(suffixless: Callable[[Path], object]) -> Callable[[Path], None]:
    """Read every file of the folder that is still there, whatever it is now."""

    def read(folder: Path) -> None:
        for file in sorted(folder.iterdir()):
            suffixless(file)

    return read


READERS: dict[str, Reader] = {
    "recipe": Reader(_recipe, lambda folder: Recipe.from_yaml(folder / "recipe.yaml")),
    "jobs.json": Reader(
        lambda folder: (folder / "jobs.json").write_text(json.dumps(_JOBS)),
        lambda folder: read_jobs(folder / "jobs.json", Job(output=folder / "out")),
    ),
    "jobs.csv": Reader(_jobs_csv, lambda folder: read_jobs(folder / "jobs.csv", Job(output=folder / "out"))),
    "job settings": Reader(_job_settings, _read_job_settings),
    "results": Reader(_results, _read_results),
    "clip folders": Reader(_clip_folders, lambda folder: gather(folder, NAMES, "label")),
    "vbench": Reader(_vbench, lambda folder: vbench.read_dimensions(folder / "results.json")),
    "cache": Reader(_cache, _read_cache),
    "images": Reader(_pictures, _each(lambda file: load_image(file, 32, 32))),
    "videos": Reader(_videos, _each(_read_video)),
    "camera weights": Reader(
        lambda folder: save_camera(_camera_model(), folder / "camera.safetensors"),
        lambda folder: load_camera(_base(), folder / "camera.safetensors", copy=False),
    ),
    "camera folder": Reader(
        lambda folder: _camera_model().save_pretrained(folder),
        lambda folder: CameraWanTransformer3DModel.from_pretrained(folder),
    ),
    "packed weights": Reader(_packed, unpack_weights),
    "checkpoint": Reader(_checkpoint, _read_checkpoint),
    "log": Reader(_log, lambda folder: _loss_curve(folder, 10)),
    "measured": Reader(_measured, lambda folder: _loss_curve(folder, 10)),
    "model configs": Reader(_model_configs, _read_model_configs),
    "tables of a source": Reader(_table, lambda folder: list(json_lines(folder / "table.jsonl"))),
    "study": Reader(_study, lambda folder: read_study(folder / "study.yaml")),
    "study folder": Reader(_study_folder, _read_study_folder),
    "rendered clips": Reader(
        _rendered_clips, lambda folder: rendered_store._read(folder / "clips.safetensors", 2, torch.device("cpu"))
    ),
    "videos of a study": Reader(_study_videos, lambda folder: videos._read(folder / "videos.safetensors")),
    "depth": Reader(
        lambda folder: np.save(folder / "depth.npy", np.full((6, 8), 2.0)),
        lambda folder: read_depth(folder / "depth.npy"),
    ),
    "film of the studio": Reader(_film, _read_film),
    **{f"trajectory {name}": _trajectory(name) for name in CARRIED},
}
