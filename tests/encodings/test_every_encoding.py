"""What holds for every encoding and every ablation alike, in a whole model: its start, keeping it, running it, training it."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from diffusers import WanTransformer3DModel
from PIL import Image

import sightline as sl
from benchmarks import encoding_parameters
from benchmarks.train_every_encoding import ROWS
from sightline.backbones import attention
from sightline.backbones.camera_weights import load_camera, save_camera
from sightline.backbones.checked_loading import ENCODING_KEY
from sightline.backbones.tiny import tiny_pipeline, tiny_transformer
from sightline.backbones.wan import CameraWanTransformer3DModel
from sightline.backbones.wan_configs import TI2V_5B
from sightline.cameras import se3
from sightline.cameras.tokens import CameraTokens
from sightline.cameras.trajectory import Trajectory
from sightline.data.encode import ClipEncoder
from sightline.encodings import ENCODINGS, encoding_from_config
from sightline.errors import SightlineError
from sightline.training.feeds import make_feed
from sightline.training.model import build_model, load_base
from sightline.training.objective import draw, flow_matching_loss
from sightline.training.optimizer import make_optimizer, set_learning_rate
from sightline.training.recipe import DataConfig, ModelConfig, ObjectiveConfig, OptimizerConfig, Recipe
from sightline.training.trainable import choose_trainable
from tests.conftest import TOLERANCE, model_inputs, random_trajectory, smooth_trajectory, wake

# Not the base model at the start, by how much: the largest change of the output, in parts of its standard deviation.
INEXACT = {
    "scope w/o zero init": 0.086,
    "rerope": 0.025,
    "freqsplit projective": 0.023,
    "freqsplit camera_uv": 0.010,
    "freqsplit four_dof": 0.029,
}
DOUBLED = ("scope w/o B and C", "scope w/o D")  # exact up to what a kernel for heads twice as wide rounds otherwise


def base_model(seed: int = 0) -> WanTransformer3DModel:
    """Two layers of four heads of 24 channels: the narrowest that every method fits."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = WanTransformer3DModel(
            num_attention_heads=4,
            attention_head_dim=24,
            in_channels=48,
            out_channels=48,
            ffn_dim=32,
            num_layers=2,
            text_dim=32,
            freq_dim=64,
            rope_max_seq_len=64,
        )
    return model.eval()


def retrofit(row: str, base: WanTransformer3DModel | None = None) -> CameraWanTransformer3DModel:
    torch.manual_seed(0)
    return CameraWanTransformer3DModel.from_transformer(base or base_model(), encoding_from_config(ROWS[row]))


@torch.no_grad()
def run(model, inputs, camera=None):
    kwargs = {} if camera is None else {"attention_kwargs": {"camera": camera}}
    return model(**inputs, **kwargs, return_dict=False)[0]


def gradients(model, inputs, camera) -> dict[str, torch.Tensor]:
    model.zero_grad()
    model(**inputs, attention_kwargs={"camera": camera}, return_dict=False)[0].square().mean().backward()
    return {name: parameter.grad.clone() for name, parameter in model.named_parameters()}


def test_every_encoding_has_a_row():
    assert {row["name"] for row in ROWS.values()} == set(ENCODINGS)
    assert set(ENCODINGS) == {
        "scope",
        "sweep",
        "cameractrl",
        "recammaster",
        "prope",
        "gta",
        "ucpe",
        "rerope",
        "freqsplit",
    }
    for row in ROWS.values():
        encoding = encoding_from_config(row)
        assert encoding_from_config(encoding.to_config()) == encoding


@pytest.mark.parametrize("row", ["prope, own projections", "freqsplit camera_uv", "scope w/o D"])
def test_a_recipe_chooses_it_by_name(row, tmp_path):
    settings = ", ".join(f"{name}: {value}" for name, value in ROWS[row].items())
    (tmp_path / "recipe.yaml").write_text(
        f"model: {{base: tiny:pixels, encoding: {{{settings}}}}}\ndata: {{sources: [worlds:orbit]}}\n"
    )
    settings = Recipe.from_yaml(tmp_path / "recipe.yaml").model
    assert build_model(load_base(settings).transformer, settings).encoding == encoding_from_config(ROWS[row])


