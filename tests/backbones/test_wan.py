"""The retrofit: equal to the stock model where it must be, and unharmed by what users do to models."""

from __future__ import annotations

import copy
import json
import shutil

import pytest
import torch
from diffusers import WanTransformer3DModel
from peft import LoraConfig
from safetensors.torch import load_file, save_file

from sightline.backbones import attention
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import Scope, Sweep
from sightline.encodings.protocol import EncodingLayer
from sightline.errors import SightlineError
from tests.conftest import (
    TOLERANCE,
    check_gradient_checkpointing,
    model_inputs,
    random_trajectory,
    smooth_trajectory,
    wake,
)

KINDS = ["ti2v-5b", "i2v-a14b", "t2v-a14b"]


@torch.no_grad()
def run(model, inputs, camera=None):
    kwargs = {} if camera is None else {"attention_kwargs": {"camera": camera}}
    return model(**inputs, **kwargs, return_dict=False)[0]


def retrofit(kind="ti2v-5b", seed=0, **settings):
    return CameraWanTransformer3DModel.from_transformer(tiny_transformer(kind, seed), Scope(**settings))


def require_equal_weights(model, expected):
    theirs = expected.state_dict()
    assert model.state_dict().keys() == theirs.keys()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, theirs[name]), name


# -- 1. bit for bit -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("settings", [{}, {"projection": "mlp"}], ids=["linear", "mlp"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_untrained_retrofit_is_the_stock_model_bit_for_bit(kind, dtype, settings, tokens):
    base = tiny_transformer(kind).to(dtype)
    model = CameraWanTransformer3DModel.from_transformer(base, Scope(**settings))
    for per_token_time in (False, True):
        inputs = model_inputs(base, per_token_time=per_token_time)
        expected = run(base, inputs)
        assert torch.equal(run(model, inputs, tokens), expected)  # first latent frame included
        assert torch.equal(run(model, inputs), expected)
        assert expected.isfinite().all() and expected.std() > 0.01


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("kind", KINDS)
def test_without_a_camera_any_weights_are_the_stock_model_bit_for_bit(kind, dtype, tokens):
    base = tiny_transformer(kind).to(dtype)
    model = wake(CameraWanTransformer3DModel.from_transformer(base, Scope()))
    inputs = model_inputs(base)
    assert torch.equal(run(model, inputs), run(base, inputs))
    assert not torch.equal(run(model, inputs, tokens), run(base, inputs))  # and with one, not


def test_tokens_that_have_no_camera_change_nothing_either():
    base, model = tiny_transformer(), wake(retrofit())
    inputs = model_inputs(base)
    assert torch.equal(run(model, inputs, CameraTokens.absent((3, 4, 4))), run(base, inputs))


def test_an_encoding_that_touches_no_stage_is_the_stock_layer_bit_for_bit(tokens):
    base, model = tiny_transformer(), retrofit()
    for block in model.blocks:
        block.attn1.camera_encoding = EncodingLayer()
    inputs = model_inputs(base)
    assert torch.equal(run(model, inputs, tokens), run(base, inputs))


def test_every_latent_frame_hears_the_camera_once_trained(tokens):
    base, model = tiny_transformer(), wake(retrofit())
    inputs = model_inputs(base)
    difference = (run(model, inputs, tokens) - run(base, inputs)).abs().amax(dim=(0, 1, 3, 4))
    assert (difference > 1e-4).all()


def test_another_path_gives_another_answer(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    other = CameraTokens.from_trajectory(random_trajectory(9), (3, 4, 4))
    assert (run(model, inputs, tokens) - run(model, inputs, other)).abs().max() > 1e-3


# -- 2. size, 3. gradients ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "config, percent", [(TI2V_5B.transformer, 0.061), (I2V_A14B.transformer, 0.047)], ids=["5B", "14B"]
)
@pytest.mark.parametrize("projection", ["linear", "mlp"])
def test_under_a_thousandth_new_parameters_on_the_real_configurations(config, percent, projection):
    with torch.device("meta"):
        base = WanTransformer3DModel(**config)
    model = CameraWanTransformer3DModel.from_transformer(base, Scope(projection=projection))
    old = sum(parameter.numel() for parameter in base.parameters())
    share = sum(parameter.numel() for parameter in model.parameters()) / old - 1
    assert 0 < share < 0.001
    if projection == "linear":
        assert round(100 * share, 3) == percent


