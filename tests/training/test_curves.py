"""Loss curves from the logs of runs."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image

from sightline.cli import main
from sightline.errors import SightlineError
from sightline.training.curves import read_log, running_mean


def write_log(folder, losses):
    folder.mkdir()
    lines = [json.dumps({"step": step, "loss": loss}) for step, loss in enumerate(losses)]
    lines.append(json.dumps({"validation": len(losses), "loss": losses[-1], "loss_without_camera": 2 * losses[-1]}))
    (folder / "log.jsonl").write_text("\n".join([*lines, '{"step": 9, "lo']))  # killed while writing
    return folder


def test_a_running_mean_looks_back_only():
    assert np.allclose(running_mean([1.0, 3.0, 5.0, 7.0], 2), [1, 2, 4, 6])


def test_the_curves_of_runs_are_drawn(tmp_path):
    runs = [write_log(tmp_path / name, losses) for name, losses in {"a": [2.0, 1.0], "b": [3.0, 2.5, 2.0]}.items()]
    assert len(read_log(runs[0])) == 3
    stage = tmp_path / "vae"  # as a stage of the lab leaves it
    stage.mkdir()
    (stage / "measured.json").write_text(json.dumps({"psnr": 30.0, "curve": [{"step": 50, "loss": 0.5}]}))
    assert read_log(stage) == [{"step": 50, "loss": 0.5}]
    assert main(["train", "plot", *map(str, (*runs, stage)), "-o", str(tmp_path / "losses.png")]) == 0
    assert Image.open(tmp_path / "losses.png").size[0] > 400


@pytest.mark.parametrize(
    "arguments, sentence",
    [
        (["nowhere"], "nowhere has no log.jsonl or measured.json: expected"),
        (["a", "--window", "0"], "window is 0: expected"),
        (["a", "-o", "losses.xyz"], "expected one of .png"),
        (["empty"], "holds no step: expected"),
    ],
)
def test_what_cannot_be_drawn_is_one_sentence(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    write_log(tmp_path / "a", [1.0])
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "log.jsonl").write_text("")
    assert main(["train", "plot", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a", "empty"]


@pytest.mark.parametrize(
    "line, sentence",
    [
        ('{"step": 1, "loss": "low"}', "line 2: loss is 'low': expected a number"),
        ('{"step": null, "loss": 1}', "line 2: step is None: expected a number"),
        ('{"validation": [1], "loss": 1}', "line 2: validation is a list of 1"),
    ],
)
def test_a_line_with_another_type_is_named(line, sentence, tmp_path):
    (tmp_path / "log.jsonl").write_text('{"step": 0, "loss": 1.0}\n' + line + "\n")
    with pytest.raises(SightlineError, match=sentence):
        read_log(tmp_path)
