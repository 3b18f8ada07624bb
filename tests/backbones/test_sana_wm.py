"""SANA-WM: the stock pipeline in its own layout loads and follows trajectories, or is refused by name."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
import torch
from diffusers import SanaWMPipeline
from diffusers.pipelines.sana_wm.cam_utils import action_string_to_c2w, prepare_camera
from safetensors.torch import load_file, save_file

import sightline as sl
from sightline.backbones.config_files import read_configs
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.pipelines import load_transformer
from sightline.backbones.sana_wm import camera_arguments
from sightline.cameras import moves
from sightline.data.encode import load_encoder
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.generation.memory import estimate
from sightline.generation.model import Model, ModelOptions
from tests.backbones.sana_wm import sana_wm_pipeline, write_sana_wm

SIZE = {"frames": 9, "width": 96, "height": 64}
IMAGE = np.full((64, 96, 3), 128, np.uint8)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_sana_wm(tmp_path_factory.mktemp("sana-wm"))


@pytest.fixture(scope="module")
def pipe(folder):
    return sl.load_pipeline(folder)


def test_the_saved_pipeline_generates_what_the_stock_one_does(pipe):
    assert isinstance(pipe, SanaWMPipeline)
    path = moves.pan(20, **SIZE)
    video = generate(pipe, IMAGE, "a room", path, num_inference_steps=2)
    again = generate(sana_wm_pipeline(), IMAGE, "a room", path, num_inference_steps=2)
    other = generate(pipe, IMAGE, "a room", moves.pan(-20, **SIZE), num_inference_steps=2)
    assert video.shape == (9, 64, 96, 3) and video.dtype == np.uint8
    assert (video == again).all() and (video != other).any()


def test_the_levels_of_speed_leave_out_what_it_does_not_have():
    path, films = moves.pan(20, **SIZE), []
    for level in ("exact", "fastest"):
        pipe = sl.set_speed(sana_wm_pipeline(), level)
        films.append(generate(pipe, IMAGE, "a room", path, num_inference_steps=2))
    assert (films[0] == films[1]).all()  # neither fused kernels nor a cache


def test_facts_of_the_model_are_read_from_its_files(pipe, folder):
    info = ModelInfo.from_configs(read_configs(str(folder)))
    assert info == ModelInfo.of(pipe)
    assert tuple(info.stride) == (8, 32, 32) and info.has_camera and info.takes_image and not info.takes_text_alone
    needs = estimate(read_configs(str(folder)), 9, 96, 64, torch.float32)
    parts = (pipe.transformer, pipe.vae, pipe.text_encoder.model)
    assert needs.host("none") == 4 * sum(p.numel() for part in parts for p in part.parameters())
    assert needs.denoising > 0 and needs.decoding > 9 * 64 * 96 * 3 * 4


def test_the_released_strides_are_read():
    released = {
        "spatio_temporal_scaling": [True, True, True],
        "patch_size": 4,
        "patch_size_t": 1,
    }  # as diffusers computes them
    stated = {**released, "spatial_compression_ratio": 16, "temporal_compression_ratio": 4}
    for vae, stride in ((released, (8, 32, 32)), (stated, (4, 16, 16))):
        configs = {"": {"_class_name": "SanaWMPipeline"}, "transformer": {"patch_size": (1, 1, 1)}, "vae": vae}
        assert tuple(ModelInfo.from_configs(configs).stride) == stride


def test_a_trajectory_is_the_pipelines_own():
    """A pan to the right and a dolly as the keys of the pipeline's own language make them, and a centred lens."""
    frames = 9
    for keys, path in (("l", moves.pan(1.2 * (frames - 1), **SIZE)), ("w", moves.dolly(0.05 * (frames - 1), **SIZE))):
        own = action_string_to_c2w(f"{keys}-{frames - 1}")
        arguments = camera_arguments(path)
        assert np.allclose(arguments["c2w"][-1], own[-1], atol=1e-5)
    assert np.allclose(arguments["intrinsics"][:, 2:], (48, 32))
    assert (arguments["intrinsics"][:, 0] == path.intrinsics[:, 0, 0].float().numpy()).all()
    camera = prepare_camera(arguments["c2w"], arguments["intrinsics"], target_size=(64, 96), vae_stride=(8, 32, 32))
    assert torch.allclose(camera["raymap"][:, 18:], torch.tensor([1.5, 1.0]))  # the middle of 3 x 2 cells


def test_a_zoom_reaches_the_model():
    zooming = camera_arguments(moves.zoom(28, 70, **SIZE))["intrinsics"]
    assert zooming[-1, 0] / zooming[0, 0] == pytest.approx(70 / 28)


