"""The bench verb, rehearsed at tiny size: every row runs, ratios are of what was measured, json and picture are written."""

from __future__ import annotations

import json

import pytest
import torch

from sightline.backbones import fused
from sightline.bench.clocks import medians
from sightline.bench.models import METHODS, MODES, Setting, call_arguments, random_base, variant
from sightline.bench.run import all_rows
from sightline.cli import main
from sightline.kernels import ops


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twins in place of Triton's interpreter, which is slow and tested elsewhere."""
    monkeypatch.setattr(ops, "usable", lambda x: False)
    monkeypatch.setattr(fused, "usable", lambda x: False)


@pytest.mark.usefixtures("quick")
def test_a_rehearsal_measures_every_row(tmp_path, capsys):
    arguments = ["bench", "--tiny", "--layers", "1", "--steps", "1", "-o", str(tmp_path)]
    assert (
        main([*arguments, "--modes", "eager", "fused", "--rival-modes", "fused", "--what", "inference", "training"])
        == 0
    )
    found = json.loads((tmp_path / "bench.json").read_text())["results"][0]
    for what in ("inference", "training"):
        rows = found[what]
        assert set(rows) == {"floor", "stock eager", "scope eager", *(f"{method} fused" for method in METHODS)}
        for row in rows.values():
            assert row["over_floor"] == pytest.approx(row["seconds"] / rows["floor"]["seconds"])
        ratio = rows["scope fused"]["seconds"] / rows["ucpe fused"]["seconds"]
        assert found[f"scope over, {what}"]["ucpe, fused"] == pytest.approx(ratio)
    assert found["inference"]["scope eager"]["off_stock_most"] == 0.0  # untrained: the same bits
    assert found["inference"]["scope fused"]["off_stock_most"] < 1e-4
    assert "off_stock" not in found["inference"]["ucpe fused"]
    models = ["--model", "5b", "14b", "--methods", "stock", "--modes", "eager", "--what", "inference", "kernels"]
    assert main([*arguments, *models]) == 0
    written = json.loads((tmp_path / "bench.json").read_text())
    assert written["command"].startswith("sightline bench --tiny --layers 1")
    assert [one["model"] for one in written["results"]] == ["5b", "14b"]
    assert all(one["kernels"]["qk with camera, fused"]["with_backward_ms"] > 0 for one in written["results"])
    assert (tmp_path / "bench.png").stat().st_size > 10_000
    assert "x floor" in capsys.readouterr().out


@pytest.mark.usefixtures("quick")
def test_compiled_rows_are_the_same_model(monkeypatch):
    setting = Setting("5b", 1, 9, 64, 64, tiny=True)
    base = random_base(setting, torch.device("cpu"), torch.float32)
    outputs = []
    for mode in ("eager", "compiled"):
        torch._dynamo.reset()
        model = variant(base, "scope", mode, setting, "aot_eager")
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
    assert medians("1980, 310.5\n1200, 690.1\n[N/A], 3\n1500, 700.0\n17") == {"sm_mhz": 1500.0, "watts": 690.1}
    assert medians("") == {}
