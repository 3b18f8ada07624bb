"""Packed weights: near the trained ones, the same model as the plain folder, and refused when they are damaged."""

from __future__ import annotations

import pytest
import torch
from diffusers import AutoencoderKLWan, WanTransformer3DModel

from sightline.backbones import packed_weights
from sightline.backbones.packed_weights import (
    dequantize_rows,
    load_component,
    pack_component,
    packed_files,
    quantize_rows,
    unpack_weights,
)
from sightline.errors import SightlineError
from sightline.lab.models import lab_transformer, lab_vae


@pytest.fixture
def packed(tmp_path, monkeypatch):
    """A small transformer, packed in several files, and its folder."""
    monkeypatch.setattr(packed_weights, "_MAX_FILE_BYTES", 100_000)
    model = lab_transformer(layers=1, heads=2, ffn=512)
    model.save_pretrained(tmp_path)
    pack_component(tmp_path, model.state_dict())
    return model, tmp_path


@pytest.mark.parametrize("shape", [(6, 40), (6, 5, 2, 2, 2)])
def test_each_value_is_within_half_a_step_of_its_row(shape):
    weight = torch.randn(shape) * torch.logspace(-6, 3, shape[0]).view(-1, *[1] * (len(shape) - 1))
    weight[2] = 0
    quantized, scale = quantize_rows(weight)
    rows, found = weight.flatten(1), (quantized.float() * scale.view(-1, *[1] * (len(shape) - 1))).flatten(1)
    assert (rows - found).abs().le(0.5001 * scale[:, None]).all() and not found[2].any()
    assert quantized.flatten(1)[torch.arange(6) != 2].abs().amax(1).eq(127).all()  # each row uses the whole range
    assert torch.equal(dequantize_rows(quantized, scale).flatten(1), found.bfloat16())


def test_only_large_tensors_are_rounded_and_no_file_is_large(packed):
    model, folder = packed
    files = packed_files(folder)
    assert len(files) > 2 and max(file.stat().st_size for file in files) < 120_000
    assert not list(folder.glob("diffusion_pytorch_model*"))
    assert sum(file.stat().st_size for file in files) < 2 * sum(p.numel() for p in model.parameters())
    for name, weight in unpack_weights(folder).items():
        trained = model.state_dict()[name]
        if trained.numel() < 2**16:
            assert torch.equal(weight, trained.bfloat16()), name
        else:
            assert (weight.float() - trained).norm() < 0.01 * trained.norm(), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("make", [lambda: lab_transformer(layers=1, heads=2, ffn=512), lab_vae])
def test_a_packed_component_loads_as_its_plain_form_does(make, dtype, tmp_path):
    """Same values, same dtype of each parameter, and buffers that are not saved."""
    model = make()
    for name in ("plain", "packed"):
        model.save_pretrained(tmp_path / name)
    pack_component(tmp_path / "packed", model.state_dict())
    model.load_state_dict(unpack_weights(tmp_path / "packed"))
    model.save_pretrained(tmp_path / "plain")
    mine, stock = (load_component(type(model), tmp_path / name, dtype) for name in ("packed", "plain"))
    assert type(mine) is type(stock) and mine.training == stock.training
    for part in ("named_parameters", "named_buffers"):
        ours, theirs = dict(getattr(mine, part)()), dict(getattr(stock, part)())
        assert ours.keys() == theirs.keys()
        assert all(ours[name].dtype == theirs[name].dtype for name in ours)
        assert all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert isinstance(mine, WanTransformer3DModel | AutoencoderKLWan)


def test_damaged_weights_are_refused_by_name(packed):
    model, folder = packed
    first, *_, last = packed_files(folder)
    content = last.read_bytes()
    last.unlink()
    with pytest.raises(SightlineError, match=r"holds \d of \d packed files"):
        load_component(WanTransformer3DModel, folder, torch.float32)
    last.write_bytes(content[:1000])
    with pytest.raises(SightlineError, match=f"{last.name} cannot be read"):
        load_component(WanTransformer3DModel, folder, torch.float32)
    last.write_bytes(first.read_bytes())
    with pytest.raises(SightlineError, match=r"do not fit the configuration|no scale for each"):
        load_component(WanTransformer3DModel, folder, torch.float32)
    weights = model.state_dict()
    weights["proj_out.bias"][0] = torch.nan
    with pytest.raises(SightlineError, match=r"proj_out\.bias holds values that are not finite"):
        pack_component(folder, weights)