@pytest.mark.parametrize(
    "config, percent", [(TI2V_5B.transformer, 0.153), (I2V_A14B.transformer, 0.119)], ids=["5B", "14B"]
)
def test_sweep_adds_under_a_five_hundredth_on_the_real_configurations(config, percent):
    with torch.device("meta"):
        base = WanTransformer3DModel(**config)
    old = sum(parameter.numel() for parameter in base.parameters())
    model = CameraWanTransformer3DModel.from_transformer(base, Sweep())
    share = sum(parameter.numel() for parameter in model.parameters()) / old - 1
    assert share < 0.002 and round(100 * share, 3) == percent


def test_alpha_has_a_gradient_at_step_0_and_everything_moves_within_three_steps(tokens):
    torch.manual_seed(0)
    model = retrofit().train()
    inputs = model_inputs(model)
    target = torch.randn(1, 48, 3, 8, 8)
    start = {name: value.clone() for name, value in model.state_dict().items() if ENCODING_KEY in name}
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # no decay: only a gradient moves a parameter
    for step in range(3):
        optimizer.zero_grad()
        output = model(**inputs, attention_kwargs={"camera": tokens}, return_dict=False)[0]
        (output - target).square().mean().backward()
        if step == 0:
            assert all(layer.alpha_q.grad.abs() > 0 and layer.alpha_k.grad.abs() > 0 for layer in model.encoding_layers)
        optimizer.step()
    still = [name for name, value in model.state_dict().items() if name in start and torch.equal(value, start[name])]
    assert still == []


# -- 5. what users do to models --------------------------------------------------------------------------------------


def test_gradient_checkpointing_gives_the_same_gradients(tokens):
    model = wake(retrofit()).train()
    check_gradient_checkpointing(model, model_inputs(model), tokens)


@pytest.mark.parametrize("backend", ["aot_eager", *(["inductor"] if shutil.which("g++") else [])])
def test_compiled_blocks_give_the_same_result(tokens, backend, fresh_compiler):
    model = wake(retrofit())
    inputs = model_inputs(model, per_token_time=True)
    expected, without = run(model, inputs, tokens), run(model, inputs)
    model.compile_repeated_blocks(fullgraph=True, backend=backend)
    torch.testing.assert_close(run(model, inputs, tokens), expected, atol=TOLERANCE[torch.float32], rtol=1e-4)
    if backend == "aot_eager":
        torch.testing.assert_close(run(model, inputs), without, atol=TOLERANCE[torch.float32], rtol=1e-4)


def test_a_model_compiled_as_a_whole_gives_the_same_result(tokens, fresh_compiler):
    model = wake(retrofit())
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    compiled = torch.compile(model, backend="aot_eager")
    torch.testing.assert_close(run(compiled, inputs, tokens), expected, atol=TOLERANCE[torch.float32], rtol=1e-4)
    assert model.rope.camera_rows is None


