"""DreamX-World-5B-Cam: the released layout becomes a model that computes what the release computes, or is refused by name."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from diffusers import WanTransformer3DModel
from diffusers.loaders.single_file_utils import convert_wan_transformer_to_diffusers

from sightline.backbones.dreamx import DreamX
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.pipelines import load_pipeline
from sightline.backbones.released import read_released
from sightline.cameras import moves
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.errors import SightlineError
from sightline.generation.generate import generate
from tests.backbones import releases
from tests.conftest import TOLERANCE

GRID = TokenGrid(3, 3, 4)


def trajectory():
    options = {"frames": 9, "width": 128, "height": 96}
    return moves.orbit(30, **options).combine(moves.pan(15, **options))


def rms_norm(x, weight):
    return x / (x.square().mean(-1, keepdim=True) + 1e-6).sqrt() * weight


def reference(state, ratio, hidden, timestep, text, path):
    """diffusers' stock model under its own renaming, with the branch written out beside each self-attention."""
    branches = {name: state.pop(name) for name in list(state) if ".cam_self_attn." in name}
    model = WanTransformer3DModel(
        num_attention_heads=releases.HEADS, attention_head_dim=releases.DIM // releases.HEADS, ffn_dim=releases.FFN,
        in_channels=48, out_channels=48, text_dim=releases.TEXT, freq_dim=releases.FREQ, num_layers=releases.LAYERS,
    )  # fmt: skip
    model.load_state_dict(convert_wan_transformer_to_diffusers(state))
    lens = torch.diag(torch.tensor([969.6969696969696 / 1920, 969.6969696969696 / 1080, 1.0, 1.0]))
    anchored = torch.linalg.inv(path.camera_to_world[0]) @ path.camera_to_world
    matrices = lens @ torch.linalg.inv(anchored)[::4].float()  # of raw frames 0, 4, 8
    matrices = matrices.repeat_interleave(GRID.tokens_per_frame, dim=0)  # [N, 4, 4]
    heads = releases.HEADS // ratio

    def in_frame(x, matrix):  # [N, C]
        return torch.einsum("nij,ncj->nci", matrix, x.unflatten(-1, (-1, 4))).flatten(1).unflatten(-1, (heads, -1))

    def add_branch(index):
        p = {name.split(".cam_self_attn.")[1]: w for name, w in branches.items() if name.startswith(f"blocks.{index}.")}

        def hook(module, args, kwargs, output):
            x = (args[0] if args else kwargs["hidden_states"])[0]
            q, k, v = (F.linear(x, p[f"{part}_proj.weight"], p[f"{part}_proj.bias"]) for part in "qkv")
            q, k = (rms_norm(y, p[f"norm_{part}.weight"]) for y, part in ((q, "q"), (k, "k")))
            inverse = torch.linalg.inv(matrices)
            q, k, v = in_frame(q, matrices.transpose(1, 2)), in_frame(k, inverse), in_frame(v, inverse)
            scores = torch.einsum("nhd,mhd->hnm", q, k) / math.sqrt(q.shape[-1])
            mixed = torch.einsum("hnm,mhd->nhd", scores.softmax(-1), v).flatten(1)
            return output + F.linear(in_frame(mixed, matrices).flatten(1), p["out_proj.weight"], p["out_proj.bias"])

        return hook

    for index, block in enumerate(model.blocks):
        block.attn1.register_forward_hook(add_branch(index), with_kwargs=True)
    with torch.no_grad():
        return model.eval()(hidden, timestep, text, return_dict=False)[0]


