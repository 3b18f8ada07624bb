"""HY-WorldPlay-5B: the converted weights become a model that computes what the release computes, chunk by chunk."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel

import sightline as sl
from sightline.backbones.hy_worldplay import HyWorldPlay
from sightline.backbones.hy_worldplay_memory import context_frames, overlap
from sightline.backbones.hy_worldplay_model import CONTEXT_FRAMES, actions, frame_poses
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.released import read_released
from sightline.cameras import moves, se3
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.encodings.rotary import apply_rope
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from tests.backbones import releases
from tests.conftest import TOLERANCE

GRID, CONTEXT = TokenGrid(4, 3, 4), 2  # latent frames, of which the first two are of earlier chunks
IMAGE = np.full((64, 64, 3), 128, np.uint8)
SIZE = {"frames": 13, "width": 64, "height": 64}


def trajectory():
    options = {"frames": 13, "width": 128, "height": 96, "focal_mm": 24}
    return moves.orbit(30, **options).combine(moves.tilt(8, **options))


class Reference:
    """Both attentions written out with dense matrices, the second one in the frames of the cameras."""

    def __init__(self, weight, bias, path):
        scale = torch.tensor([1 / path.width, 1 / path.height, 1.0])
        lens = torch.eye(4).repeat(4, 1, 1)
        lens[:, 0, 0], lens[:, 1, 1] = (path.intrinsics[::4, i, i].float() * scale[i] for i in (0, 1))
        anchored = torch.linalg.inv(path.camera_to_world[0]) @ path.camera_to_world
        matrices = lens @ torch.linalg.inv(anchored)[::4].float()
        self.matrices = matrices.repeat_interleave(GRID.tokens_per_frame, dim=0)  # [N, 4, 4]
        self.weight, self.bias = weight, bias
        first = torch.arange(GRID.num_tokens) < CONTEXT * GRID.tokens_per_frame
        self.hidden = first[:, None] & ~first[None]  # the earlier frames do not see the later ones

    def attend(self, query, key, value):  # [N, H, D]
        scores = torch.einsum("nhd,mhd->hnm", query, key) / math.sqrt(query.shape[-1])
        shares = scores.masked_fill(self.hidden, -math.inf).softmax(-1)
        return torch.einsum("hnm,mhd->nhd", shares, value)

    def in_frame(self, x, matrix):
        return torch.einsum("nij,nhcj->nhci", matrix, x.unflatten(-1, (-1, 4))).flatten(2)

    def __call__(self, attn, hidden_states, encoder_hidden_states=None, attention_mask=None, rotary_emb=None):
        query, key = attn.norm_q(attn.to_q(hidden_states)), attn.norm_k(attn.to_k(hidden_states))
        query, key, value = (x.unflatten(2, (attn.heads, -1)) for x in (query, key, attn.to_v(hidden_states)))
        rotated = (apply_rope(x, *rotary_emb)[0] for x in (query, key))
        stock = attn.to_out[0](self.attend(*rotated, value[0]).flatten(1))
        inverse = torch.linalg.inv(self.matrices)
        branch = self.attend(
            self.in_frame(query[0], self.matrices.transpose(1, 2)),
            self.in_frame(key[0], inverse),
            self.in_frame(value[0], inverse),
        )
        return (stock + F.linear(self.in_frame(branch, self.matrices).flatten(1), self.weight, self.bias))[None]


def reference(state, hidden, timestep, text, path, action):
    """diffusers' stock model, with the action and the branch written out."""
    extra = {name: state.pop(name) for name in list(state) if "action_embedder" in name or "to_out_prope" in name}
    model = WanTransformer3DModel(**releases.HY_CONFIG).eval()
    model.load_state_dict(state)
    embedder = {name.split("action_embedder.")[1]: tensor for name, tensor in extra.items() if "action_" in name}

    def add_action(module, args, output):
        sines = model.condition_embedder.timesteps_proj(action.repeat_interleave(GRID.tokens_per_frame))
        hidden = F.silu(F.linear(sines, embedder["linear_1.weight"], embedder["linear_1.bias"]))
        return output + F.linear(hidden, embedder["linear_2.weight"], embedder["linear_2.bias"])

    model.condition_embedder.time_embedder.register_forward_hook(add_action)
    for index, block in enumerate(model.blocks):
        branch = f"blocks.{index}.attn1.to_out_prope.0"
        block.attn1.set_processor(Reference(extra[f"{branch}.weight"], extra[f"{branch}.bias"], path))
    with torch.no_grad():
        return model(hidden, timestep, text, return_dict=False)[0]


def inputs():
    generator = torch.Generator().manual_seed(3)
    timestep = torch.tensor([14.0, 14.0, 700.0, 700.0]).repeat_interleave(GRID.tokens_per_frame)[None]
    return (
        torch.randn(1, 48, 4, 6, 8, generator=generator),
        timestep,
        torch.randn(1, 7, releases.TEXT, generator=generator),
    )