# -- 1. the start ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=["float32", "bfloat16"])
@pytest.mark.parametrize("row", [row for row in ROWS if row not in INEXACT])
def test_the_start_is_the_base_model_bit_for_bit(row, dtype, tokens):
    base = base_model().to(dtype)
    inputs = model_inputs(base, per_token_time=True)
    expected, actual = run(base, inputs), run(retrofit(row, base), inputs, tokens)
    assert expected.isfinite().all() and expected.std() > 0.01
    if row in DOUBLED:
        torch.testing.assert_close(actual, expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])
    else:
        assert torch.equal(actual, expected)


@pytest.mark.parametrize("row", INEXACT)
def test_where_the_start_is_another_it_is_another_by_this_much(row, tokens):
    base = base_model()
    inputs = model_inputs(base)
    expected = run(base, inputs)
    change = ((run(retrofit(row, base), inputs, tokens) - expected).abs().max() / expected.std()).item()
    print(f"\n{row}: {change:.1%}")  # docs/records/encodings.md quotes what `pytest -s` prints here
    assert change == pytest.approx(INEXACT[row], rel=0.1)


@pytest.mark.parametrize("row", ROWS)
def test_without_a_camera_any_weights_are_the_base_model_bit_for_bit(row, tokens):
    base = base_model()
    model, inputs = wake(retrofit(row, base)), model_inputs(base)
    expected = run(base, inputs)
    assert torch.equal(run(model, inputs), expected)
    absent = run(model, inputs, CameraTokens.absent((3, 4, 4)))
    if row in DOUBLED:
        torch.testing.assert_close(absent, expected, atol=1e-5, rtol=1e-5)
    else:
        assert torch.equal(absent, expected)
    assert model.rope.camera_rows is None and model.patch_embedding.tokens is None
    elsewhere = CameraTokens.from_trajectory(random_trajectory(9), (3, 4, 4))
    assert (run(model, inputs, tokens) - run(model, inputs, elsewhere)).abs().max() > 1e-3  # the camera is heard


@pytest.mark.parametrize("row", ROWS)
@torch.no_grad()
def test_camera_guidance_goes_from_the_base_model_past_the_camera_s(row, tokens):
    base = base_model()
    model, inputs = wake(retrofit(row, base)), model_inputs(base)
    blind, seen = run(base, inputs), run(model, inputs, tokens)
    guided = model(**inputs, attention_kwargs={"camera": tokens, "camera_guidance_scale": 2.0}, return_dict=False)[0]
    torch.testing.assert_close(guided, blind + 2 * (seen - blind), atol=1e-4, rtol=1e-4)


# -- 5. what users do to models -------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", ROWS)
def test_it_is_saved_and_loaded_whole_and_as_a_camera_file(row, tmp_path, tokens):
    model = wake(retrofit(row))
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    model.save_pretrained(tmp_path / "model")
    again = CameraWanTransformer3DModel.from_pretrained(tmp_path / "model")
    assert again.encoding == model.encoding
    torch.testing.assert_close(run(again, inputs, tokens), expected, atol=1e-5, rtol=1e-5)
    save_camera(model, tmp_path / "camera.safetensors")
    filled = load_camera(base_model(), tmp_path / "camera.safetensors")
    assert torch.equal(run(filled, inputs, tokens), expected)


