"""Camera files: small, complete, and refused where they do not belong."""

from __future__ import annotations

import json
import os

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file

from sightline.backbones.camera_weights import is_camera_weights, load_camera, load_camera_layers, save_camera
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.encodings import Scope
from sightline.errors import SightlineError
from tests.backbones.test_wan import retrofit, run
from tests.conftest import model_inputs, wake


@pytest.fixture
def camera_file(tmp_path):
    save_camera(wake(retrofit()), tmp_path / "camera.safetensors")
    return tmp_path / "camera.safetensors"


def rewrite(path, tensors=None, **changes):
    """The file with some tensors or metadata changed."""
    with safe_open(path, framework="pt") as file:
        metadata = file.metadata()
    save_file(tensors or load_file(path), path, metadata={**metadata, **changes})


def test_a_stock_model_and_a_camera_file_make_the_trained_model(camera_file, tokens):
    loaded = load_camera(tiny_transformer(), camera_file)
    inputs = model_inputs(loaded)
    for layer, expected in zip(loaded.encoding_layers, wake_copy(camera_file).encoding_layers, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), expected.parameters(), strict=True))
    assert run(loaded, inputs, tokens).isfinite().all()


def wake_copy(camera_file):
    """The parameters of the file, read without our loader."""
    model = retrofit()
    model.load_state_dict(load_file(camera_file), strict=False)
    return model


def test_the_file_holds_the_new_parameters_and_nothing_else(camera_file):
    names = set(load_file(camera_file))
    assert names == {name for name in retrofit().state_dict() if ENCODING_KEY in name}
    assert is_camera_weights(camera_file)
    assert [path.name for path in camera_file.parent.iterdir()] == ["camera.safetensors"]  # no temporary left


def backbone_of(model):
    keys = (
        "num_layers",
        "num_attention_heads",
        "attention_head_dim",
        "in_channels",
        "out_channels",
        "patch_size",
    )
    return {key: list(model.config[key]) if key == "patch_size" else model.config[key] for key in keys}


def test_the_layers_alone_are_those_of_the_model(camera_file):
    layers, lora = load_camera_layers(camera_file, backbone_of(tiny_transformer()))
    assert not lora
    for layer, expected in zip(layers, wake_copy(camera_file).encoding_layers, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(layer.parameters(), expected.parameters(), strict=True))


def test_layers_for_another_backbone_are_refused(camera_file):
    with pytest.raises(SightlineError, match="was trained on a backbone with num_layers 2: this model has 3"):
        load_camera_layers(camera_file, {**backbone_of(tiny_transformer()), "num_layers": 3})


def test_a_model_that_has_the_encoding_is_filled_in_place(camera_file):
    model = retrofit()
    assert load_camera(model, camera_file) is model
    assert model.encoding_layers[0].alpha_q.item() == pytest.approx(0.7)


def test_scalar_alphas_load(camera_file):
    tensors = load_file(camera_file)
    rewrite(camera_file, {name: value.reshape(()) if "alpha" in name else value for name, value in tensors.items()})
    assert load_camera(retrofit(), camera_file).encoding_layers[1].alpha_k.shape == (1,)


def untouched(model):
    return {name: value.clone() for name, value in model.state_dict().items()}