@pytest.mark.parametrize(
    "options, message",
    [
        ({"blind": True}, "blind is given: expected a camera in every pass"),
        ({"camera_guidance_scale": 2.0}, "camera_guidance_scale is 2: expected a camera in every pass"),
        ({"anchor": None}, "anchor is None and latent_pose is 'last': expected 0 and 'last'"),
        ({"height": 64}, "height is set by generate itself"),
    ],
)
def test_what_it_cannot_do_is_refused(options, message, pipe):
    with pytest.raises(SightlineError, match=message):
        generate(pipe, IMAGE, "a room", moves.pan(20, **SIZE), **options)


def test_pictures_lengths_and_lenses_are_refused(pipe):
    with pytest.raises(SightlineError, match="image is missing"):
        generate(pipe, None, "a room", moves.pan(20, **SIZE))
    with pytest.raises(SightlineError, match=r"trajectory has 5 frames: expected 8n \+ 1, the nearest is"):
        generate(pipe, IMAGE, "a room", moves.pan(20, **{**SIZE, "frames": 5}))
    with pytest.raises(SightlineError, match=r"multiples of 32x32, the nearest is 96x64"):
        generate(pipe, IMAGE, "a room", moves.pan(20, **{**SIZE, "height": 48}))
    with pytest.raises(SightlineError, match="expected a pinhole camera"):
        generate(pipe, IMAGE, "a room", moves.pan(20, **SIZE).replace(xi=0.5))


def test_damaged_weights_are_named_before_they_are_read(folder, tmp_path):
    for change, message in (
        (lambda state: state.pop("x_embedder.proj.weight"), r"lacks x_embedder\.proj\.weight \(1 missing"),
        (lambda state: state.update(other=torch.zeros(1)), r"holds the unknown tensor other"),
        (
            lambda state: state.update({"x_embedder.proj.bias": torch.zeros(3)}),
            r"bias has shape \(3,\), expected \(48,\)",
        ),
    ):
        copy = shutil.copytree(folder, tmp_path / message[:5])
        weights = copy / "transformer" / "diffusion_pytorch_model.safetensors"
        state = load_file(weights)
        change(state)
        save_file(state, weights)
        with pytest.raises(SightlineError, match=message):
            sl.load_pipeline(copy)


def test_pickles_and_missing_files_are_refused(folder, tmp_path):
    copy = shutil.copytree(folder, tmp_path / "copy")
    weights = copy / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.rename(weights.with_suffix(".bin"))
    with pytest.raises(SightlineError, match=r"in pickle files \(diffusion_pytorch_model\.bin\)"):
        sl.load_pipeline(copy)
    weights.with_suffix(".bin").unlink()
    with pytest.raises(SightlineError, match=r"transformer holds no \.safetensors file"):
        sl.load_pipeline(copy)


def test_other_cameras_and_options_are_refused(folder, tmp_path):
    with pytest.raises(SightlineError, match="which has a camera of its own: expected none"):
        _ = Model(ModelOptions(str(folder), tmp_path)).info  # before anything is loaded
    with pytest.raises(SightlineError, match="which has a camera of its own: expected none"):
        sl.load_pipeline(folder, camera=sl.Scope())
    with pytest.raises(SightlineError, match="vae is no option of load_pipeline"):
        sl.load_pipeline(folder, vae=None)
    with pytest.raises(SightlineError, match="model is a SanaWMTransformer3DModel: expected one of WanTransf"):
        sl.attach_camera(sl.load_pipeline(folder), sl.Scope())


def test_it_is_not_trained_here(folder):
    for load in (load_encoder, load_transformer):
        with pytest.raises(
            SightlineError, match=r"is a SanaWMPipeline, which has a camera of its own|is a 'SanaWMTransformer3D"
        ):
            load(folder)


def test_the_command_writes_a_video(folder, tmp_path):
    from sightline.cli import main

    output = tmp_path / "video"
    code = main(
        ["generate", "--model", str(folder), "--move", "pan right 20", "--num-frames", "9", "--size", "96x64",
         "--num-inference-steps", "2", "-o", str(output)]
    )  # fmt: skip
    assert code == 0
    settings = json.loads((output / "settings.json").read_text())
    assert settings["generated"]["num_frames"] == 9 and settings["generated"]["guidance_scale"] == 5.0


def test_the_studio_shows_its_latents(pipe):
    from sightline.studio.process import _latent_picture

    address = _latent_picture(pipe, torch.randn(1, 8, 2, 2, 3, generator=torch.Generator().manual_seed(0)))
    assert address is not None and address.startswith("data:image/")