@pytest.mark.parametrize("row", ROWS)
def test_compiled_blocks_and_gradient_checkpointing_change_nothing(row, tokens):
    model = wake(retrofit(row)).train()
    inputs = model_inputs(model, per_token_time=True)
    expected = gradients(model, inputs, tokens)
    output = run(model, inputs, tokens)
    camera = [value for name, value in expected.items() if ENCODING_KEY in name]
    assert all(value.isfinite().all() and value.abs().sum() > 0 for value in camera)
    torch.compiler.reset()  # rows share code, and dynamo counts recompilations of a function over all of them
    model.compile_repeated_blocks(fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(run(model, inputs, tokens), output, atol=TOLERANCE[torch.float32], rtol=1e-4)
    for block in model.blocks:
        block._compiled_call_impl = None
    model.enable_gradient_checkpointing()
    for name, value in gradients(model, inputs, tokens).items():
        torch.testing.assert_close(value, expected[name], atol=1e-6, rtol=1e-4, msg=name)


@pytest.mark.parametrize("row", ROWS)
def test_bf16_models_and_autocast_keep_cameras_in_float32(row, tokens):
    model = wake(retrofit(row))
    inputs = model_inputs(model)
    expected = run(model, inputs, tokens)
    seen = []
    for layer in model.encoding_layers:
        layer.register_forward_pre_hook(lambda _m, args: seen.append(args[-1]))
    with torch.autocast("cpu", torch.bfloat16):
        actual = run(model, inputs, tokens)
    assert all(camera.dtype == torch.float32 for camera in seen if isinstance(camera, torch.Tensor))
    close = 0.1 * expected.std()
    torch.testing.assert_close(actual.float(), expected, atol=close, rtol=0)
    base = base_model().to(torch.bfloat16)
    rounded = CameraWanTransformer3DModel.from_transformer(base, model.encoding)
    assert {parameter.dtype for parameter in rounded.camera_parameters()} <= {torch.float32}
    rounded.load_state_dict(
        {name: value for name, value in model.state_dict().items() if ENCODING_KEY in name}, strict=False
    )
    half = {name: value if name == "timestep" else value.bfloat16() for name, value in inputs.items()}
    actual = run(rounded, half, tokens)
    assert actual.dtype == torch.bfloat16
    torch.testing.assert_close(actual.float(), expected, atol=close, rtol=0)


@pytest.mark.parametrize("row", ROWS)
def test_a_method_s_own_attention_goes_through_the_processor(row, tokens, monkeypatch):
    calls, dispatch = [], attention.dispatch_attention_fn

    def remember(query, key, value, **options):
        calls.append((options["backend"], options["parallel_config"]))
        return dispatch(query, key, value, **options)

    monkeypatch.setattr(attention, "dispatch_attention_fn", remember)
    model = wake(retrofit(row))
    for block in model.blocks:
        block.attn1.processor._attention_backend = "native"
    run(model, model_inputs(model), tokens)
    branch = ROWS[row]["name"] in ("prope", "gta", "ucpe")
    assert calls == [("native", None)] * (4 if branch else 2)


@pytest.mark.parametrize("row", ROWS)
def test_the_stock_pipeline_films_it(row):
    pipe = tiny_pipeline("pixels")
    pipe.transformer = wake(
        CameraWanTransformer3DModel.from_transformer(pipe.transformer, encoding_from_config(ROWS[row]))
    )
    pipe.set_progress_bar_config(disable=True)
    frames = sl.generate(
        pipe,
        Image.new("RGB", (32, 32), "grey"),
        "a room",
        sl.moves.truck(0.5, frames=5, width=32, height=32),
        num_inference_steps=1,
        guidance_scale=1.0,
    )
    assert frames.shape == (5, 32, 32, 3)


@pytest.fixture(scope="module")
def clips():
    """Four clips of the debug recipe's kind, encoded once for all rows, and their noise."""
    pipe = tiny_pipeline("pixels")
    data = DataConfig(
        sources=("worlds:orbit?clips=6",),
        num_frames=5,
        width=32,
        height=32,
        held_out_fraction=0.2,
        max_sequence_length=32,
    )
    feed = make_feed(data, ClipEncoder(pipe), 0, batch_size=2, patch_size=(1, 2, 2), with_camera=True)
    chance = partial(draw, objective=ObjectiveConfig(shift=1.0), seed=0)
    return next(feed.micro_batches(0, 4, [slice(0, 4)], 0, torch.device("cpu"), chance))


@pytest.mark.parametrize("row", ROWS)
def test_a_few_steps_lower_the_loss(row, clips):
    """The benchmark train_every_encoding.py does this for a few hundred steps of the whole recipe."""
    torch.manual_seed(0)
    model = CameraWanTransformer3DModel.from_transformer(tiny_transformer("pixels"), encoding_from_config(ROWS[row]))
    model.train()
    settings = OptimizerConfig(max_steps=6, learning_rate=2e-3)
    trainable = choose_trainable(model, ModelConfig(trainable="all"))
    optimizer, losses = make_optimizer(trainable, settings), []
    before = {name: value.detach().clone() for name, value in model.named_parameters() if ENCODING_KEY in name}
    batch, drawn = clips
    for step in range(settings.max_steps):
        loss = flow_matching_loss(model, batch, drawn).mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trainable.values(), 1.0)
        set_learning_rate(optimizer, settings, step)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    assert losses[-1] < 0.95 * losses[0], losses
    still = [name for name, value in model.named_parameters() if name in before and torch.equal(value, before[name])]
    assert still == []


