"""The other transformers of Wan's form: Wan 2.1, VACE and SkyReels V2. Equal to the stock model where they must be."""

from __future__ import annotations

import inspect

import diffusers
import numpy as np
import pytest
import torch
from PIL import Image

from sightline.backbones.attach import attach_camera, save_pipeline_camera
from sightline.backbones.camera_weights import load_camera, save_camera
from sightline.backbones.families import SKYREELS_V2_DF
from sightline.backbones.models import add_camera
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.backbones.wan import CameraSkyReelsV2Transformer3DModel, CameraWanVACETransformer3DModel
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import CameraCtrl, FreqSplit, Prope, Scope, Sweep
from sightline.errors import SightlineError
from sightline.generation.generate import camera_tokens, generate
from tests.conftest import TOLERANCE, check_gradient_checkpointing, model_inputs, smooth_trajectory, wake

KINDS = ["wan2.1-t2v", "wan2.1-i2v", "vace", "skyreels-v2-t2v", "skyreels-v2-i2v", "skyreels-v2-df"]
TAKES_IMAGE = ["wan2.1-i2v", "vace", "skyreels-v2-i2v", "skyreels-v2-df"]
TAKES_TEXT = ["wan2.1-t2v", "vace", "skyreels-v2-t2v", "skyreels-v2-df"]


def inputs_of(model, kind, batch=1):
    """The inputs of the model as its pipeline gives them."""
    inputs = model_inputs(model, batch=batch)
    dtype = inputs["hidden_states"].dtype
    generator = torch.Generator().manual_seed(5)
    if kind.endswith("i2v"):  # their cross-attention counts on 512 text tokens behind those of the image
        text = torch.randn(batch, 512, model.config.text_dim, generator=generator).to(dtype)
        image = torch.randn(batch, 5, model.config.image_dim, generator=generator).to(dtype)
        inputs |= {"encoder_hidden_states": text, "encoder_hidden_states_image": image}
    if kind == "vace":
        control = torch.randn(batch, model.config.vace_in_channels, 3, 8, 8, generator=generator).to(dtype)
        inputs |= {"control_hidden_states": control, "control_hidden_states_scale": torch.tensor([1.0, 0.5])}
    if kind == "skyreels-v2-df":
        timestep = torch.tensor([[0.0, 500.0, 900.0]]).repeat(batch, 1)
        inputs |= {"timestep": timestep, "enable_diffusion_forcing": True, "fps": [1] * batch}
    return inputs


@torch.no_grad()
def run(model, inputs, camera=None, **more):
    kwargs = {} if camera is None else {"attention_kwargs": {"camera": camera, **more}}
    return model(**inputs, **kwargs, return_dict=False)[0]


def small_trajectory(frames=5):
    return smooth_trajectory(frames, 32, 32)


def make(pipe, kind, **options):
    image = Image.fromarray(np.full((32, 32, 3), 90, np.uint8)) if kind in TAKES_IMAGE else None
    pipe.set_progress_bar_config(disable=True)
    trajectory = options.pop("trajectory", small_trajectory())
    return generate(pipe, image, "a room", trajectory, num_inference_steps=2, guidance_scale=2.0, **options)


# -- the transformer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_retrofit_starts_as_the_stock_model_and_is_it_without_a_camera(kind, dtype, tokens):
    base = tiny_transformer(kind).to(dtype)
    inputs = inputs_of(base, kind)
    expected = run(base, inputs)
    model = add_camera(base, Scope())
    assert torch.equal(run(model, inputs, tokens), expected)
    assert torch.equal(run(model, inputs), expected)
    wake(model)
    assert torch.equal(run(model, inputs), expected)
    assert torch.equal(run(model, inputs, CameraTokens.absent((3, 4, 4))), expected)
    assert (run(model, inputs, tokens) - expected).abs().max() > 1e-3
    assert expected.isfinite().all() and expected.std() > 0.01