@pytest.mark.parametrize("offload_type", ["block_level", "leaf_level"])
def test_group_offload_gives_the_same_result(offload_type, tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    options = {"num_blocks_per_group": 1} if offload_type == "block_level" else {}
    model.enable_group_offload(
        onload_device=torch.device("cpu"), offload_device=torch.device("cpu"), offload_type=offload_type, **options
    )
    assert torch.equal(run(model, inputs, tokens), expected)


def test_fused_qkv_gives_the_same_result(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    model.fuse_qkv_projections()
    assert model.blocks[0].attn1.fused_projections
    torch.testing.assert_close(run(model, inputs, tokens), expected, atol=1e-6, rtol=1e-5)


def test_a_lora_lives_beside_the_camera(tokens):
    model = wake(retrofit())
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    model.add_adapter(LoraConfig(r=2, target_modules=["to_q", "to_k"], init_lora_weights=True))
    assert torch.equal(run(model, inputs, tokens), expected)  # a fresh LoRA adds zero
    trained = {name for name, parameter in model.named_parameters() if parameter.requires_grad}
    assert all(ENCODING_KEY in name or "lora_" in name for name in trained)  # diffusers alone would freeze the camera
    assert len(trained) == sum(1 for _ in model.camera_parameters()) + 2 * 2 * 4  # q and k, A and B, of 4 attentions
    model(**inputs, attention_kwargs={"camera": tokens, "scale": 0.5}, return_dict=False)[0].sum().backward()
    assert all(layer.project_q.grad.abs().sum() > 0 for layer in model.encoding_layers)


def test_layerwise_casting_leaves_the_camera_in_float32(tokens):
    model = wake(retrofit())
    model.enable_layerwise_casting(storage_dtype=torch.bfloat16, compute_dtype=torch.float32)
    assert model.blocks[0].attn1.to_q.weight.dtype == torch.bfloat16
    assert {parameter.dtype for parameter in model.camera_parameters()} == {torch.float32}
    assert run(model, model_inputs(model), tokens).isfinite().all()


def test_attention_gets_one_dtype_under_autocast(tokens, monkeypatch):
    seen = []
    dispatch = attention.dispatch_attention_fn

    def remember(query, key, value, **options):
        seen.append({query.dtype, key.dtype, value.dtype})
        return dispatch(query, key, value, **options)

    monkeypatch.setattr(attention, "dispatch_attention_fn", remember)
    model = wake(retrofit())
    with torch.autocast("cpu", torch.bfloat16):
        run(model, model_inputs(model), tokens)
    assert seen == [{torch.bfloat16}] * 2


def test_rays_timesteps_and_rope_stay_float32_in_a_bf16_model(tmp_path, tokens):
    retrofit().save_pretrained(tmp_path)
    model = CameraWanTransformer3DModel.from_pretrained(tmp_path, dtype=torch.bfloat16).eval()
    assert model.blocks[0].attn1.to_q.weight.dtype == torch.bfloat16
    assert {parameter.dtype for layer in model.encoding_layers for parameter in layer.parameters()} == {torch.float32}
    assert model.rope.freqs_cos.dtype == torch.float32
    seen = {}

    def remember_rays(_module, args):
        seen["query"], seen["camera"] = args[1].dtype, args[4].dtype

    model.blocks[0].attn1.camera_encoding.register_forward_pre_hook(remember_rays)
    model.rope.register_forward_hook(lambda _m, _i, out: seen.update(rope=out[0].dtype, carried=out[2].dtype))
    model.condition_embedder.time_embedder.register_forward_pre_hook(lambda _m, args: seen.update(time=args[0].dtype))
    run(model, model_inputs(model), tokens)
    assert seen == {"query": torch.bfloat16, **dict.fromkeys(["camera", "rope", "carried", "time"], torch.float32)}


def test_autocast_trains_in_bf16_with_float32_rays(tokens):
    model = wake(retrofit()).train()
    inputs = model_inputs(model)
    seen = []
    model.blocks[0].attn1.camera_encoding.register_forward_pre_hook(lambda _m, args: seen.append(args[4].dtype))
    with torch.autocast("cpu", torch.bfloat16):
        model(**inputs, attention_kwargs={"camera": tokens}, return_dict=False)[0].float().square().mean().backward()
    assert seen == [torch.float32]
    assert all(parameter.grad.isfinite().all() for parameter in model.parameters())


# -- keeping and changing models ------------------------------------------------------------------------------------


def test_saving_and_loading_keeps_every_bit(tmp_path, tokens):
    model = wake(retrofit(gate_hidden=5))
    model.save_pretrained(tmp_path)
    again = CameraWanTransformer3DModel.from_pretrained(tmp_path)
    assert again.encoding == Scope(gate_hidden=5)
    require_equal_weights(again, model)
    inputs = model_inputs(model)
    # Not to the bit: weights mapped from a file lie on other addresses, and the CPU sums them in another order.
    torch.testing.assert_close(run(again, inputs, tokens), run(model, inputs, tokens), atol=1e-6, rtol=1e-5)


def test_the_base_is_copied_unless_asked_otherwise():
    base = tiny_transformer()
    own, shared = (CameraWanTransformer3DModel.from_transformer(base, Scope(), copy=copied) for copied in (True, False))
    weight = base.blocks[0].attn1.to_q.weight
    assert own.blocks[0].attn1.to_q.weight.data_ptr() != weight.data_ptr()
    assert shared.blocks[0].attn1.to_q.weight.data_ptr() == weight.data_ptr()


def test_the_retrofit_keeps_dtype_training_mode_and_frozen_parameters():
    base = tiny_transformer().to(torch.bfloat16).train()
    base.patch_embedding.requires_grad_(False)
    model = CameraWanTransformer3DModel.from_transformer(base, Scope())
    assert model.training and model.blocks[0].attn1.to_q.weight.dtype == torch.bfloat16
    assert not model.patch_embedding.weight.requires_grad and model.blocks[0].attn1.to_q.weight.requires_grad
    assert all(parameter.requires_grad for layer in model.encoding_layers for parameter in layer.parameters())
    copy.deepcopy(model)


def test_a_stock_checkpoint_is_refused_rather_than_half_loaded(tmp_path):
    tiny_transformer().save_pretrained(tmp_path)
    with pytest.raises(SightlineError, match="encoding is missing"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"encoding": {"name": "scope"}}))
    with pytest.raises(SightlineError, match=r"lack blocks\.0\.attn1\.camera"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path)


