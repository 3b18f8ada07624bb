"""Packing a trained model and unpacking it: the parts fit together, and stock diffusers runs the plain folder."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from diffusers import WanImageToVideoPipeline
from PIL import Image

import sightline as sl
from sightline.backbones import shipped
from sightline.backbones.config_files import read_configs
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.weights_digest import weights_digest
from sightline.cameras.tokens import CameraTokens
from sightline.cli import main
from sightline.errors import SightlineError
from sightline.lab.models import assemble, lab_transformer
from sightline.lab.shipping import pack, unpack


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A small pipeline with the VAE and text encoder that ship, a trained camera model for it, and both packed."""
    folder = tmp_path_factory.mktemp("shipping")
    assemble(folder / "start", shipped.part("vae"), shipped.base(), lab_transformer(layers=1, heads=2, ffn=512))
    base = lab_transformer(layers=1, heads=2, ffn=512)
    model = sl.CameraWanTransformer3DModel.from_transformer(base, sl.Scope(gate_hidden=4))
    torch.manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(2.0 if "alpha" in name else 0.05 * torch.randn_like(parameter))
    model.save_pretrained(folder / "joint")
    pack(folder / "start", folder / "packed", folder / "joint")
    return folder, model


def noisy_input():
    torch.manual_seed(1)
    return torch.randn(1, 16, 2, 4, 4), torch.tensor([500.0]), torch.randn(1, 8, 128)


@torch.no_grad()
def test_a_jointly_trained_model_is_split_into_base_and_camera(made):
    folder, model = made
    pipe = sl.load_pipeline(folder / "packed" / "base", folder / "packed" / "scope.safetensors", device="cpu")
    path = sl.moves.orbit(degrees=20, target_depth=2.0, frames=5, width=32, height=32)
    kwargs = {"attention_kwargs": {"camera": sl.camera_tokens(pipe, path)}}
    expected = model.eval()(*noisy_input(), return_dict=False, **kwargs)[0]
    with_camera = pipe.transformer(*noisy_input(), return_dict=False, **kwargs)[0]
    assert (with_camera - expected).norm() < 0.02 * expected.norm()
    stock = sl.load_pipeline(folder / "packed" / "base", device="cpu").transformer
    assert type(stock).__name__ == "WanTransformer3DModel"
    absent = {"attention_kwargs": {"camera": CameraTokens.absent(kwargs["attention_kwargs"]["camera"].grid)}}
    plain = stock(*noisy_input(), return_dict=False)[0]
    torch.testing.assert_close(pipe.transformer(*noisy_input(), return_dict=False, **absent)[0], plain)
    assert (plain - expected).norm() > 3 * (with_camera - expected).norm()  # the camera of this model does something


def test_nothing_tells_where_the_parts_came_from(made):
    for file in (*made[0].glob("packed/base/**/*.json"), *made[0].glob("start/**/*.json")):
        assert "_name_or_path" not in file.read_text(), file


@torch.no_grad()
def test_the_plain_folder_is_the_same_model_to_stock_diffusers(made, tmp_path):
    packed = made[0] / "packed" / "base"
    assert main(["lab", "unpack", str(packed), "-o", str(tmp_path / "plain")]) == 0
    stock = WanImageToVideoPipeline.from_pretrained(tmp_path / "plain", dtype=torch.float32)
    ours = sl.load_pipeline(packed, device="cpu")
    parts = ("transformer", "vae", "text_encoder")
    assert all(weights_digest(getattr(stock, part)) == weights_digest(getattr(ours, part)) for part in parts)
    assert ModelInfo.from_configs(read_configs(str(packed))) == ModelInfo.of(stock)
    call = {"prompt": "a red sofa", "height": 32, "width": 32, "num_frames": 5, "num_inference_steps": 2}
    call |= {"image": Image.new("RGB", (32, 32), "orange"), "output_type": "np", "guidance_scale": 1.0}
    videos = []
    for pipe in (stock, ours):
        pipe.set_progress_bar_config(disable=True)
        videos.append(pipe(**call, generator=torch.Generator().manual_seed(0)).frames[0])
    assert np.array_equal(*videos)


def test_camera_weights_are_copied_and_the_base_stays_blind(made, tmp_path):
    folder, _ = made
    camera = folder / "packed" / "scope.safetensors"
    pack(folder / "packed" / "base", tmp_path / "again", camera)
    assert (tmp_path / "again" / "scope.safetensors").read_bytes() == camera.read_bytes()
    first, second = (sl.load_pipeline(f / "base", device="cpu") for f in (folder / "packed", tmp_path / "again"))
    for name, weight in first.transformer.state_dict().items():  # a second packing rounds bfloat16 values, a little
        torch.testing.assert_close(second.transformer.state_dict()[name], weight, rtol=0.01, atol=0.01)
    with pytest.raises(SightlineError, match="exists"):
        unpack(tmp_path / "again", folder / "packed" / "base")
