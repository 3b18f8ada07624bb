"""LTX-2, the first backbone outside Wan: equal to the stock model where it must be; the camera reaches the video tokens alone."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import LTX2VideoTransformer3DModel
from PIL import Image

from sightline.backbones.attach import attach_camera, save_pipeline_camera
from sightline.backbones.camera_weights import load_camera, save_camera
from sightline.backbones.models import add_camera
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import CameraCtrl, FreqSplit, Prope, ReCamMaster, ReRope, Scope, Sweep, Ucpe
from sightline.errors import SightlineError
from sightline.generation.generate import camera_tokens, generate
from tests.conftest import TOLERANCE, check_gradient_checkpointing, smooth_trajectory, wake

FORMS = {  # LTX-2.0, and what later releases change in self-attention
    "split": {},
    "interleaved": {"rope_type": "interleaved"},
    "gated": {"gated_attn": True, "perturbed_attn": True, "cross_attn_mod": True, "audio_cross_attn_mod": True},
}


def base_of(form="split", **settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return LTX2VideoTransformer3DModel.from_config(
            {**tiny_transformer("ltx-2").config, **FORMS[form], **settings}
        ).eval()


def inputs_of(model, batch=1):
    """Latents of 2 frames on a 4 x 4 grid, sound, a prompt for both, and a time per video token, 0 in the first frame."""
    generator, config = torch.Generator().manual_seed(0), model.config

    def normal(*shape):
        return torch.randn(batch, *shape, generator=generator).to(model.dtype)

    timestep = torch.full((batch, 32), 897.0)
    timestep[:, :16] = 0.0
    return {
        "hidden_states": normal(32, config.in_channels),
        "audio_hidden_states": normal(5, config.audio_in_channels),
        "encoder_hidden_states": normal(8, config.caption_channels),
        "audio_encoder_hidden_states": normal(8, config.caption_channels),
        "timestep": timestep,
        "audio_timestep": torch.full((batch,), 897.0),
        "sigma": torch.full((batch,), 897.0),
        "num_frames": 2,
        "height": 4,
        "width": 4,
        "audio_num_frames": 5,
    }


@pytest.fixture
def tokens():
    return CameraTokens.from_trajectory(smooth_trajectory(9), (2, 4, 4), temporal_stride=8)


@torch.no_grad()
def run(model, inputs, camera=None, **more):
    """Video and sound."""
    kwargs = {} if camera is None else {"attention_kwargs": {"camera": camera, **more}}
    return model(**inputs, **kwargs, return_dict=False)


def equal(these, those):
    return all(torch.equal(*pair) for pair in zip(these, those, strict=True))


# -- the transformer -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("encoding", [Scope(), Sweep()], ids=["scope", "sweep"])
def test_the_retrofit_starts_as_the_stock_model_and_is_it_without_a_camera(encoding, form, dtype, tokens):
    base = base_of(form).to(dtype)
    inputs = inputs_of(base)
    expected = run(base, inputs)
    model = add_camera(base, encoding)
    assert equal(run(model, inputs, tokens), expected)
    assert equal(run(model, inputs), expected)
    wake(model)
    assert equal(run(model, inputs), expected)
    assert equal(run(model, inputs, CameraTokens.absent((2, 4, 4))), expected)
    video, sound = run(model, inputs, tokens)
    assert (video - expected[0]).abs().max() > 1e-3
    assert not torch.equal(sound, expected[1])  # it hears the video
    assert expected[0].isfinite().all() and expected[0].std() > 0.01


@pytest.mark.parametrize("mask", [None, torch.tensor([0.0, 1.0])], ids=["all clips", "one clip"])
def test_spatio_temporal_guidance_starts_as_the_stock_model_too(mask, tokens):
    base = base_of("gated")
    inputs = {**inputs_of(base, batch=2), "spatio_temporal_guidance_blocks": [1], "perturbation_mask": mask}
    model = add_camera(base, Scope())
    assert equal(run(model, inputs, tokens), run(base, inputs))
    assert not equal(run(wake(model), inputs, tokens), run(base, inputs))


def test_a_mask_of_self_attention_starts_as_the_stock_model_too(tokens):
    base = base_of()
    inputs = {**inputs_of(base), "video_self_attention_mask": torch.ones(1, 32, 32).tril()}
    model = add_camera(base, Scope())
    assert equal(run(model, inputs, tokens), run(base, inputs))
    assert not torch.equal(run(base, inputs)[0], run(base, inputs_of(base))[0])


def test_only_the_self_attention_of_video_tokens_has_a_camera(tokens):
    model = wake(add_camera(base_of(), Scope()))
    named = {name for name, _ in model.named_modules() if name.endswith("camera_encoding")}
    assert named == {f"transformer_blocks.{index}.attn1.camera_encoding" for index in range(2)}
    inputs = {**inputs_of(model), "isolate_modalities": True}
    assert torch.equal(run(model, inputs, tokens)[1], run(model, inputs)[1])  # sound apart from video: no camera


def test_what_is_added_is_added_after_rope(tokens):
    """Query and key of the first layer differ from the stock ones, after their RoPE, by what the encoding says."""
    base, seen = base_of(), {}
    model = wake(add_camera(base, Scope()))

    def remember(name):
        def attend(query, key, value, **_):
            seen.setdefault(name, (query, key))
            return query

        return attend

    from diffusers.models.transformers import transformer_ltx2 as theirs

    import sightline.backbones.attention as ours

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ours, "dispatch_attention_fn", remember("camera"))
        patch.setattr(theirs, "dispatch_attention_fn", remember("stock"))
        inputs = inputs_of(base)
        run(base, inputs)
        run(model, inputs, tokens)
    for (with_camera, stock), added in zip(
        zip(seen["camera"], seen["stock"], strict=True), model.encoding_layers[0].encode(tokens.rows), strict=True
    ):
        assert torch.allclose(with_camera - stock, added, atol=1e-5)


def test_camera_guidance_is_the_difference_of_two_passes(tokens):
    model = wake(add_camera(base_of("gated"), Scope()))
    inputs = inputs_of(model, batch=2)
    guided = run(model, inputs, tokens, camera_guidance_scale=1.5)
    for found, with_camera, without in zip(guided, run(model, inputs, tokens), run(model, inputs), strict=True):
        assert torch.allclose(found, without + 1.5 * (with_camera - without), atol=1e-5)


@pytest.mark.parametrize(
    "encoding",
    [Prope(), Prope("own"), Ucpe(ratio=2), ReCamMaster(), CameraCtrl(pixels=8), CameraCtrl("blocks", pixels=8)],
    ids=lambda e: e.name,
)
def test_other_encodings_start_as_the_stock_model(encoding, tokens):
    base = base_of()
    inputs = inputs_of(base)
    model = add_camera(base, encoding)
    assert equal(run(model, inputs, tokens), run(base, inputs))
    assert not equal(run(wake(model), inputs, tokens), run(base, inputs))


@pytest.mark.parametrize("encoding", [ReRope(), FreqSplit()], ids=lambda e: e.name)
def test_encodings_that_replace_wans_rope_are_refused(encoding):
    with pytest.raises(SightlineError, match="which changes the stage 'rotate' of a layer: expected one that changes"):
        add_camera(base_of(attention_head_dim=24, cross_attention_dim=48), encoding)


def test_camera_weights_and_whole_models_are_saved_and_loaded(tokens, tmp_path):
    base = base_of()
    model = wake(add_camera(base, Scope()))
    inputs = inputs_of(base)
    expected = run(model, inputs, tokens)
    save_camera(model, tmp_path / "camera.safetensors")
    assert equal(run(load_camera(base, tmp_path / "camera.safetensors"), inputs, tokens), expected)
    with pytest.raises(SightlineError, match="was trained on a backbone with"):
        load_camera(tiny_transformer(), tmp_path / "camera.safetensors")
    model.save_pretrained(tmp_path / "whole")
    again = run(type(model).from_pretrained(tmp_path / "whole").eval(), inputs, tokens)
    assert all(torch.allclose(*pair, atol=TOLERANCE[torch.float32]) for pair in zip(again, expected, strict=True))


def test_gradient_checkpointing_gives_the_same_gradients(tokens):
    model = wake(add_camera(base_of(), Scope())).train()
    check_gradient_checkpointing(model, inputs_of(model), tokens)


def test_a_camera_that_does_not_fit_is_one_sentence(tokens):
    model = add_camera(base_of(), Scope())
    inputs = inputs_of(model)
    with pytest.raises(SightlineError, match=r"on the grid \(3, 4, 4\): expected \(2, 4, 4\)"):
        run(model, inputs, CameraTokens.absent((3, 4, 4)))
    coords = model.rope.prepare_video_coords(1, 2, 4, 4, torch.device("cpu"))
    with pytest.raises(SightlineError, match="without num_frames, height and width"):
        run(model, {**inputs, "num_frames": None, "video_coords": coords}, tokens)


# -- the pipeline ----------------------------------------------------------------------------------------------------


def make(pipe, with_image=True, frames=9, **options):
    pipe.set_progress_bar_config(disable=True)
    image = Image.fromarray(np.full((64, 64, 3), 90, np.uint8)) if with_image else None
    settings = {"num_inference_steps": 2, "max_sequence_length": 16, **options}
    return generate(pipe, image, "a room", smooth_trajectory(frames, 64, 64), **settings)


@pytest.mark.parametrize("with_image", [True, False], ids=["image", "text"])
def test_a_pipeline_generates_along_a_trajectory_and_starts_as_the_stock_one(with_image, tmp_path):
    stock = make(tiny_pipeline("ltx-2"), with_image, blind=True)
    pipe = attach_camera(tiny_pipeline("ltx-2"), Scope())
    assert stock.shape == (9, 64, 64, 3)
    assert np.array_equal(make(pipe, with_image), stock)
    wake(pipe.transformer, alpha=3.0)
    moved = make(pipe, with_image)
    assert not np.array_equal(moved, stock)
    assert np.array_equal(make(pipe, with_image, blind=True), stock)
    save_pipeline_camera(pipe, tmp_path / "camera")
    loaded = load_pipeline("tiny:ltx-2", tmp_path / "camera", device="cpu")
    assert np.array_equal(make(loaded, with_image), moved)


def test_a_saved_pipeline_is_loaded_with_its_family(tmp_path):
    pipe = tiny_pipeline("ltx-2")
    pipe.save_pretrained(tmp_path / "model")
    loaded = load_pipeline(tmp_path / "model", Scope(), device="cpu")
    assert type(loaded) is type(pipe)
    assert np.array_equal(make(loaded), make(pipe, blind=True))


def test_camera_tokens_have_the_strides_of_the_model():
    pipe = attach_camera(tiny_pipeline("ltx-2"), Scope())
    assert tuple(camera_tokens(pipe, smooth_trajectory(17, 96, 64)).grid) == (3, 2, 3)
    with pytest.raises(SightlineError, match="has 13 frames: expected 8n"):
        make(pipe, frames=13)