@pytest.mark.parametrize(
    "damage, sentence",
    [
        (
            lambda path: rewrite(path, component="transformer_2"),
            "trained for 'transformer_2': expected .* 'transformer'",
        ),
        (lambda path: rewrite(path, encoding=json.dumps({"name": "prism"})), "encoding name is 'prism'"),
        (
            lambda path: rewrite(path, encoding=json.dumps(Scope(flip=False).to_config())),
            "trained for the encoding Scope",
        ),
        (lambda path: rewrite(path, backbone=json.dumps({"num_layers": 30})), "num_layers 30: this model has 2"),
        (lambda path: rewrite(path, encoding="{"), "metadata"),
        (lambda path: rewrite(path, encoding=json.dumps({"name": "scope", "alpha": 1e308})), "alpha is 1e\\+308"),
        (lambda path: rewrite(path, encoding=json.dumps({"name": "scope", "gate_hidden": "4"})), "gate_hidden is '4'"),
        (lambda path: rewrite(path, encoding="[]"), "encoding is "),
        (lambda path: rewrite(path, backbone="[]"), "backbone is a list of 0"),
        (
            lambda path: rewrite(path, {n: v.long() for n, v in load_file(path).items()}),
            "holds int64, expected floating",
        ),
        (lambda path: rewrite(path, version="9"), "version '9'"),
        (lambda path: rewrite(path, format="pt"), "format 'pt'"),
        (lambda path: rewrite(path, dict(list(load_file(path).items())[1:])), r"lacks blocks\.0"),
        (lambda path: rewrite(path, {**load_file(path), "extra": torch.zeros(1)}), "unknown parameter extra"),
        (
            lambda path: rewrite(
                path, {n: v[:-1].clone() if n.endswith("gate_out") else v for n, v in load_file(path).items()}
            ),
            "gate_out.* has shape",
        ),
        (lambda path: rewrite(path, {n: v * torch.nan for n, v in load_file(path).items()}), "not finite"),
        (lambda path: path.write_bytes(path.read_bytes()[:100]), r"cannot be read \(.*: expected camera weights"),
        (lambda path: path.write_bytes(b""), r"cannot be read \(.*: expected camera weights"),
        (os.remove, r"cannot be read \(No such file"),
    ],
)
def test_what_does_not_fit_is_refused_by_name_and_changes_nothing(camera_file, damage, sentence):
    damage(camera_file)
    model = retrofit()
    before = untouched(model)
    with pytest.raises(SightlineError, match=sentence) as caught:
        load_camera(model, camera_file)
    assert "\n" not in str(caught.value)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_starting_values_do_not_stand_in_the_way(camera_file):
    model = retrofit(alpha=0.3, projection_init="random")
    assert load_camera(model, camera_file).encoding_layers[0].alpha_q.item() == pytest.approx(0.7)


def test_things_that_are_no_models_are_refused(camera_file):
    with pytest.raises(SightlineError, match="model is a NoneType"):
        load_camera(None, camera_file)
    with pytest.raises(SightlineError, match="component is 'vae'"):
        save_camera(retrofit(), camera_file, "vae")


def test_another_backbone_is_refused(camera_file):
    with pytest.raises(SightlineError, match="in_channels 48: this model has 16"):
        load_camera(tiny_transformer("t2v-a14b"), camera_file)


def test_a_stock_model_has_no_camera_to_save(tmp_path):
    with pytest.raises(SightlineError, match="expected a model with a camera, such as a CameraWanTransformer3DModel"):
        save_camera(tiny_transformer(), tmp_path / "x.safetensors")


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SightlineError, match="cannot be written"):
        save_camera(retrofit(), tmp_path / "file" / "x.safetensors")


def test_mlp_weights_travel_too(tmp_path):
    model = wake(retrofit(projection="mlp"))
    save_camera(model, tmp_path / "x.safetensors")
    loaded = load_camera(tiny_transformer(), tmp_path / "x.safetensors")
    assert isinstance(loaded, CameraWanTransformer3DModel) and loaded.encoding.projection == "mlp"


# -- LoRA beside the camera -------------------------------------------------------------------------------------------


@pytest.fixture
def lora_file(tmp_path):
    from peft import LoraConfig

    model = wake(retrofit())
    model.add_adapter(LoraConfig(r=2, lora_alpha=2, target_modules=r"blocks\.\d+\.(attn1\.to_q|ffn\.net\.2)"))
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.3)
            parameter.data = parameter.data.bfloat16().float()  # what the file keeps of them
    save_camera(model, tmp_path / "camera.safetensors")
    return model.eval(), tmp_path / "camera.safetensors"


@pytest.mark.parametrize("copy", [True, False])
def test_lora_weights_are_added_to_a_copy_of_the_base(lora_file, tokens, copy):
    trained, path = lora_file
    base = tiny_transformer()
    before = {name: tensor.clone() for name, tensor in base.state_dict().items()}
    loaded = load_camera(base, path, copy=copy)
    inputs = model_inputs(loaded)
    torch.testing.assert_close(run(loaded, inputs, tokens), run(trained, inputs, tokens), atol=1e-5, rtol=1e-4)
    assert not torch.allclose(run(loaded, inputs, tokens), run(base, inputs), atol=1e-3)
    assert all(torch.equal(tensor, before[name]) for name, tensor in base.state_dict().items())


def test_lora_weights_come_with_the_layers(lora_file):
    _, path = lora_file
    base, merged = tiny_transformer(), load_camera(tiny_transformer(), path)
    _, lora = load_camera_layers(path, backbone_of(base))
    assert len(lora) == 4
    for layer, (a, b) in lora.items():
        difference = merged.get_parameter(f"{layer}.weight") - base.get_parameter(f"{layer}.weight")
        assert torch.allclose(difference, b.float() @ a.float(), atol=1e-6)