def test_the_forward_pass_is_the_releases(tmp_path):
    model = HyWorldPlay.read(releases.write_hy(tmp_path)).load("transformer", torch.float32)
    tokens = CameraTokens.from_trajectory(trajectory(), GRID)
    kwargs = {"camera": tokens, CONTEXT_FRAMES: CONTEXT}
    hidden, timestep, text = inputs()
    with torch.no_grad():
        found = model(hidden, timestep, text, attention_kwargs=kwargs, return_dict=False)[0]
        all_seen = model(hidden, timestep, text, attention_kwargs={"camera": tokens}, return_dict=False)[0]
    action = torch.tensor([0.0, 34.0, 34.0, 34.0])  # right, while turning left and up
    assert torch.equal(actions(frame_poses(tokens))[0], action)
    expected = reference(releases.hy_state(), hidden, timestep, text, trajectory(), action)
    assert (found - expected).abs().max() < 10 * TOLERANCE[torch.float32] * expected.abs().max()
    assert (all_seen - expected).abs().max() > 0.01 * expected.abs().max()


def test_earlier_frames_are_computed_as_if_they_were_alone(tmp_path):
    """This is what makes one pass over all frames equal to the release's cache of keys and values."""
    model = HyWorldPlay.read(releases.write_hy(tmp_path)).load("transformer", torch.float32)
    hidden, timestep, text = inputs()
    tokens = CameraTokens.from_trajectory(trajectory(), GRID)
    earlier = CONTEXT * GRID.tokens_per_frame
    alone = CameraTokens(tokens.rows[:, :earlier], TokenGrid(CONTEXT, 3, 4))
    with torch.no_grad():
        kwargs = {"camera": tokens, CONTEXT_FRAMES: CONTEXT}
        both = model(hidden, timestep, text, attention_kwargs=kwargs, return_dict=False)[0]
        one = model(
            hidden[:, :, :CONTEXT], timestep[:, :earlier], text, attention_kwargs={"camera": alone}, return_dict=False
        )[0]
    assert torch.allclose(both[:, :, :CONTEXT], one, atol=1e-4)


@pytest.fixture(scope="module")
def pipe(tmp_path_factory):
    return sl.load_pipeline("tiny:ti2v-5b", camera=releases.write_hy(tmp_path_factory.mktemp("hy")))


def test_a_video_is_generated_chunk_by_chunk(pipe):
    long = {**SIZE, "frames": 29}
    steps = []

    def count(pipe, step, timestep, tensors):
        steps.append((step, float(timestep)))
        return tensors

    video = generate(pipe, IMAGE, "a room", moves.pan(20, **long), callback_on_step_end=count)
    assert video.shape == (29, 64, 64, 3)
    assert [step for step, _ in steps] == [0, 1, 2, 3] * 2 and steps[1][1] == 960.0
    other = generate(pipe, IMAGE, "a room", moves.pan(-20, **long))
    assert (video != other).any()


def test_a_later_chunk_does_not_change_an_earlier_one(pipe):
    """A trajectory that differs in its second half alone gives the same latents in the first chunk."""
    straight = moves.dolly(1, frames=29, width=64, height=64)
    poses = straight.camera_to_world.clone()
    poses[13:, 0, 3] += 1
    latents = []
    for path in (straight, straight.replace(camera_to_world=poses)):
        tokens = sl.camera_tokens(pipe, path)
        made = pipe(
            IMAGE, "a room", height=64, width=64, num_frames=29, attention_kwargs={"camera": tokens}, output_type="latent",
            generator=torch.Generator().manual_seed(0), max_sequence_length=8,
        )  # fmt: skip
        latents.append(made.frames)
    assert torch.equal(latents[0][:, :, :4], latents[1][:, :, :4])
    assert not torch.equal(latents[0][:, :, 4:], latents[1][:, :, 4:])


def test_a_chunk_sees_the_latest_frames_and_the_chunk_that_shows_its_view():
    """A camera that turns away and back: what it saw first is in its memory when it returns."""
    degrees = torch.cat([torch.linspace(0, 90, 20), torch.linspace(90, 0, 12)]).double()  # of 32 latent frames
    rotations = se3.axis_rotation("y", degrees.deg2rad())
    poses = se3.inverse(se3.from_parts(rotations, torch.zeros(32, 3, dtype=torch.float64)))
    assert context_frames(poses, 0) == [] and context_frames(poses, 12) == list(range(12))
    assert context_frames(poses, 28) == [0, 1, 2, 3, *range(16, 28)]
    assert overlap(poses[:1], poses[:1]) == 1.0 and overlap(poses[:1], poses[19:20]) == 0.0
    assert 0.4 < overlap(poses[:1], poses[6:7]) < 0.6  # 28 degrees further, in a view 60 degrees wide


def test_a_long_video_is_generated_with_memory(pipe):
    long = {**SIZE, "frames": 77}  # the fifth chunk sees 16 of 16 earlier latent frames, in four steps each
    assert len(generate(pipe, IMAGE, "a room", moves.pan(20, **long))) == 77