@pytest.mark.parametrize("encoding", [Sweep(), Prope("own"), FreqSplit(), CameraCtrl(pixels=16)], ids=lambda e: e.name)
@pytest.mark.parametrize("kind", ["vace", "skyreels-v2-df"])
def test_every_kind_of_encoding_starts_as_the_stock_model(kind, encoding, tokens):
    with_heads_of_24 = {**tiny_transformer(kind).config, "attention_head_dim": 24}
    base = type(tiny_transformer(kind)).from_config(with_heads_of_24).eval()
    inputs = inputs_of(base, kind)
    model = add_camera(base, encoding)
    starts_equal = not isinstance(encoding, FreqSplit)  # which replaces slow channels of RoPE
    assert torch.equal(run(model, inputs, tokens), run(base, inputs)) == starts_equal
    assert torch.equal(run(model, inputs), run(base, inputs))
    assert not torch.equal(run(wake(model), inputs, tokens), run(base, inputs))


@pytest.mark.parametrize("kind", KINDS)
def test_camera_guidance_is_the_difference_of_two_passes(kind, tokens):
    model = wake(add_camera(tiny_transformer(kind), Scope()))
    inputs = inputs_of(model, kind, batch=2)
    with_camera, without = run(model, inputs, tokens), run(model, inputs)
    guided = run(model, inputs, tokens, camera_guidance_scale=1.5)
    assert torch.allclose(guided, without + 1.5 * (with_camera - without), atol=1e-5)


@pytest.mark.parametrize("kind", ["wan2.1-i2v", "vace", "skyreels-v2-df"])
def test_camera_weights_and_whole_models_are_saved_and_loaded(kind, tokens, tmp_path):
    base = tiny_transformer(kind)
    model = wake(add_camera(base, Scope()))
    inputs = inputs_of(base, kind)
    expected = run(model, inputs, tokens)
    save_camera(model, tmp_path / "camera.safetensors")
    assert torch.equal(run(load_camera(base, tmp_path / "camera.safetensors"), inputs, tokens), expected)
    model.save_pretrained(tmp_path / "whole")
    again = type(model).from_pretrained(tmp_path / "whole").eval()
    assert torch.allclose(run(again, inputs, tokens), expected, atol=TOLERANCE[torch.float32])


@pytest.mark.parametrize("kind", ["vace", "skyreels-v2-df"])
def test_gradient_checkpointing_gives_the_same_gradients(kind, tokens):
    model = wake(add_camera(tiny_transformer(kind), Scope())).train()
    check_gradient_checkpointing(model, inputs_of(model, kind), tokens)


def test_camera_weights_of_wan_2_1_fit_vace_whose_blocks_are_those_of_wan(tokens, tmp_path):
    save_camera(wake(add_camera(tiny_transformer("wan2.1-t2v"), Scope())), tmp_path / "camera.safetensors")
    model = load_camera(tiny_transformer("vace"), tmp_path / "camera.safetensors")
    assert isinstance(model, CameraWanVACETransformer3DModel)
    inputs = inputs_of(model, "vace")
    assert (run(model, inputs, tokens) - run(model, inputs)).abs().max() > 1e-3


def test_reference_frames_of_vace_have_no_camera(tokens):
    """VACE puts its reference images before the video, as latent frames."""
    model = wake(add_camera(tiny_transformer("vace"), Scope()))
    inputs = inputs_of(model, "vace")
    longer = {
        name: torch.cat([value, value[:, :, :1]], dim=2) if value.ndim == 5 else value for name, value in inputs.items()
    }
    absent = CameraTokens.absent((1, 4, 4))
    padded = CameraTokens(torch.cat([absent.rows, tokens.rows], dim=1), (4, 4, 4))
    assert torch.equal(run(model, longer, tokens), run(model, longer, padded))
    with pytest.raises(SightlineError, match="expected"):
        run(model, inputs, padded)


def test_the_causal_mask_of_diffusion_forcing_holds_with_a_camera(tokens):
    """With one latent frame per causal block, no frame sees a later one."""
    base = tiny_transformer("skyreels-v2-df")
    model = wake(add_camera(base, Scope()))
    inputs = inputs_of(model, "skyreels-v2-df")
    inputs["hidden_states"] = torch.cat([inputs["hidden_states"]] * 2, dim=2)[:, :, :4]
    inputs["timestep"] = torch.tensor([[100.0, 100.0, 900.0, 900.0]])
    camera = CameraTokens.from_trajectory(smooth_trajectory(13), (4, 4, 4))
    model._set_ar_attention(2)
    later = {**inputs, "hidden_states": inputs["hidden_states"].clone()}
    later["hidden_states"][:, :, 2:] += 1.0
    before, after = run(model, inputs, camera), run(model, later, camera)
    assert torch.equal(before[:, :, :2], after[:, :, :2]) and not torch.equal(before[:, :, 2:], after[:, :, 2:])
    assert isinstance(model, CameraSkyReelsV2Transformer3DModel)


