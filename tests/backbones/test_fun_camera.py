"""Fun-Control-Camera: the released layout becomes a model that computes what the release computes, or is refused by name."""

from __future__ import annotations

import json

import pytest
import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers
from safetensors.torch import save_file

from sightline.backbones.attach import attach_camera
from sightline.backbones.fun_camera import FunCamera
from sightline.backbones.fun_pipeline import FunCameraPipeline
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.released import read_released
from sightline.backbones.tiny import tiny_pipeline
from sightline.backbones.wan_configs import FUN_5B, I2V_A14B, TI2V_5B
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from sightline.generation.memory import estimate
from sightline.generation.model import Model, ModelOptions
from tests.backbones import releases
from tests.conftest import TOLERANCE

KINDS = ("5b", "a14b", "2.1")
BASES = {"5b": "tiny:ti2v-5b", "a14b": "tiny:i2v-a14b"}
WIDTH, HEIGHT, FRAMES = 128, 96, 9


def trajectory():
    options = {"frames": FRAMES, "width": WIDTH, "height": HEIGHT}
    return moves.orbit(30, **options).combine(moves.zoom(28, 40, **options))


def plucker_picture(path):  # -> [24, t, H, W], as VideoX-Fun lays out its control picture
    """(o x d, d) of every pixel, channels (coordinate, frame of four), written from the definition."""
    y, x = torch.meshgrid(torch.arange(HEIGHT) + 0.5, torch.arange(WIDTH) + 0.5, indexing="ij")
    poses = torch.linalg.inv(path.camera_to_world[0]) @ path.camera_to_world
    pictures = []
    for pose, k in zip(poses, path.intrinsics, strict=True):
        seen = torch.stack([(x - k[0, 2]) / k[0, 0], (y - k[1, 2]) / k[1, 1], torch.ones_like(x)], dim=-1)
        direction = F.normalize(seen.double(), dim=-1) @ pose[:3, :3].T
        moment = torch.linalg.cross(pose[:3, 3].expand_as(direction), direction)
        pictures.append(torch.cat([moment, direction], dim=-1).movedim(-1, 0))
    frames = torch.stack([pictures[0]] * 3 + pictures)  # [4 t, 6, H, W]
    return frames.unflatten(0, (-1, 4)).transpose(1, 2).flatten(1, 2).transpose(0, 1).float()