def test_facts_of_the_model(pipe, tmp_path):
    info = ModelInfo.of(pipe)
    assert info.latent_chunk == 4 and info.needs_camera and not info.takes_text_alone
    assert (info.defaults.num_inference_steps, info.defaults.guidance_scale) == (4, 1.0)
    index = {"expand_timesteps": True}
    configs = {"": index, "vae": pipe.vae.config, **read_released(releases.write_hy(tmp_path)).configs}
    assert ModelInfo.from_configs(configs) == info


@pytest.mark.parametrize(
    "path, options, message",
    [
        (moves.pan(20, **{**SIZE, "frames": 17}), {}, r"num_frames is 17: expected 16 n - 3 .* the nearest is 13"),
        (moves.pan(20, **SIZE), {"num_inference_steps": 8}, r"num_inference_steps is 8 .* expected 4 and 1"),
        (
            moves.pan(20, **SIZE),
            {"guidance_scale": 5.0},
            r"guidance_scale is 5: expected 4 and 1, to which .* distilled",
        ),
        (moves.pan(20, **SIZE), {"blind": True}, "blind is given: expected a camera in every pass"),
        (moves.pan(20, **SIZE), {"camera_guidance_scale": 2.0}, "camera_guidance_scale is 2: expected a camera"),
        (moves.pan(20, **SIZE).replace(xi=0.3), {}, "expected a pinhole camera"),
        (
            moves.pan(20, frames=13, width=128, height=64).cropped(64, 64, left=0, top=0),
            {},
            r"32\.0 pixels off the middle",
        ),
    ],
)
def test_what_it_cannot_do_is_refused(path, options, message, pipe):
    with pytest.raises(SightlineError, match=message):
        generate(pipe, IMAGE, "a room", path, **options)


def test_text_alone_is_refused_and_a_zoom_is_not(pipe):
    with pytest.raises(SightlineError, match="image is missing"):
        generate(pipe, None, "a room", moves.pan(20, **SIZE))
    assert len(generate(pipe, IMAGE, "a room", moves.zoom(28, 70, **SIZE))) == 13


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s.pop("blocks.1.attn1.to_out_prope.0.bias"), r"lacks blocks\.1\.attn1\.camera_encoding\.out_bias"),
        (lambda s: s.update({"other.weight": torch.zeros(2)}), r"holds the unknown tensor other\.weight"),
        (lambda s: s.update({"proj_out.bias": torch.zeros(3)}), r"proj_out\.bias has shape \(3,\), expected \(192,\)"),
    ],
)
def test_tensors_that_do_not_fit_are_named(change, message, tmp_path):
    state = releases.hy_state()
    change(state)
    with pytest.raises(SightlineError, match=message):
        read_released(releases.write_hy(tmp_path, state))


def test_the_release_before_its_conversion_is_refused(tmp_path):
    """As it is downloaded: a stock transformer in safetensors, and the camera in a pickle."""
    stock = WanTransformer3DModel(**releases.HY_CONFIG)
    stock.save_pretrained(tmp_path / "wan_transformer")
    (tmp_path / "wan_distilled_model").mkdir()
    (tmp_path / "wan_distilled_model" / "model.pt").write_bytes(b"a pickle")
    for camera in (tmp_path, tmp_path / "wan_transformer"):
        with pytest.raises(
            SightlineError, match=r"camera weights are in .*model\.pt, a pickle.*expected a folder with the conv"
        ):
            sl.load_pipeline("tiny:ti2v-5b", camera=camera)
    with pytest.raises(SightlineError, match=r"model\.pt is a pickle file"):
        sl.load_pipeline("tiny:ti2v-5b", camera=tmp_path / "wan_distilled_model" / "model.pt")
    converted = releases.write_hy(tmp_path / "hy")
    with pytest.raises(SightlineError, match="is one file of HY-WorldPlay-5B: expected its folder"):
        sl.load_pipeline("tiny:ti2v-5b", camera=converted / "diffusion_pytorch_model.safetensors")
    with pytest.raises(SightlineError, match=r"needs 1: expected Wan-AI/Wan2\.2-TI2V-5B-Diffusers"):
        sl.load_pipeline("tiny:i2v-a14b", camera=converted)


def test_the_documented_conversion_gives_what_is_loaded(tmp_path, monkeypatch):
    """The lines of docs/released.md, on a pickle laid out as the release's."""
    monkeypatch.chdir(tmp_path)
    pickled, converted = tmp_path / "worldplay" / "wan_distilled_model", tmp_path / "hy-worldplay"
    pickled.mkdir(parents=True)
    state = releases.hy_state()
    torch.save(
        {"generator": {f"model._fsdp_wrapped_module.{name}": w for name, w in state.items()}}, pickled / "model.pt"
    )
    releases.write_hy(converted, {"x": torch.zeros(1)})  # for its config.json
    page = (Path(__file__).parents[2] / "docs" / "released.md").read_text()
    exec(next(code for code in re.findall(r"```python\n(.*?)```", page, re.S) if "torch.load" in code), {})
    model = HyWorldPlay.read(converted).load("transformer", torch.float32)
    assert torch.equal(model.proj_out.weight, state["proj_out.weight"])
    with pytest.raises(SightlineError, match="context_parallel is given: expected none"):
        model.enable_parallelism(config=None)
