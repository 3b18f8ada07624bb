"""Every command of docs/evaluation.md, as written there, on small copies of the data that it names."""

from __future__ import annotations

import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline import cli
from sightline.backbones import model_info
from sightline.backbones.tiny import tiny_pipeline
from sightline.evaluation import choose, efficiency, evaluate, paper, report
from sightline.evaluation import run as running
from sightline.evaluation.metrics import suite
from sightline.generation.model import Model
from sightline.video import save_video
from tests.conftest import smooth_trajectory, wake
from tests.data.layouts import Take, write_re10k

PAGE = Path(__file__).parents[2] / "docs" / "evaluation.md"
FRAMES, SIZE = 17, 64


def commands():
    """The commands of the page's bash blocks, their continued lines joined and their comments left out."""
    blocks = re.findall(r"```bash\n(.*?)```", PAGE.read_text(), flags=re.S)
    lines = "".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if line.startswith("sightline ")]


def still(pipe, image, prompt, trajectory, **_):
    return np.repeat(np.asarray(image)[None], len(trajectory), axis=0)


@pytest.fixture
def place(tmp_path, monkeypatch, oracle, small_weights):
    """A folder in which M is a model and WEIGHTS its camera, with small data, and small networks for the large ones."""
    monkeypatch.chdir(tmp_path)
    pipe = tiny_pipeline("ti2v-5b")
    heads = {"num_attention_heads": 8, "attention_head_dim": 16}  # which every method of the paper can use
    pipe.register_modules(transformer=type(pipe.transformer).from_config({**pipe.transformer.config, **heads}))
    pipe.save_pretrained("M")
    wake(sl.attach_camera(pipe, sl.Scope()).transformer, seed=0)
    sl.save_pipeline_camera(pipe, "WEIGHTS")
    frames = np.random.default_rng(0).integers(0, 256, (FRAMES, SIZE, SIZE, 3), np.uint8)
    shot = smooth_trajectory(FRAMES, SIZE, SIZE)
    write_re10k(tmp_path / "data" / "re10k", Take(frames, shot))
    for folder in ("rgb", "pose"):
        (tmp_path / "data" / "opensora" / folder).mkdir(parents=True)
    save_video(frames, tmp_path / "data" / "opensora" / "rgb" / "c.mp4")
    shot.save(tmp_path / "data" / "opensora" / "pose" / "c.npz", format="vipe")
    small = {"num_frames": FRAMES, "width": SIZE, "height": SIZE}
    monkeypatch.setattr(model_info, "LAB", replace(model_info.LAB, **small, num_inference_steps=1))
    small_paper = {name: replace(one, **small, num_inference_steps=2) for name, one in paper.PAPER.items()}
    for module in (evaluate, efficiency):
        monkeypatch.setattr(module, "PAPER", small_paper)
    monkeypatch.setattr(paper, "PAPER", small_paper)
    real = suite.open_network
    monkeypatch.setattr(suite, "open_network", lambda name, weights, device: real(name, small_weights, device))
    monkeypatch.setattr(choose, "which", lambda _: None)
    monkeypatch.setattr(running, "generate", still)  # other tests generate
    monkeypatch.setattr(Model, "require_memory", lambda *_, **__: None)  # an estimate that takes longer than the rest
    monkeypatch.setattr(running, "draw_trajectories", lambda paths, file, *_: Path(file).touch())
    monkeypatch.setattr(report, "draw_plots", lambda *_: [])
    monkeypatch.setattr("sightline.evaluation.compare.draw_plots", lambda *_: [])
    return tmp_path


def test_the_page_s_commands_run_as_written(place, oracle, capsys):
    pytest.importorskip("pycolmap")
    found = commands()
    assert len(found) == 8 and found[0] == ["sightline", "evaluate", "standard"]
    for _, *words in found:
        # On real data the estimator is ViPE, in metres, or COLMAP without depth.
        is_paper, has_source = "paper" in words, any(":" in word for word in words)
        oracle.own_unit = "metre" if is_paper else "arbitrary" if has_source else None
        words = [word.replace(":/data", f":{place}/data") for word in words]
        if not has_source and words[1] == "standard":
            words += ["--clips", "1"]  # of 16 worlds
        code = cli.main(words)
        told = capsys.readouterr()
        assert code == 0, (words, told.err)
    for folder in ("standard", "scope", "blind", "compare", "revisit", "efficiency", "quick", "beyond"):
        assert list(Path("outputs", folder).glob("*.json"))
