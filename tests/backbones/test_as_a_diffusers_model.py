"""What diffusers' own tests of WanTransformer3DModel require, of the model with a camera."""

from __future__ import annotations

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.cameras.token_grid import TokenGrid
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import get_encoding
from sightline.errors import SightlineError
from tests.backbones.test_wan import retrofit, run
from tests.conftest import TOLERANCE, model_inputs, wake


@pytest.mark.parametrize("encoding", ["scope", "cameractrl"])  # cameractrl has an embed stage
@pytest.mark.parametrize("with_camera", [False, True])
def test_a_model_compiled_as_a_whole_is_one_graph_and_compiled_once(tokens, encoding, with_camera, fresh_compiler):
    model = CameraWanTransformer3DModel.from_transformer(tiny_transformer(), get_encoding(encoding)()).eval()
    counter = CompileCounter()
    compiled = torch.compile(model, backend=counter, fullgraph=True)
    for seed in range(3):
        run(compiled, model_inputs(model, seed), tokens if with_camera else None)
    assert counter.frame_count == 1


def test_a_model_with_its_camera_can_be_exported(tokens):
    model = wake(retrofit()).eval()
    inputs = model_inputs(model)
    call = {**inputs, "attention_kwargs": {"camera": tokens}, "return_dict": False}
    exported = torch.export.export(model, (), call, strict=False)
    other = CameraTokens(tokens.rows.flip(1).contiguous(), tokens.grid)
    for camera in (tokens, other):
        answer = exported.module()(**{**call, "attention_kwargs": {"camera": camera}})[0]
        torch.testing.assert_close(answer, run(model, inputs, camera), atol=TOLERANCE[torch.float32], rtol=1e-4)


def test_camera_tokens_are_a_pytree(tokens):
    leaves, spec = torch.utils._pytree.tree_flatten({"camera": tokens})
    assert len(leaves) == 1 and leaves[0] is tokens.rows
    again = torch.utils._pytree.tree_unflatten([2 * leaves[0]], spec)["camera"]
    assert torch.equal(again.rows, 2 * tokens.rows) and again.grid == tokens.grid
    text = torch.utils._pytree.treespec_dumps(spec)
    read = torch.utils._pytree.tree_unflatten(leaves, torch.utils._pytree.treespec_loads(text))["camera"]
    assert isinstance(read.grid, TokenGrid) and read.grid == tokens.grid


def test_what_cannot_be_loaded_is_an_error_of_both_kinds(tmp_path):
    retrofit().save_pretrained(tmp_path / "model")
    for path, options in ((tmp_path / "nothing", {}), (tmp_path / "model", {"variant": "fp16"})):
        for kind in (SightlineError, OSError):
            with pytest.raises(kind, match="cannot be loaded") as caught:
                CameraWanTransformer3DModel.from_pretrained(path, **options)
            assert "\n" not in str(caught.value)


@pytest.mark.parametrize("config", [None, "{no json"])
def test_a_missing_or_damaged_configuration_is_an_error_of_both_kinds(tmp_path, config):
    retrofit().save_pretrained(tmp_path)
    (tmp_path / "config.json").unlink()
    if config is not None:
        (tmp_path / "config.json").write_text(config)
    for kind in (SightlineError, OSError):
        with pytest.raises(kind, match=r"config.json cannot be read"):
            CameraWanTransformer3DModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("name", ["dtype", "torch_dtype"])
def test_a_dtype_may_be_the_name_of_one(tmp_path, name):
    retrofit().save_pretrained(tmp_path)
    assert CameraWanTransformer3DModel.from_pretrained(tmp_path, **{name: "bfloat16"}).dtype == torch.bfloat16
    with pytest.raises(SightlineError, match="dtype is 'bf16': expected one of float32, bfloat16, float16"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path, **{name: "bf16"})