def reference(kind, state, hidden, timestep, text, image, path):
    """diffusers' stock model under diffusers' own renaming, with the adapter's convolutions on its patch embedding."""
    adapter = {name.removeprefix("control_adapter."): state.pop(name) for name in list(state) if "adapter" in name}
    has_image = kind == "2.1"
    model = WanTransformer3DModel(
        num_attention_heads=releases.HEADS, attention_head_dim=releases.DIM // releases.HEADS, ffn_dim=releases.FFN,
        in_channels=releases.IN_CHANNELS[kind], out_channels=releases.CHANNELS[kind], text_dim=releases.TEXT,
        freq_dim=releases.FREQ, num_layers=releases.LAYERS, image_dim=releases.CLIP if has_image else None,
        added_kv_proj_dim=releases.DIM if has_image else None,
    )  # fmt: skip
    model.load_state_dict(convert_wan_transformer_to_diffusers(state))
    picture = F.pixel_unshuffle(plucker_picture(path).transpose(0, 1), releases.UNSHUFFLE[kind])
    features = F.conv2d(picture, adapter["conv.weight"], adapter["conv.bias"], stride=2)
    block = [adapter[f"residual_blocks.0.conv{n}.{part}"] for n in (1, 2) for part in ("weight", "bias")]
    features = features + F.conv2d(F.conv2d(features, *block[:2], padding=1).relu(), *block[2:], padding=1)
    model.patch_embedding.register_forward_hook(lambda *args: args[2] + features.transpose(0, 1)[None])
    with torch.no_grad():
        return model.eval()(hidden, timestep, text, image, return_dict=False)[0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_forward_pass_is_the_releases(kind, tmp_path):
    state = releases.fun_state(kind)
    release = FunCamera.read(releases.write(tmp_path, state))
    model = release.load("transformer", torch.float32)
    side = releases.UNSHUFFLE[kind]
    grid = TokenGrid(3, HEIGHT // side // 2, WIDTH // side // 2)
    generator = torch.Generator().manual_seed(3)

    def normal(*shape):
        return torch.randn(*shape, generator=generator)

    hidden = normal(1, releases.IN_CHANNELS[kind], 3, HEIGHT // side, WIDTH // side)
    text, image = normal(1, 512, releases.TEXT), normal(1, 5, releases.CLIP) if kind == "2.1" else None
    timestep = torch.tensor([700.0])
    if kind == "5b":
        timestep = timestep.repeat(1, grid.num_tokens)
        timestep[:, : grid.tokens_per_frame] = 0
    tokens = CameraTokens.from_trajectory(trajectory(), grid)
    with torch.no_grad():
        found = model(hidden, timestep, text, image, attention_kwargs={"camera": tokens}, return_dict=False)[0]
    expected = reference(kind, state, hidden, timestep, text, image, trajectory())
    assert (found - expected).abs().max() < 10 * TOLERANCE[torch.float32] * expected.abs().max()


def test_the_experts_are_told_apart_by_their_noise(tmp_path):
    release = FunCamera.read(releases.write_fun(tmp_path, "a14b"))
    bias = releases.fun_state("a14b", seed=1)["patch_embedding.bias"]  # of high_noise_model
    assert torch.equal(release.load("transformer", torch.float32).patch_embedding.bias, bias)
    assert not torch.equal(release.load("transformer_2", torch.float32).patch_embedding.bias, bias)


def test_two_comfyui_files_are_two_experts(tmp_path):
    """The folder that holds them alone, or one of them where there are more."""
    names = [tmp_path / f"wan2.2_fun_camera_{noise}_noise_14B_bf16.safetensors" for noise in ("high", "low")]
    for seed, file in enumerate(names, start=1):
        state = {f"model.diffusion_model.{name}": tensor for name, tensor in releases.fun_state("a14b", seed).items()}
        save_file(state, file)
    for camera in (tmp_path, *names):
        release = read_released(camera)
        assert [weights.source for weights in release.weights.values()] == names
    for component, seed in (("transformer", 1), ("transformer_2", 2)):
        bias = releases.fun_state("a14b", seed)["patch_embedding.bias"]
        assert torch.equal(release.load(component, torch.float32).patch_embedding.bias, bias)
    options, kept = ModelOptions("tiny:i2v-a14b", names[0]), names[1].read_bytes()
    digests = Model(options).files
    save_file(releases.fun_state("a14b", 3), names[1])
    assert Model(options).files != digests  # the counterpart counts, whichever file is named
    names[1].write_bytes(kept)
    save_file(releases.fun_state("a14b"), tmp_path / "another_high_noise.safetensors")
    with pytest.raises(SightlineError, match=r"holds 2 files of experts, such as another_high_noise\.safetensors"):
        read_released(tmp_path)
    with pytest.raises(SightlineError, match=r"lacks another_low_noise\.safetensors, the other expert"):
        read_released(tmp_path / "another_high_noise.safetensors")


def test_each_release_has_its_own_defaults():
    """The steps and guidance of VideoX-Fun's and DreamX-World's examples, at the width of the releases."""
    fun, dreamx = {"name": "cameractrl", "pinhole": True}, {"name": "prope", "lens": [0.5, 0.9]}
    for config, encoding, steps, guidance in (
        (I2V_A14B, fun, 50, 6.0),
        (I2V_A14B, {"name": "scope"}, 40, 3.5),
        (FUN_5B, fun, 50, 6.0),
        (TI2V_5B, dreamx, 50, 3.0),
    ):
        experts = {
            name: {**part, "encoding": encoding} for name, part in config.components().items() if "transf" in name
        }
        defaults = ModelInfo.from_configs({**config.components(), **experts}).defaults
        assert (defaults.num_inference_steps, defaults.guidance_scale) == (steps, guidance)


def test_shards_and_comfyui_files_hold_the_same_model(tmp_path):
    state = releases.fun_state("5b")
    whole = FunCamera.read(releases.write(tmp_path / "whole", state))
    releases.shard(releases.write(tmp_path / "shards", state))
    shards = FunCamera.read(tmp_path / "shards")
    assert shards.configs == whole.configs
    packed = tmp_path / "packed.safetensors"
    save_file({f"model.diffusion_model.{name}": tensor for name, tensor in state.items()}, packed)
    assert FunCamera.read(packed).weights["transformer"].shapes == whole.weights["transformer"].shapes
    for one, other in zip(*(r.load("transformer", torch.float32).parameters() for r in (shards, whole)), strict=True):
        assert torch.equal(one, other)


def test_weights_in_bfloat16_keep_the_camera_in_float32(tmp_path):
    model = FunCamera.read(releases.write_fun(tmp_path, "5b")).load("transformer", torch.bfloat16)
    assert model.blocks[0].attn1.camera_encoding.patch_weight.dtype == torch.float32
    assert model.blocks[0].attn1.to_q.weight.dtype == torch.bfloat16
    assert model.condition_embedder.time_embedder.linear_1.weight.dtype == torch.float32


@pytest.mark.parametrize("kind", BASES)
def test_a_video_is_generated_with_a_release(kind, tmp_path):
    pipe = load_pipeline(BASES[kind], camera=releases.write_fun(tmp_path, kind))
    assert isinstance(pipe, FunCameraPipeline)
    videos = [generate_with(pipe, move) for move in (moves.pan(20, **size()), moves.pan(-20, **size()))]
    assert videos[0].shape == (5, 64, 64, 3)
    assert (videos[0] != videos[1]).any()  # the camera is heard
    with pytest.raises(SightlineError, match=r"image is missing: .* image-to-video only"):
        generate(pipe, None, "a room", moves.pan(20, **size()), num_inference_steps=1)
    with pytest.raises(SightlineError, match=r"lens with xi 0.5: expected a pinhole camera"):
        generate_with(pipe, moves.pan(20, **size()).replace(xi=0.5))


def size():
    return {"frames": 5, "width": 64, "height": 64}


def generate_with(pipe, path):
    return generate(pipe, torch.full((64, 64, 3), 0.5).numpy(), "a room", path, num_inference_steps=2)


def test_wan_2_1_is_loaded_from_a_saved_pipeline_without_its_transformer(tmp_path):
    saved = save_wan_2_1(tmp_path / "base")
    weights = saved / "transformer" / "diffusion_pytorch_model.safetensors"
    weights.write_bytes(b"")  # the base's own transformer is not read
    pipe = load_pipeline(saved, camera=releases.write_fun(tmp_path / "camera", "2.1"))
    assert generate_with(pipe, moves.pan(20, **size())).shape == (5, 64, 64, 3)
    latents, condition = pipe.prepare_latents(
        torch.rand(1, 3, 64, 64), 1, 16, 64, 64, 5, torch.float32, torch.device("cpu")
    )
    assert condition.shape == latents.shape == (1, 16, 2, 8, 8)
    assert condition[:, :, 0].any() and not condition[:, :, 1].any()  # the first frame alone, without a mask


def save_wan_2_1(folder):
    """A Wan2.1 image-to-video pipeline: with an image encoder and one expert."""
    from transformers import CLIPImageProcessorPil, CLIPVisionConfig, CLIPVisionModel

    from sightline.backbones.stock import WanImageToVideoPipeline

    pipe = tiny_pipeline("i2v-a14b")
    config = CLIPVisionConfig(
        hidden_size=releases.CLIP, intermediate_size=16, num_hidden_layers=2, num_attention_heads=2, image_size=32,
        patch_size=16,
    )  # fmt: skip
    processor = CLIPImageProcessorPil(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32})
    parts = {**pipe.components, "transformer_2": None, "image_processor": processor}
    parts["image_encoder"] = CLIPVisionModel(config).eval()
    WanImageToVideoPipeline(**parts, boundary_ratio=None, expand_timesteps=False).save_pretrained(folder)
    return folder


def test_5b_takes_the_first_frame_twice(tmp_path):
    pipe = load_pipeline("tiny:ti2v-5b", camera=releases.write_fun(tmp_path, "5b"))
    pipe._attention_kwargs = {}
    image = torch.rand(1, 3, 64, 64)
    _, first, _ = pipe.prepare_latents(image, 1, 48, 64, 64, 5, torch.float32, torch.device("cpu"))
    condition = pipe._attention_kwargs["image_condition"]
    assert condition.shape == (1, 52, 2, 4, 4)
    assert (condition[:, :4, 0] == 1).all() and not condition[:, :4, 1].any()
    torch.testing.assert_close(condition[:, 4:, :1], first)
    assert condition[:, 4:, 1].any()  # the latents of grey frames, which are not zeros


# -- what is refused ----------------------------------------------------------------------------------------------


def test_a_release_on_another_base_is_refused_before_its_weights_are_read(tmp_path):
    camera = releases.write_fun(tmp_path, "5b")
    with pytest.raises(SightlineError, match=r"experts 2 .* needs 1: expected Wan-AI/Wan2.2-TI2V-5B-Diffusers"):
        load_pipeline("tiny:i2v-a14b", camera=camera)
    camera = releases.write_fun(tmp_path / "two", "a14b")
    with pytest.raises(SightlineError, match=r"expected Wan-AI/Wan2.2-I2V-A14B-Diffusers as the model"):
        load_pipeline("tiny:ti2v-5b", camera=camera)
    camera = releases.write_fun(tmp_path / "clip", "2.1")
    with pytest.raises(SightlineError, match=r"expected Wan-AI/Wan2.1-I2V-14B-480P-Diffusers as the model"):
        load_pipeline("tiny:ti2v-5b", camera=camera)


def test_pickles_are_refused(tmp_path):
    pickled = tmp_path / "Wan2.2-Fun.pth"
    pickled.write_bytes(b"")
    with pytest.raises(SightlineError, match=r"Wan2\.2-Fun\.pth is a pickle file, which can run code"):
        load_pipeline("tiny:ti2v-5b", camera=pickled)
    folder = releases.write_fun(tmp_path / "release", "5b")
    (folder / "diffusion_pytorch_model.safetensors").unlink()
    with pytest.raises(SightlineError, match=r"release holds its weights in pickle files \(Wan2\.2_VAE\.pth\)"):
        load_pipeline("tiny:ti2v-5b", camera=folder)
    shouting = pickled.rename(tmp_path / "Wan2.2-Fun.PTH")
    with pytest.raises(SightlineError, match=r"Wan2\.2-Fun\.PTH is a pickle file, which can run code"):
        load_pipeline("tiny:ti2v-5b", camera=shouting)


@pytest.mark.parametrize("kind", ["vace", "skyreels-v2-i2v", "ltx-2"])
def test_pipelines_of_another_family_are_refused_before_anything_is_loaded(kind, tmp_path):
    release, model = releases.write_fun(tmp_path / "release", "2.1"), tmp_path / "model"
    tiny_pipeline(kind).save_pretrained(model)
    for weights in model.rglob("*.safetensors"):
        weights.unlink()
    message = r"is a \w+Pipeline and the camera model .* is a Wan transformer: expected Wan-AI/Wan2\.1-I2V"
    with pytest.raises(SightlineError, match=message):
        load_pipeline(model, camera=release)
    with pytest.raises(SightlineError, match=message):
        Model(ModelOptions(str(model), release)).info  # noqa: B018  # a property


def test_incomplete_files_are_refused(tmp_path):
    folder = releases.write_fun(tmp_path / "shards", "5b")
    shards = releases.shard(folder)
    half = shards[1].read_bytes()
    shards[1].unlink()
    with pytest.raises(SightlineError, match=r"lacks the shard .*00002-of-00002.safetensors \(1 of 2 missing\)"):
        FunCamera.read(folder)
    shards[1].write_bytes(half[: len(half) // 2])
    with pytest.raises(SightlineError, match=r"00002-of-00002\.safetensors"):
        FunCamera.read(folder)
    (folder / "diffusion_pytorch_model.safetensors.index.json").unlink()
    with pytest.raises(SightlineError, match="without an index"):
        FunCamera.read(folder)
    two = releases.write_fun(tmp_path / "two", "a14b")
    for file in (two / "low_noise_model").iterdir():
        file.unlink()
    (two / "low_noise_model").rmdir()
    with pytest.raises(SightlineError, match="lacks low_noise_model, the other expert: expected both experts"):
        FunCamera.read(two)


@pytest.mark.parametrize(
    "change, message",
    [
        ({"control_adapter.conv.weight": None}, "without control_adapter.conv.weight"),
        ({"blocks.1.ffn.2.bias": None}, r"lacks blocks\.1\.ffn\.net\.2\.bias \(1 missing"),
        ({"patch_embedding.weight": None}, "holds no Wan transformer under Wan's own names"),
        ({"blocks.1.cam_self_attn.q.weight": (24, 24)}, r"unknown tensor blocks\.1\.cam_self_attn\.q\.weight"),
        ({"blocks.1.ffn.2.weight": (24, 31)}, r"blocks\.1\.ffn\.2\.weight has shape \(24, 31\), expected \(24, 32\)"),
        ({"control_adapter.conv.weight": (24, 100, 2, 2)}, r"has shape \(24, 100, 2, 2\), expected \[width, 24 f f"),
        ({"patch_embedding.weight": (24, 48, 1, 2, 2)}, "takes 48 channels, expected 100"),
    ],
)
def test_tensors_that_do_not_fit_are_named(change, message, tmp_path):
    state = releases.fun_state("5b")
    for name, shape in change.items():
        if shape is None:
            del state[name]
        else:
            state[name] = torch.zeros(shape)
    with pytest.raises(SightlineError, match=message):
        FunCamera.read(releases.write(tmp_path, state))


def test_quantised_weights_and_another_config_are_refused(tmp_path):
    state = releases.fun_state("5b")
    folder = releases.write(tmp_path, state, num_heads=5)
    with pytest.raises(SightlineError, match=r"num_heads 5: expected dim 24"):
        FunCamera.read(folder)
    state["blocks.0.ffn.0.weight"] = state["blocks.0.ffn.0.weight"].to(torch.float8_e4m3fn)
    with pytest.raises(SightlineError, match=r"blocks\.0\.ffn\.0\.weight is stored as F8_E4M3"):
        FunCamera.read(releases.write(tmp_path, state))


def test_values_that_are_not_finite_are_refused(tmp_path):
    state = releases.fun_state("5b")
    state["blocks.0.ffn.0.weight"][0, 0] = torch.nan
    release = FunCamera.read(releases.write(tmp_path, state))
    with pytest.raises(SightlineError, match="not finite"):
        release.load("transformer", torch.float32)


def test_a_loaded_pipeline_takes_no_release(tmp_path):
    with pytest.raises(SightlineError, match=r"transformers of its own: expected load_pipeline\(model, camera="):
        attach_camera(tiny_pipeline(), releases.write_fun(tmp_path, "5b"))


def test_a_run_knows_the_release_before_it_is_loaded(tmp_path):
    saved, camera = tmp_path / "base", releases.write_fun(tmp_path / "camera", "5b")
    tiny_pipeline("ti2v-5b").save_pretrained(saved)
    model = Model(ModelOptions(str(saved), camera))
    assert model.info.has_camera and model.info.pinhole_only and not model.info.takes_text_alone
    assert estimate(model.configs, 5, 64, 64, torch.float32).weights["transformer"] > 0
    model.require_camera()
    assert generate_with(model.pipe, moves.pan(20, **size())).shape == (5, 64, 64, 3)


def test_a_model_folder_that_is_no_camera_is_refused_as_before(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "WanTransformer3DModel"}))
    with pytest.raises(SightlineError, match="without a camera"):
        load_pipeline("tiny:ti2v-5b", camera=tmp_path)
