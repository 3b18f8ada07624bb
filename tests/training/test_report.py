"""Trackers: what TensorBoard and wandb receive, and the errors where they are not installed."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import pytest
from accelerate import Accelerator

from sightline.errors import SightlineError
from sightline.training import trainer
from sightline.training.report import Report, make_tracker
from tests.training.conftest import changed

VIDEO = np.full((9, 4, 6, 3), 255, dtype=np.uint8)  # [T, H, W, 3]


def report_everything(recipe, run):
    with Report(run, recipe, Accelerator(cpu=True)) as report:
        report.log_step(3, 0.5, 1.5, 1e-3, seconds=2.0, throughput={"tokens_per_second": 50.0, "mfu": 0.4})
        report.log_validation({"loss": 0.25, "alpha_q/0": 0.75}, 4)
        report.video("true beside generated 0", VIDEO, 4)


def test_tensorboard_gets_scalars_and_a_strip_of_frames(small, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    report_everything(changed(small, report_to="tensorboard"), tmp_path / "run")
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard")).Reload()
    scalars = {tag: (events.Scalars(tag)[0].step, events.Scalars(tag)[0].value) for tag in events.Tags()["scalars"]}
    assert scalars["train/loss"] == (3, 0.5) and scalars["train/grad_norm"] == (3, 1.5)
    assert scalars["train/clips_per_second"] == (3, small.optimizer.batch_size / 2)
    assert scalars["train/tokens_per_second"] == (3, 50) and scalars["train/mfu"][1] == pytest.approx(0.4)
    assert scalars["validation/loss"] == (4, 0.25) and scalars["validation/alpha_q/0"] == (4, 0.75)
    (picture,) = events.Images("true beside generated 0")
    assert picture.step == 4
    assert (picture.height, picture.width % 6) == (4, 0) and 2 * 6 <= picture.width <= 9 * 6


def test_a_run_writes_its_curves(small, tmp_path):
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    recipe = changed(
        changed(small, "optimizer", max_steps=2), "validation", num_videos=1, num_inference_steps=1, guidance_scale=1.0
    )
    run = trainer.train(changed(recipe, report_to="tensorboard"))
    events = EventAccumulator(str(run / "tensorboard")).Reload()
    logged = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    losses = [line["loss"] for line in logged if "step" in line]
    assert [event.value for event in events.Scalars("train/loss")] == pytest.approx(losses)
    assert "validation/loss_without_camera" in events.Tags()["scalars"]
    assert events.Tags()["images"] == ["true beside generated 0"]


class FakeWandb(types.ModuleType):
    """Notes the calls that a run makes."""

    def __init__(self):
        super().__init__("wandb")
        self.calls = []

    def init(self, **settings):
        self.calls.append(("init", settings))
        return self

    def define_metric(self, name, step_metric):
        self.calls.append(("define_metric", (name, step_metric)))

    def log(self, content):
        self.calls.append(("log", content))

    def finish(self, **settings):
        self.calls.append(("finish", settings))

    @staticmethod
    def Video(frames, fps):
        return ("video", frames.shape, fps)


def test_wandb_gets_settings_numbers_and_videos_and_is_closed(small, tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    recipe = changed(small, report_to="wandb")
    report_everything(recipe, tmp_path / "run")
    (first, settings), *logged, (last, _) = wandb.calls
    assert first == "init" and last == "finish"
    assert settings["name"] == "run" and settings["dir"] == str(tmp_path / "run")
    assert settings["config"]["optimizer"]["learning_rate"] == recipe.optimizer.learning_rate
    assert logged[0] == ("define_metric", ("*", "step"))
    contents = [content for name, content in logged if name == "log"]
    assert contents[0]["step"] == 3 and contents[0]["train/loss"] == 0.5 and contents[0]["train/learning_rate"] == 1e-3
    assert {"validation/loss": 0.25, "validation/alpha_q/0": 0.75, "step": 4} in contents
    assert {"true beside generated 0": ("video", (9, 3, 4, 6), 16), "step": 4} in contents
    assert len(contents) == 3  # one for each moment, not one for each number


def test_a_run_that_stops_closes_its_tracker(small, tmp_path, monkeypatch):
    wandb = FakeWandb()
    monkeypatch.setitem(sys.modules, "wandb", wandb)
    with pytest.raises(KeyboardInterrupt), Report(tmp_path, changed(small, report_to="wandb"), Accelerator(cpu=True)):
        raise KeyboardInterrupt
    assert wandb.calls[-1] == ("finish", {"exit_code": 1})


@pytest.mark.parametrize(
    "log, module, advice",
    [("wandb", "wandb", "pip install wandb"), ("tensorboard", "torch.utils.tensorboard", "pip install tensorboard")],
)
def test_a_missing_tracker_is_one_sentence(small, tmp_path, monkeypatch, log, module, advice):
    monkeypatch.setitem(sys.modules, module, None)  # importing it raises ImportError
    with pytest.raises(SightlineError, match=advice) as caught:
        make_tracker(changed(small, report_to=log), tmp_path)
    assert "\n" not in str(caught.value)
    with pytest.raises(SightlineError, match=advice):
        report_everything(changed(small, report_to=log), tmp_path)


def test_no_tracker_is_no_tracker(small, tmp_path):
    assert make_tracker(small, tmp_path) is None


def test_a_folder_that_cannot_be_made_is_one_sentence(small, tmp_path):
    (tmp_path / "file").write_text("")
    for taken in (tmp_path / "file", tmp_path / "file" / "run"):
        with pytest.raises(SightlineError, match="cannot be written"):
            report_everything(small, taken)
