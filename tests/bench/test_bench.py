"""The bench verb, rehearsed at tiny size: every row runs, ratios are of what was measured, json and picture are written."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from diffusers import WanTransformer3DModel

from benchmarks import cost_growth, efficiency_5b, film_5b, profile_step
from sightline.backbones import fused, low_precision_linear
from sightline.backbones.wan_configs import TI2V_5B
from sightline.bench import run
from sightline.bench.clocks import medians
from sightline.bench.models import METHODS, MODES, Setting, call_arguments, random_base, variant
from sightline.bench.random_pipeline import random_pipeline
from sightline.bench.run import all_rows, deviation
from sightline.cli import main
from sightline.errors import SightlineError
from sightline.kernels import ops


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins in place of Triton's interpreter, which is slow and tested elsewhere."""
    monkeypatch.setattr(ops, "usable", lambda x: False)
    monkeypatch.setattr(fused, "usable", lambda x: False)


def by_name(table):
    return {" ".join(filter(None, (row["method"], row["mode"]))): row for row in table["rows"]}


@pytest.mark.usefixtures("quick")
def test_a_rehearsal_measures_every_row(tmp_path, capsys):
    arguments = ["bench", "--tiny", "--layers", "1", "--steps", "1", "-o", str(tmp_path)]
    assert (
        main([*arguments, "--modes", "eager", "fused", "--rival-modes", "fused", "--what", "inference", "training"])
        == 0
    )
    result = json.loads((tmp_path / "bench.json").read_text())["results"][0]
    for what in ("inference", "training"):
        rows = by_name(result[what])
        assert set(rows) == {"roofline", "stock eager", "scope eager", *(f"{method} fused" for method in METHODS)}
        seconds = {name: row["time"]["seconds"] for name, row in rows.items()}
        for name, row in rows.items():
            assert row["over_roofline"] == pytest.approx(seconds[name] / seconds["roofline"])
        ratio = seconds["scope fused"] / seconds["ucpe fused"]
        ratios = {(one["method"], one["mode"]): one["ratio"] for one in result[what]["scope_over"]}
        assert ratios["ucpe", "fused"] == pytest.approx(ratio)
    rows = by_name(result["inference"])
    assert rows["scope eager"]["deviation"]["rms"] == 0.0  # untrained: the same bits
    assert rows["ucpe fused"]["deviation"] is None
    models = ["--model", "5b", "14b", "--methods", "stock", "--modes", "eager", "--what", "inference", "kernels"]
    assert main([*arguments, *models]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["command"].startswith("sightline bench --tiny --layers 1")
    assert [one["model"] for one in written["results"]] == ["5b", "14b"]
    for one in written["results"]:
        kernels = {row["name"]: row for row in one["kernels"]}
        for name in ("qk with camera, fused", "qk with Sweep, fused"):
            assert kernels[name]["with_backward_ms"] > 0
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert "x roofline" in capsys.readouterr().out


def test_how_far_an_output_is_from_the_stock_model_s():
    stock = torch.tensor([3.0, -3.0, 3.0, -3.0])
    difference = deviation(stock + torch.tensor([0.3, 0.3, 0.3, 0.9]), stock)
    assert difference.rms == pytest.approx((3 * 0.3**2 + 0.9**2) ** 0.5 / 2 / 3)
    assert difference.largest == pytest.approx(0.9 / 3)


@pytest.mark.parametrize(
    "options, message",
    [
        (["--what"], "--what is empty: expected at least one, each once."),
        (["--rival-modes"], "--rival-modes is empty"),
        (["--methods", "stock", "stock"], "--methods is stock stock"),
        (["--num-frames", "6"], "frames is 6: expected 4 n + 1, the nearest is 5."),
        (["--num-frames", "0"], "frames is 0: expected a whole number"),
        (["--size", "100x70"], "size is 100x70: expected multiples of 32 at 5b, the nearest is 96x64."),
        (["--size", "16x16"], "the nearest is 32x32"),
        (["--methods", "nothing"], "encoding name is 'nothing'"),
        (["--layers", "31"], "layers is 31: expected at most 30 at 5b."),
        (["-o", "/proc/nowhere"], "output /proc/nowhere cannot be written"),
    ],
)
def test_what_cannot_be_measured_is_one_sentence_before_anything_is(options, message, capsys):
    assert main(["bench", "--tiny", *options]) == 2
    assert message in (told := capsys.readouterr()).err and not told.out


@pytest.mark.usefixtures("quick")
def test_a_row_without_room_says_so_and_the_next_is_measured(monkeypatch):
    def full(*_):
        raise torch.cuda.OutOfMemoryError

    setting = Setting.from_options("5b", 1, tiny=True)
    monkeypatch.setattr(run, "roofline_step", full)
    monkeypatch.setattr(run, "deviation", full)  # no room to compare
    result = run.bench(setting, ["inference"], [("stock", "eager"), ("ucpe", "eager")], 1, lambda line: None)
    assert result.inference is not None
    roofline, stock, ucpe = result.inference.rows
    for row, name in ((roofline, "roofline"), (stock, "stock eager")):
        assert (row.name, row.failed, row.time) == (name, "out of memory", None)
    assert ucpe.name == "ucpe eager" and ucpe.time is not None and ucpe.time.seconds > 0
    monkeypatch.setattr(run, "random_base", full)
    with pytest.raises(SightlineError, match="5b itself does not fit into the GPU's memory"):
        run.bench(setting, ["inference"], [], 1, lambda line: None)


@pytest.mark.usefixtures("quick")
def test_the_scripts_of_growth_and_of_profiles(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(cost_growth, "TINY_VIDEOS", cost_growth.TINY_VIDEOS[:1])
    cost_growth.main(tmp_path, layers=1, steps=1, tiny=True)
    assert json.loads((tmp_path / "growth.json").read_text())["videos"][0]["tokens"] == 12
    assert (tmp_path / "growth.png").stat().st_size > 10_000
    profile_step.main(layers=1, rows=("roofline", "sweep fused"), steps=1, most=3, tiny=True)
    assert "sweep fused: " in (told := capsys.readouterr().out) and "aten::addmm" in told
    with pytest.raises(SightlineError, match="rows has 'scope quick'"):
        profile_step.main(rows=("roofline", "scope quick"), tiny=True)


@pytest.mark.usefixtures("quick")
def test_a_row_in_fp8_lies_close_to_the_stock_model_and_has_no_training(monkeypatch):
    monkeypatch.setattr(
        low_precision_linear, "_MIN_PARAMETERS", 2**10
    )  # so that the layers of a tiny model count as large
    setting, rows = Setting.from_options("5b", 1, tiny=True), [("stock", "fused"), ("stock", "fused fp8 compiled")]
    result = run.bench(setting, ["inference", "training"], rows, 1, lambda line: None)
    torch._dynamo.reset()
    assert result.inference is not None and result.training is not None
    fused_row, fp8 = (row.deviation.rms for row in result.inference.rows[1:])
    assert fused_row < 1e-5 < fp8 < 0.03
    assert result.training.rows[2].failed == "FP8 has no gradients"
    assert run._why_no_fp8_row(Setting("5b"), False, torch.device("cpu")) == "FP8 needs an NVIDIA GPU"


def test_the_script_of_the_paper_s_efficiency_table(tmp_path):
    efficiency_5b.main(num_inference_steps=2, output=tmp_path / "table", folder=tmp_path, tiny=True)
    results = json.loads((tmp_path / "table/results.json").read_text())
    assert [method["label"] for method in results["methods"]] == ["ucpe", "prope", "scope"]
    assert all(method["failure"] is None and method["step_seconds"]["mean"] > 0 for method in results["methods"])
    assert "num_inference_steps is 2, the paper's 50" in results["settings"]["paper"]["deviations"]
    assert "| scope | Additive Q/K injection |" in (tmp_path / "table/table.md").read_text()
    assert [path.name for path in tmp_path.iterdir()] == ["table"]


@pytest.mark.usefixtures("quick")
def test_compiled_rows_are_the_same_model():
    setting = Setting("5b", 1, 9, 64, 64, tiny=True)
    base = random_base(setting, torch.device("cpu"))
    outputs = []
    for mode in ("eager", "compiled"):
        torch._dynamo.reset()
        model = variant(base, "scope", mode, setting)
        with torch.no_grad():
            outputs.append(model(**call_arguments(model, setting, torch.device("cpu"), torch.float32))[0])
    torch.testing.assert_close(*outputs)
    assert len(all_rows()) == 2 * len(MODES) + len(METHODS) - 2


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_without_a_gpu_it_says_so_in_one_sentence(capsys, tmp_path):
    assert main(["bench", "-o", str(tmp_path)]) == 2
    assert "bench needs a CUDA GPU and there is none: expected one, or --tiny" in capsys.readouterr().err
    assert main(["bench", "--tiny", "--size", "big"]) == 2
    assert "size is 'big': expected WIDTHxHEIGHT" in capsys.readouterr().err


def test_clocks_are_medians_of_whole_lines():
    assert medians("1980, 310.5\n1200, 690.1\n[N/A], 3\n1500, 700.0\n17") == (1500.0, 690.1)
    assert medians("") == (None, None)


@pytest.mark.usefixtures("quick")
def test_sana_wm_and_settings_of_a_method_are_timed(tmp_path, capsys):
    arguments = ["bench", "--tiny", "--steps", "1", "--what", "inference", "--modes", "eager", "-o", str(tmp_path)]
    assert main([*arguments, "--model", "sana-wm", "--methods", "stock"]) == 0
    rows = by_name(json.loads((tmp_path / "bench.json").read_text())["results"][0]["inference"])
    assert set(rows) == {"stock eager"} and rows["stock eager"]["time"]["seconds"] > 0
    branch = "prope?whole_heads=true"  # HY-WorldPlay's
    assert main([*arguments, "--layers", "1", "--methods", "stock", branch, "--rival-modes", "eager"]) == 0
    rows = by_name(json.loads((tmp_path / "bench.json").read_text())["results"][0]["inference"])
    assert f"{branch} eager" in rows
    for wrong in (["--methods", "scope"], ["--methods", "stock", "--what", "training"]):
        assert main([*arguments, "--model", "sana-wm", *wrong]) == 2
    assert "expected --what inference --methods stock --modes eager compiled." in capsys.readouterr().err


def test_a_random_pipeline_has_the_dtypes_of_a_loaded_one(tmp_path):
    transformer = {**TI2V_5B.transformer, **film_5b._TINY}
    small = replace(TI2V_5B, transformer=transformer, vae={**TI2V_5B.vae, "base_dim": 4, "decoder_base_dim": 4})
    pipe = random_pipeline(small, torch.device("cpu"))
    pipe.transformer.save_pretrained(tmp_path)
    loaded = WanTransformer3DModel.from_pretrained(tmp_path, torch_dtype=torch.bfloat16)
    made = {name: tensor.dtype for name, tensor in pipe.transformer.named_parameters()}
    assert made == {name: tensor.dtype for name, tensor in loaded.named_parameters()}
    assert {buffer.dtype for buffer in pipe.transformer.buffers()} == {buffer.dtype for buffer in loaded.buffers()}
    assert pipe.vae.dtype == torch.float32 and pipe.transformer.dtype == torch.bfloat16


def test_a_rehearsal_of_whole_films_reports_every_row(tmp_path, monkeypatch):
    rows = ("stock", "fast", "exact", "faster", "fastest")
    set_speed = film_5b.sl.set_speed

    def refuse(pipe, level, **options):
        if level == "faster":
            raise TypeError("a kernel\nrefuses")
        return set_speed(pipe, level, **options)

    monkeypatch.setattr(film_5b.sl, "set_speed", refuse)
    costs = {cost.row: cost for cost in film_5b.main(rows=rows, tiny=True, output=tmp_path)}
    measured = tuple(row for row in rows if row != "faster")
    assert tuple(costs) == measured and (tmp_path / "film.png").stat().st_size > 0
    written = json.loads((tmp_path / "film.json").read_text())
    assert [row["row"] for row in written["rows"]] == list(measured) and written["failed"] == {"faster": "a kernel"}
    assert costs["exact"].latents_off == 0 and costs["fast"].latents_off < 0.01  # though exact came later
    for cost in costs.values():
        assert cost.rest == pytest.approx(cost.seconds - cost.transformer, abs=2e-3)
        assert 0 < cost.decoding < cost.rest