def test_weights_of_another_encoding_are_refused_by_name(tmp_path):
    retrofit(projection="mlp").save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"encoding": {"name": "scope", "projection_hidden": 7}}))
    with pytest.raises(SightlineError, match=r"cannot be loaded \(.*camera_encoding\.project_\w"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path)


def test_spoilt_weights_are_refused(tmp_path):
    model = retrofit()
    with torch.no_grad():
        model.encoding_layers[1].gate_out[0, 0] = torch.nan
    model.save_pretrained(tmp_path)
    with pytest.raises(SightlineError, match=r"blocks\.1\.attn1\.camera_encoding\.gate_out that are not finite"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path)
    file = next(tmp_path.glob("*.safetensors"))
    file.write_bytes(file.read_bytes()[:1000])
    with pytest.raises(SightlineError, match="cannot be loaded"):
        CameraWanTransformer3DModel.from_pretrained(tmp_path)


@pytest.mark.parametrize("max_shard_size", ["10GB", "20KB"], ids=["one file", "shards"])
def test_old_checkpoints_with_scalar_alphas_load(tmp_path, max_shard_size):
    model = wake(retrofit())
    model.save_pretrained(tmp_path, max_shard_size=max_shard_size)
    files = list(tmp_path.glob("*.safetensors"))
    assert (len(files) > 1) == (max_shard_size == "20KB")
    for file in files:
        old = {name: value.reshape(()) if "alpha_" in name else value for name, value in load_file(file).items()}
        save_file(old, file, metadata={"format": "pt"})
    require_equal_weights(CameraWanTransformer3DModel.from_pretrained(tmp_path), model)


def test_bases_that_cannot_be_retrofitted_are_refused():
    with pytest.raises(SightlineError, match="base is a Linear"):
        CameraWanTransformer3DModel.from_transformer(torch.nn.Linear(2, 2), Scope())
    with pytest.raises(SightlineError, match="encoding is 'scope'"):
        CameraWanTransformer3DModel.from_transformer(tiny_transformer(), "scope")
    with pytest.raises(SightlineError, match="already carries the encoding 'scope'"):
        CameraWanTransformer3DModel.from_transformer(retrofit(), Scope())
    fused = tiny_transformer()
    fused.fuse_qkv_projections()
    with pytest.raises(SightlineError, match="fused QKV"):
        CameraWanTransformer3DModel.from_transformer(fused, Scope())
    adapted = tiny_transformer()
    adapted.add_adapter(LoraConfig(r=2, target_modules=["to_q"]))
    with pytest.raises(SightlineError, match="LoRA"):
        CameraWanTransformer3DModel.from_transformer(adapted, Scope())


def test_cameras_that_do_not_fit_the_latents_are_refused(tokens):
    model = retrofit()
    inputs = model_inputs(model, batch=2)
    with pytest.raises(SightlineError, match=r"grid \(3, 2, 2\): expected \(3, 4, 4\)"):
        run(model, inputs, CameraTokens.from_trajectory(smooth_trajectory(), (3, 2, 2)))
    with pytest.raises(SightlineError, match="batch 3: expected 1 or the latents' 2"):
        run(model, inputs, CameraTokens.batch([tokens] * 3))
    with pytest.raises(SightlineError, match="attention_kwargs has 'camra'"):
        model(**inputs, attention_kwargs={"camra": tokens})
    with pytest.raises(SightlineError, match="camera is a Tensor"):
        run(model, inputs, tokens.rows)
    assert model.rope.camera_rows is None  # a refused call leaves nothing behind


def test_a_batch_may_have_one_camera_each():
    model = wake(retrofit())
    inputs = model_inputs(model, batch=2)
    paths = [CameraTokens.from_trajectory(random_trajectory(9, seed), (3, 4, 4)) for seed in (1, 2)]
    both = run(model, inputs, CameraTokens.batch(paths))
    for index, path in enumerate(paths):
        alone = run(model, {name: value[index : index + 1] for name, value in inputs.items()}, path)
        torch.testing.assert_close(both[index : index + 1], alone, atol=TOLERANCE[torch.float32], rtol=1e-4)