# -- the pipeline ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_a_pipeline_generates_along_a_trajectory_and_starts_as_the_stock_one(kind, tmp_path):
    stock = make(tiny_pipeline(kind), kind, blind=True)
    pipe = attach_camera(tiny_pipeline(kind), Scope())
    assert stock.shape == (5, 32, 32, 3)
    assert np.array_equal(make(pipe, kind), stock)
    wake(pipe.transformer, alpha=3.0)
    moved = make(pipe, kind)
    assert not np.array_equal(moved, stock)
    assert np.array_equal(make(pipe, kind, blind=True), stock)
    save_pipeline_camera(pipe, tmp_path / "camera")
    loaded = load_pipeline(f"tiny:{kind}", tmp_path / "camera", device="cpu")
    assert np.array_equal(make(loaded, kind), moved)


@pytest.mark.parametrize("kind", ["vace", "skyreels-v2-df"])
def test_a_saved_pipeline_is_loaded_with_its_family(kind, tmp_path):
    pipe = tiny_pipeline(kind)
    pipe.save_pretrained(tmp_path / "model")
    loaded = load_pipeline(tmp_path / "model", Scope(), device="cpu")
    assert type(loaded) is type(pipe) and loaded.vae.dtype == torch.float32
    assert np.array_equal(make(loaded, kind), make(pipe, kind, blind=True))


@pytest.mark.parametrize("kind", KINDS)
def test_a_model_says_which_input_it_takes(kind):
    pipe = attach_camera(tiny_pipeline(kind), Scope())
    if kind not in TAKES_IMAGE:
        with pytest.raises(SightlineError, match="text-to-video only"):
            generate(pipe, np.zeros((32, 32, 3), np.uint8), "a room", small_trajectory())
    if kind not in TAKES_TEXT:
        with pytest.raises(SightlineError, match="image-to-video only"):
            generate(pipe, None, "a room", small_trajectory())


def test_diffusion_forcing_generates_frame_by_frame_with_the_camera_of_each():
    pipe = attach_camera(tiny_pipeline("skyreels-v2-df"), Scope())
    wake(pipe.transformer, alpha=3.0)
    kind, options = "skyreels-v2-df", {"ar_step": 1, "causal_block_size": 1}
    assert not np.array_equal(make(pipe, kind, **options), make(pipe, kind, blind=True, **options))


def test_a_video_in_several_windows_is_refused():
    pipe = attach_camera(tiny_pipeline("skyreels-v2-df"), Scope())
    with pytest.raises(SightlineError, match="has 9 frames, more than base_num_frames 5"):
        make(pipe, "skyreels-v2-df", trajectory=small_trajectory(9), base_num_frames=5, overlap_history=1)


def test_the_window_is_that_of_the_pipelines():
    for name in SKYREELS_V2_DF.pipelines:
        default = inspect.signature(getattr(diffusers, name).__call__).parameters["base_num_frames"].default
        assert default == SKYREELS_V2_DF.window


def test_vace_takes_its_own_control_beside_the_camera():
    pipe = attach_camera(tiny_pipeline("vace"), Scope())
    wake(pipe.transformer, alpha=3.0)
    picture = Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8))
    control = {"video": [picture] * 5, "reference_images": [picture]}
    pipe.set_progress_bar_config(disable=True)
    film = [
        generate(pipe, None, "a room", small_trajectory(), num_inference_steps=2, blind=blind, **control)
        for blind in (False, True)
    ]
    assert film[0].shape == (5, 32, 32, 3) and not np.array_equal(*film)


def test_camera_tokens_lie_on_the_grid_of_the_model():
    pipe = attach_camera(tiny_pipeline("skyreels-v2-t2v"), Scope())
    assert tuple(camera_tokens(pipe, small_trajectory()).grid) == (2, 2, 2)
