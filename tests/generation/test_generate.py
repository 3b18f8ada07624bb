"""Stock pipelines with a camera, end to end, on tiny models in the hub's own layout."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import WanImageToVideoPipeline, WanPipeline
from PIL import Image

import sightline as sl
from sightline.backbones.attach import save_pipeline_camera
from sightline.backbones.tiny import tiny_pipeline
from sightline.backbones.wan import CameraWanTransformer3DModel
from tests.conftest import smooth_trajectory, wake

KINDS = ["ti2v-5b", "i2v-a14b", "t2v-a14b"]
PICTURE = Image.fromarray((np.random.RandomState(0).rand(50, 90, 3) * 255).astype(np.uint8))


def picture_for(kind):
    return None if kind == "t2v-a14b" else PICTURE


def quiet(pipe):
    pipe.set_progress_bar_config(disable=True)
    return pipe


def generate(pipe, kind, trajectory=None, **options):
    return sl.generate(
        quiet(pipe), picture_for(kind), "a room", trajectory or smooth_trajectory(), num_inference_steps=2, **options
    )


@pytest.fixture(scope="module", params=KINDS)
def saved(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    tiny_pipeline(request.param).save_pretrained(folder)
    return request.param, folder


def awake(pipe):
    for name in ("transformer", "transformer_2"):
        if getattr(pipe, name, None) is not None:
            torch.manual_seed(len(name))
            wake(getattr(pipe, name))
    return pipe


def test_an_untrained_camera_generates_what_the_stock_pipeline_generates(saved):
    kind, folder = saved
    trajectory = smooth_trajectory()
    stock = quiet(sl.load_pipeline(folder))
    image = {} if kind == "t2v-a14b" else {"image": PICTURE.resize((64, 64))}
    call = {"prompt": "a room", "height": 64, "width": 64, "num_frames": 9, "num_inference_steps": 2, **image}
    expected = stock(**call, generator=torch.Generator().manual_seed(0), output_type="np").frames[0]
    with_camera = quiet(sl.load_pipeline(folder, camera=sl.Scope()))
    camera = {"camera": sl.camera_tokens(with_camera, trajectory)}
    video = with_camera(**call, generator=torch.Generator().manual_seed(0), output_type="np", attention_kwargs=camera)
    assert np.array_equal(video.frames[0], expected)


def test_a_trained_camera_changes_the_video_and_another_trajectory_changes_it_again(saved):
    kind, folder = saved
    pipe = awake(sl.load_pipeline(folder, camera=sl.Scope()))
    video = generate(pipe, kind)
    assert video.shape == (9, 64, 64, 3) and video.dtype == np.uint8
    assert np.array_equal(generate(pipe, kind), video)  # same seed, same bytes
    assert not np.array_equal(generate(pipe, kind, smooth_trajectory().reversed()), video)
    assert not np.array_equal(generate(pipe, kind, seed=1), video)


def test_both_experts_get_the_camera(saved):
    kind, folder = saved
    pipe = sl.load_pipeline(folder, camera=sl.Scope())
    experts = [pipe.transformer] if kind == "ti2v-5b" else [pipe.transformer, pipe.transformer_2]
    called = []
    for expert in experts:
        assert isinstance(expert, CameraWanTransformer3DModel)
        expert.encoding_layers[0].register_forward_hook(lambda module, _a, _o: called.append(id(module)))
    quiet(pipe)
    sl.generate(pipe, picture_for(kind), "a room", smooth_trajectory(), num_inference_steps=6)
    assert set(called) == {id(expert.encoding_layers[0]) for expert in experts}


def test_a_saved_pipeline_comes_back_with_its_camera(saved, tmp_path):
    kind, folder = saved
    pipe = awake(sl.load_pipeline(folder, camera=sl.Scope(gate_hidden=4)))
    pipe.save_pretrained(tmp_path)
    again = sl.load_pipeline(tmp_path)
    assert again.transformer.encoding == sl.Scope(gate_hidden=4)
    difference = generate(again, kind).astype(int) - generate(pipe, kind)
    assert np.abs(difference).max() <= 1  # the rounding of weights mapped from a file


def test_camera_weights_load_from_files_and_from_folders(saved, tmp_path):
    kind, folder = saved
    pipe = awake(sl.load_pipeline(folder, camera=sl.Scope()))
    expected = generate(pipe, kind).astype(int)
    save_pipeline_camera(pipe, tmp_path / "files")
    for name in ("transformer", "transformer_2"):
        if getattr(pipe, name, None) is not None:
            getattr(pipe, name).save_pretrained(tmp_path / "folders" / name)
    for camera in (tmp_path / "files", tmp_path / "folders"):
        loaded = sl.load_pipeline(folder, camera=camera)
        assert np.abs(generate(loaded, kind) - expected).max() <= 1
    if kind == "ti2v-5b":  # with one expert its own file or folder will do
        assert sl.load_pipeline(folder, camera=tmp_path / "files" / "transformer.safetensors")
        assert sl.load_pipeline(folder, camera=tmp_path / "folders" / "transformer")


@pytest.fixture(scope="module")
def pipe():
    return quiet(sl.attach_camera(tiny_pipeline(), sl.Scope()))


def test_ti2v_generates_with_and_without_a_first_frame(pipe):
    assert generate(pipe, "t2v-a14b").shape == generate(pipe, "ti2v-5b").shape == (9, 64, 64, 3)
    assert isinstance(pipe, WanImageToVideoPipeline)
    text_to_video = WanPipeline(**{k: v for k, v in pipe.components.items() if "image" not in k}, expand_timesteps=True)
    assert np.array_equal(generate(text_to_video, "ti2v-5b"), generate(pipe, "ti2v-5b"))


def test_every_option_reaches_the_pipeline(pipe, monkeypatch):
    calls = []
    run = type(pipe).__call__
    monkeypatch.setattr(type(pipe), "__call__", lambda self, **call: calls.append(call) or run(self, **call))
    trajectory = smooth_trajectory()
    options = {
        "negative_prompt": "blur",
        "num_inference_steps": 1,
        "guidance_scale": 2.5,
        "anchor": 8,
        "latent_pose": "first",
    }
    sl.generate(pipe, PICTURE, "a room", trajectory, **options, max_sequence_length=64)
    call = calls[0]
    assert (call["negative_prompt"], call["num_inference_steps"], call["guidance_scale"]) == ("blur", 1, 2.5)
    assert (call["num_frames"], call["width"], call["height"], call["max_sequence_length"]) == (9, 64, 64, 64)
    expected = sl.CameraTokens.from_trajectory(trajectory, (3, 2, 2), anchor=8, latent_pose="first")
    assert torch.equal(call["attention_kwargs"]["camera"].rows, expected.rows)


def test_camera_guidance_changes_the_video_and_one_does_not(saved):
    kind, folder = saved
    pipe = awake(sl.load_pipeline(folder, camera=sl.Scope()))
    plain = generate(pipe, kind)
    assert np.array_equal(generate(pipe, kind, camera_guidance_scale=1.0), plain)
    assert not np.array_equal(generate(pipe, kind, camera_guidance_scale=3.0), plain)


def test_the_vae_stays_in_float32(tmp_path):
    tiny_pipeline().save_pretrained(tmp_path)
    loaded = sl.load_pipeline(tmp_path, camera=sl.Scope(), dtype=torch.bfloat16)
    assert loaded.vae.dtype == torch.float32 and loaded.transformer.dtype == torch.bfloat16
    assert {parameter.dtype for parameter in loaded.transformer.camera_parameters()} == {torch.float32}


def test_bad_arguments_are_one_sentence(pipe):
    trajectory = smooth_trajectory()
    cases = [
        ((pipe.transformer, PICTURE, "", trajectory), {}, "pipe is a CameraWan"),
        ((pipe, PICTURE, "", None), {}, "trajectory is a NoneType"),
        ((pipe, PICTURE, ["a", "b"], trajectory), {}, "prompt is a list"),
        ((pipe, PICTURE, "", trajectory), {"num_inference_steps": 0}, "num_inference_steps is 0"),
        ((pipe, PICTURE, "", trajectory), {"seed": "a"}, "seed is 'a'"),
        ((pipe, PICTURE, "", trajectory), {"camera_guidance_scale": float("nan")}, "camera_guidance_scale is nan"),
        ((pipe, PICTURE, "", trajectory), {"height": 64}, "height is set by generate"),
        ((pipe, np.zeros((3, 64, 64)), "", trajectory), {}, "image has shape"),
    ]
    for arguments, options, sentence in cases:
        with pytest.raises(sl.SightlineError, match=sentence):
            sl.generate(*arguments, **options)
    for camera in (3, None, sl.Scope):
        with pytest.raises(sl.SightlineError, match="camera is"):
            sl.attach_camera(tiny_pipeline(), camera)
    with pytest.raises(sl.SightlineError, match="pipe is a"):
        sl.attach_camera(pipe.transformer, sl.Scope())


def test_attaching_changes_both_experts_or_none(tmp_path):
    two = sl.attach_camera(tiny_pipeline("i2v-a14b"), sl.Scope())
    sl.save_pipeline_camera(two, tmp_path)
    (tmp_path / "transformer_2.safetensors").unlink()
    pipe = tiny_pipeline("i2v-a14b")
    with pytest.raises(sl.SightlineError, match="no weights for 'transformer_2'"):
        sl.attach_camera(pipe, tmp_path)
    assert not isinstance(pipe.transformer, CameraWanTransformer3DModel)


def test_exchanged_experts_are_refused(tmp_path):
    two = sl.attach_camera(tiny_pipeline("i2v-a14b"), sl.Scope())
    two.transformer.save_pretrained(tmp_path / "transformer_2")
    two.transformer_2.save_pretrained(tmp_path / "transformer")
    with pytest.raises(sl.SightlineError, match="was trained for 'transformer_2': expected 'transformer'"):
        sl.attach_camera(tiny_pipeline("i2v-a14b"), tmp_path)


def test_first_frames_come_as_files_pictures_and_arrays(pipe, tmp_path):
    PICTURE.save(tmp_path / "first.png")
    trajectory = smooth_trajectory()
    videos = [
        sl.generate(pipe, image, "", trajectory, num_inference_steps=1)
        for image in (tmp_path / "first.png", PICTURE, np.asarray(PICTURE))
    ]
    assert np.array_equal(videos[0], videos[1]) and np.array_equal(videos[0], videos[2])


@pytest.mark.parametrize(
    "frames, width, height, sentence",
    [
        (8, 64, 64, r"8 frames: expected 4n \+ 1, the nearest is 9 \(trajectory\.resampled\(9\)\)"),
        (9, 70, 64, r"70x64: expected multiples of 32x32, the nearest is 64x64 \(trajectory\.fit_to\(64, 64\)\)"),
        (9, 64, 10, "the nearest is 64x32"),
    ],
)
def test_trajectories_that_do_not_fit_the_model_say_what_does(pipe, frames, width, height, sentence):
    with pytest.raises(sl.SightlineError, match=sentence):
        sl.generate(pipe, PICTURE, "", smooth_trajectory(frames, width, height))


def test_a_pipeline_without_a_camera_is_refused_unless_it_is_blind():
    trajectory, stock = smooth_trajectory(), tiny_pipeline()
    with pytest.raises(sl.SightlineError, match="WanTransformer3DModel, which takes no camera"):
        sl.generate(stock, PICTURE, "", trajectory)
    with pytest.raises(sl.SightlineError, match="camera_guidance_scale is given with blind"):
        sl.generate(stock, PICTURE, "", trajectory, camera_guidance_scale=2.0, blind=True)
    blind = sl.generate(stock, PICTURE, "", trajectory, num_inference_steps=1, blind=True)
    with_camera = awake(sl.attach_camera(tiny_pipeline(), sl.Scope()))
    assert np.array_equal(sl.generate(with_camera, PICTURE, "", trajectory, num_inference_steps=1, blind=True), blind)
    assert not np.array_equal(sl.generate(with_camera, PICTURE, "", trajectory, num_inference_steps=1), blind)


def test_models_that_want_or_cannot_use_a_first_frame_say_so():
    with pytest.raises(sl.SightlineError, match="image is missing"):
        sl.generate(sl.attach_camera(tiny_pipeline("i2v-a14b"), sl.Scope()), None, "", smooth_trajectory())
    with pytest.raises(sl.SightlineError, match="text-to-video only"):
        sl.generate(sl.attach_camera(tiny_pipeline("t2v-a14b"), sl.Scope()), PICTURE, "", smooth_trajectory())


def test_pictures_that_are_none_are_one_sentence(pipe, tmp_path):
    with pytest.raises(sl.SightlineError, match=r"nope\.png does not exist"):
        sl.generate(pipe, tmp_path / "nope.png", "", smooth_trajectory())
    (tmp_path / "text.png").write_text("not a picture")
    with pytest.raises(sl.SightlineError, match=r"text\.png cannot be read"):
        sl.generate(pipe, tmp_path / "text.png", "", smooth_trajectory())


def test_models_and_cameras_that_cannot_be_loaded_are_one_sentence(tmp_path):
    tiny_pipeline().save_pretrained(tmp_path / "model")
    two_experts = tmp_path / "two"
    tiny_pipeline("i2v-a14b").save_pretrained(two_experts)
    (tmp_path / "text").write_text("no weights")
    save_pipeline_camera(sl.attach_camera(tiny_pipeline(), sl.Scope()), tmp_path / "camera")
    cases = [
        ((tmp_path / "nope",), "cannot be loaded"),
        ((tmp_path / "model", tmp_path / "nope"), "nope does not exist"),
        ((tmp_path / "model", tmp_path / "text"), "holds no camera weights"),
        ((tmp_path / "model", tmp_path / "model" / "transformer"), "without a camera"),
        ((tmp_path / "model", tmp_path / "model" / "vae"), "without a camera"),
        ((two_experts, tmp_path / "camera"), "in_channels 48: this model has 36"),
        ((two_experts, tmp_path / "camera" / "transformer.safetensors"), "two experts"),
    ]
    for arguments, sentence in cases:
        with pytest.raises(sl.SightlineError, match=sentence) as caught:
            sl.load_pipeline(*arguments)
        assert "\n" not in str(caught.value), arguments


def test_a_fine_tuned_folder_for_another_backbone_is_refused(tmp_path):
    tiny_pipeline("t2v-a14b").save_pretrained(tmp_path / "model")
    other = sl.attach_camera(tiny_pipeline("i2v-a14b"), sl.Scope())
    for name in ("transformer", "transformer_2"):
        getattr(other, name).save_pretrained(tmp_path / "camera" / name)
    with pytest.raises(sl.SightlineError, match="backbone with in_channels 36: this model has 16"):
        sl.load_pipeline(tmp_path / "model", camera=tmp_path / "camera")