def test_lora_weights_are_refused_where_they_cannot_be_added(lora_file):
    _, path = lora_file
    with pytest.raises(SightlineError, match="holds LoRA weights for a stock model"):
        load_camera(retrofit(), path)
    tensors = load_file(path)
    name = next(name for name in tensors if name.endswith("lora_B"))
    rewrite(path, {**tensors, name: tensors[name][:3]})
    with pytest.raises(SightlineError, match="fits no layer of this model"):
        load_camera(tiny_transformer(), path)
    rewrite(path, {**tensors, name: tensors[name] * float("nan")})
    with pytest.raises(SightlineError, match="not finite"):
        load_camera(tiny_transformer(), path)


LORA = r"blocks\.\d+\.(attn1\.to_q|ffn\.net\.2)"


def with_adapters(*names, alpha=2, rank=2, **options):
    from peft import LoraConfig

    model = wake(retrofit())
    for name in names:
        model.add_adapter(LoraConfig(r=rank, lora_alpha=alpha, target_modules=LORA, **options), adapter_name=name)
    torch.manual_seed(3)
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            torch.nn.init.normal_(parameter, std=0.3)
            parameter.data = parameter.data.bfloat16().float()
    return model.eval()


def half(model):
    model.set_adapters(["default"], [0.5])


def disabled(model):
    model.disable_adapters()


def both(model):
    model.set_adapters(["default", "second"], [1.0, 0.25])


@pytest.mark.parametrize(
    "model, change",
    [
        (lambda: with_adapters("default", alpha=4), None),
        (lambda: with_adapters("default", rank=4, alpha=4, use_rslora=True), None),
        (lambda: with_adapters("default"), half),
        (lambda: with_adapters("default"), disabled),
        (lambda: with_adapters("default", "second"), both),
        (lambda: with_adapters("default", "second"), None),  # only the one that was added last is active
        (lambda: with_adapters("my-style"), None),
    ],
    ids=["alpha 2r", "rslora", "weight 0.5", "disabled", "two", "two, one active", "a dash"],
)
def test_a_file_holds_what_the_model_computes(tmp_path, tokens, model, change):
    model = model()
    if change is not None:
        change(model)
    save_camera(model, tmp_path / "camera.safetensors")
    loaded = load_camera(tiny_transformer(), tmp_path / "camera.safetensors")
    inputs = model_inputs(loaded)
    torch.testing.assert_close(run(loaded, inputs, tokens), run(model, inputs, tokens), atol=1e-5, rtol=1e-4)
    kept = load_camera(tiny_transformer(), tmp_path / "camera.safetensors", keep_lora=True)
    torch.testing.assert_close(run(kept, inputs, tokens), run(model, inputs, tokens), atol=1e-5, rtol=1e-4)


def test_adapters_that_a_file_cannot_hold_are_refused(tmp_path):
    from peft import LoHaConfig, LoraConfig

    merged = with_adapters("default")
    merged.fuse_lora()
    loha = wake(retrofit())
    loha.add_adapter(LoHaConfig(r=2, target_modules=LORA))
    own_layer = retrofit()
    own_layer.encoding_layers[0].to_q = torch.nn.Linear(2, 2)  # as an encoding of somebody else's may have
    own_layer.add_adapter(LoraConfig(target_modules=["to_q"]))
    for model, sentence in (
        (merged, "merged into its weight"),
        (with_adapters("default", use_dora=True), "no plain LoRA"),
        (with_adapters("default", lora_bias=True), "no plain LoRA"),
        (with_adapters("default", alora_invocation_tokens=[1]), "no plain LoRA"),
        (with_adapters("default", init_lora_weights="olora"), "has init_lora_weights 'olora', which changes the base"),
        (with_adapters("default", init_lora_weights="pissa"), "'default' has init_lora_weights 'pissa'"),
        (loha, "no plain LoRA"),
        (own_layer, "is a camera layer with an adapter"),
        (with_adapters("default", bias="lora_only"), "'default' has bias 'lora_only', which changes the base"),
        (with_adapters("default", modules_to_save=["proj_out"]), "proj_out is replaced by the adapter 'default'"),
    ):
        with pytest.raises(SightlineError, match=sentence):
            save_camera(model, tmp_path / "camera.safetensors")
    assert not list(tmp_path.iterdir())


def test_an_encoding_larger_than_memory_is_refused_before_it_is_allocated(camera_file):
    rewrite(camera_file, encoding=json.dumps({"name": "scope", "gate_hidden": 10**12}))
    with pytest.raises(SightlineError, match="has shape"):
        load_camera(tiny_transformer(), camera_file)