@pytest.mark.parametrize("row", ROWS)
def test_it_learns_to_tell_two_cameras_apart(row):
    """Twice the same input, with two cameras and two targets: a model that does not read the camera cannot do better than
    the targets' mean, whatever its backbone learns."""
    trajectory = smooth_trajectory()
    back = Trajectory(
        se3.inverse(trajectory.camera_to_world), trajectory.intrinsics, trajectory.width, trajectory.height
    )
    cameras = CameraTokens.batch([CameraTokens.from_trajectory(one, (3, 4, 4)) for one in (trajectory, back)])
    model = retrofit(row).train()
    inputs = {name: value.expand(2, *value.shape[1:]) for name, value in model_inputs(model).items()}
    target = torch.randn(2, 48, 3, 8, 8, generator=torch.Generator().manual_seed(1))
    blind = (target - target.mean(dim=0)).square().mean().item()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    for _ in range(100):
        optimizer.zero_grad()
        actual = model(**inputs, attention_kwargs={"camera": cameras}, return_dict=False)[0]
        loss = (actual - target).square().mean()
        if loss.item() < 0.7 * blind:
            return
        loss.backward()
        optimizer.step()
    pytest.fail(f"the loss is {loss.item()}, and {blind} without a camera")


# -- 6. counts ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row, millions", encoding_parameters.PUBLIC.items())
def test_the_counts_at_5b_are_the_public_ones(row, millions):
    """Each layer adds the same: two of 30 are counted, since all would be a billion numbers to initialise."""
    config, encoding = TI2V_5B.transformer, encoding_parameters.rows(32)[row]
    one, two = (encoding_parameters.new_parameters({**config, "num_layers": n}, encoding) for n in (1, 2))
    count = one + (config["num_layers"] - 1) * (two - one)
    assert abs(count / 1e6 - millions) < 0.5


def test_a_model_holds_one_encoding_at_a_time():
    with pytest.raises(SightlineError, match="already carries the encoding 'prope'"):
        CameraWanTransformer3DModel.from_transformer(retrofit("prope"), encoding_from_config({"name": "scope"}))
    with pytest.raises(SightlineError, match="encoding name is \\['scope', 'prope'\\]"):
        encoding_from_config({"name": ["scope", "prope"]})


def test_weights_of_another_encoding_are_refused(tmp_path):
    save_camera(wake(retrofit("gta")), tmp_path / "camera.safetensors")
    with pytest.raises(SightlineError, match="trained for the encoding Gta"):
        load_camera(retrofit("prope"), tmp_path / "camera.safetensors")