@pytest.mark.parametrize("ratio", [1, 2])
def test_the_forward_pass_is_the_releases(ratio, tmp_path):
    state = releases.dreamx_state(ratio)
    model = DreamX.read(releases.write(tmp_path, state)).load("transformer", torch.float32)
    generator = torch.Generator().manual_seed(3)
    hidden = torch.randn(1, 48, 3, 6, 8, generator=generator)
    text = torch.randn(1, 7, releases.TEXT, generator=generator)
    timestep = torch.full((1, GRID.num_tokens), 700.0)
    timestep[:, : GRID.tokens_per_frame] = 0
    tokens = CameraTokens.from_trajectory(trajectory(), GRID)
    with torch.no_grad():
        found = model(hidden, timestep, text, attention_kwargs={"camera": tokens}, return_dict=False)[0]
        blind = model(hidden, timestep, text, return_dict=False)[0]
    expected = reference(state, ratio, hidden, timestep, text, trajectory())
    assert (found - expected).abs().max() < 10 * TOLERANCE[torch.float32] * expected.abs().max()
    assert (blind - expected).abs().max() > 0.01 * expected.abs().max()  # the branch matters


def test_a_video_is_generated_and_a_zoom_is_refused(tmp_path):
    camera = releases.write(tmp_path, releases.dreamx_state())
    assert isinstance(read_released(camera), DreamX)
    pipe = load_pipeline("tiny:ti2v-5b", camera=camera)
    info = ModelInfo.of(pipe)
    assert info.fixed_lens and info.pinhole_only and info.has_camera
    size = {"frames": 5, "width": 64, "height": 64}
    image = torch.full((64, 64, 3), 0.5).numpy()
    right, left = (generate(pipe, image, "a room", moves.pan(a, **size), num_inference_steps=2) for a in (20, -20))
    assert right.shape == (5, 64, 64, 3) and (right != left).any()
    with pytest.raises(SightlineError, match=r"lens that changes by .* pixels: .* this model knows no zoom"):
        generate(pipe, image, "a room", moves.zoom(28, 70, **size), num_inference_steps=1)
    shifted = moves.pan(20, frames=5, width=128, height=64).cropped(64, 64, left=0, top=0)
    with pytest.raises(SightlineError, match=r"32\.0 pixels off the middle: expected a centred lens"):
        generate(pipe, image, "a room", shifted, num_inference_steps=1)


def test_the_trajectorys_focal_length_has_no_effect(tmp_path):
    model = DreamX.read(releases.write(tmp_path, releases.dreamx_state())).load("transformer", torch.float32)
    layer = model.encoding_layers[0]
    rows = [
        CameraTokens.from_trajectory(moves.pan(20, frames=9, width=128, height=96, focal_mm=mm), GRID).rows
        for mm in (28, 70)
    ]
    torch.testing.assert_close(layer.frame(rows[0]), layer.frame(rows[1]))


def test_a_branch_that_does_not_fit_is_named(tmp_path):
    state = releases.dreamx_state()
    state["blocks.0.cam_self_attn.q_proj.weight"] = torch.zeros(7, releases.DIM)
    with pytest.raises(SightlineError, match=r"q_proj.weight has shape \(7, 24\), expected a branch of whole heads"):
        DreamX.read(releases.write(tmp_path, state))
    state = releases.dreamx_state()
    del state["blocks.1.cam_self_attn.norm_k.weight"]
    with pytest.raises(SightlineError, match=r"lacks blocks\.1\.attn1\.camera_encoding\.norm_k \(1 missing"):
        DreamX.read(releases.write(tmp_path, state))
    state["blocks.1.cam_self_attn.norm_x.weight"] = torch.zeros(2)
    with pytest.raises(SightlineError, match=r"unknown tensor blocks\.1\.cam_self_attn\.norm_x\.weight"):
        DreamX.read(releases.write(tmp_path, state))


def test_a_wan_model_without_a_camera_is_refused(tmp_path):
    folder = releases.write(tmp_path, releases.random_state(releases.wan_shapes(48, 48), seed=0))
    with pytest.raises(SightlineError, match="holds no camera weights of a known release: expected control_adapter"):
        load_pipeline("tiny:ti2v-5b", camera=folder)


def test_the_base_must_be_ti2v_5b(tmp_path):
    camera = releases.write(tmp_path, releases.dreamx_state())
    with pytest.raises(SightlineError, match=r"expected Wan-AI/Wan2\.2-TI2V-5B-Diffusers as the model"):
        load_pipeline("tiny:i2v-a14b", camera=camera)
