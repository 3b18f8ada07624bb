"""From a tiny model to the page, by the commands; what is finished stays, what failed is told."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest

import sightline as sl
from sightline import cli
from sightline.data.clip_spec import ClipSpec
from sightline.errors import SightlineError
from sightline.evaluation import run as running
from sightline.evaluation.cases import Selection, StandardCases, default_sources
from sightline.evaluation.metrics.suite import Suite, SuiteScores
from sightline.evaluation.report import write_report
from sightline.evaluation.results import Counts, RunResults, Sampling, read_result
from sightline.evaluation.revisit import RevisitCases
from sightline.evaluation.run import Run
from sightline.generation.model import Model, ModelOptions
from sightline.worlds import render_clip, sample_clip
from tests.conftest import smooth_trajectory
from tests.data.layouts import Take, write_re10k
from tests.evaluation.conftest import Oracle

SMALL = "--num-frames 5 --size 64x64 --num-inference-steps 1 --guidance-scale 1"


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(running, "draw_trajectories", _touch)  # a second each; drawn once, by the revisit test


def _touch(paths, file, title, labels):
    assert len(paths) == len(labels) and all(len(one) == len(paths[0]) for one in paths)
    Path(file).touch()


@pytest.fixture
def evaluate(model_folder):
    def call(line, camera="one"):
        place = f"--model {model_folder / 'model'} --camera {model_folder / camera} {SMALL}"
        verb, *rest = line.split()
        return cli.main(["evaluate", verb, *place.split(), *rest])

    return call


class Page(HTMLParser):
    def __init__(self, file):
        super().__init__()
        self.sources, self.cards, self.options, self.links = [], [], [], []
        self.feed(Path(file).read_text())

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag in ("video", "img"):
            self.sources.append(values["src"].removesuffix("#t=0.001"))
        if tag in ("link", "script"):
            self.links.append(values.get("src") or values.get("href"))
        if tag == "option":
            self.options.append(values["value"])
        if "data-scores" in values:
            self.cards.append(json.loads(values["data-scores"]))


def test_standard_from_a_model_to_the_page_and_on_where_it_was(evaluate, oracle, capsys, monkeypatch):
    oracle.fails_on = ("00900001-0-generated",)
    line = "standard --clips 3 --metrics psnr ssim -o out"
    assert evaluate(line) == 0
    told = capsys.readouterr().out
    assert "| one |" in told and "| 3 | 2 | 1 |" in told and "the oracle is silent" in told
    results = json.loads(Path("out/results.json").read_text())
    assert results["counts"] == {"asked": 3, "generated": 3, "scored": 2, "failed": 1, "estimator_floor": 3}
    assert {clip["name"]: clip["failures"] for clip in results["clips"] if clip["failures"]} == {
        "walkthrough-00900001-0": [{"stage": "pose of the generated video", "message": "the oracle is silent"}]
    }
    assert results["means"]["psnr"]["n"] == 3 and results["means"]["rot_err_raw"]["n"] == 2
    # The oracle turns by up to 0.05 rad, growing evenly: 0.025 in the mean over 5 frames, a tenth of that on true videos.
    assert results["means"]["rot_err_raw"]["mean"] == pytest.approx(0.025, rel=1e-6)
    assert results["means"]["rot_err_raw"]["mean_of_sums"] == pytest.approx(0.125, rel=1e-6)
    assert results["means"]["rot_err_raw"]["mean_without_first"] == pytest.approx(0.03125, rel=1e-6)
    assert results["estimator_floor"]["rot_err_raw"]["mean"] == pytest.approx(0.0025, rel=1e-5)
    sampling, settings = results["settings"]["sampling"], results["settings"]
    assert (sampling["seed"], sampling["num_inference_steps"]) == (0, 1)
    assert (settings["cases"]["num_frames"], settings["metrics"]) == (5, ["psnr", "ssim"])
    assert {path.name for path in Path("out/clips/walkthrough-00900000-0").iterdir()} == {
        "generated.mp4", "true.mp4", "trajectories.png", "scores.json", "commanded.json", "estimated-from-the-true-video.json",
        "estimated-from-the-generated-video.json",
    }  # fmt: skip
    page = Page("out/report.html")
    assert len(page.cards) == 3 and sum("rot_err_raw" in card for card in page.cards) == 2
    assert page.links == [None] and "rot_err_raw" in page.options  # one script, inside the page
    assert len([source for source in page.sources if source.endswith(".mp4")]) == 6
    assert all(not Path(source).is_absolute() and (Path("out") / source).is_file() for source in page.sources)

    table = Path("out/table.md").read_text()
    assert "floor: the true videos" in table and "## Rescaled" in table
    asked, written_at = oracle.asked, Path("out/clips/walkthrough-00900000-0/generated.mp4").stat().st_mtime_ns
    monkeypatch.setattr(running, "generate", None)  # nothing is generated again, and no model is loaded
    Path("out/clips/.walkthrough-00900000-0.sightline-new").mkdir()  # as kill -9 leaves it
    assert evaluate(line) == 0 and oracle.asked == asked
    assert not Path("out/clips/.walkthrough-00900000-0.sightline-new").exists()
    assert Path("out/clips/walkthrough-00900000-0/generated.mp4").stat().st_mtime_ns == written_at
    assert Path("out/table.md").read_text() == table
    capsys.readouterr()
    assert evaluate(f"{line} --seed 5") == cli.FAULT
    assert "out holds a run with seed 0: expected 5, or another -o." in capsys.readouterr().err
    Path("other").mkdir()
    Path("other/notes.txt").touch()
    assert evaluate(line.replace("out", "other")) == cli.FAULT
    assert "other is something else" in capsys.readouterr().err


def test_without_av_the_videos_are_scored_but_not_kept(evaluate, oracle, capsys, monkeypatch):
    monkeypatch.setattr("sightline.evaluation.run.can_write_mp4", lambda: False)
    assert evaluate("standard --clips 1 --metrics psnr -o out") == 0
    assert "av is not installed" in capsys.readouterr().out and not list(Path("out").rglob("*.mp4"))
    assert json.loads(Path("out/results.json").read_text())["means"]["psnr"]["n"] == 1


def test_a_film_that_fails_is_counted_and_tried_again(evaluate, oracle, capsys, monkeypatch):
    real = running.generate

    def sometimes(*arguments, seed, **options):
        if seed == 1:
            raise SightlineError("the film tore")
        return real(*arguments, seed=seed, **options)

    line = "beyond --clips 2 --metrics none -o out"
    with monkeypatch.context() as patched:
        patched.setattr(running, "generate", sometimes)
        assert evaluate(line) == cli.FAULT
    told = capsys.readouterr().out
    assert "generation: the film tore" in told and "| 2 | 1 | 1 |" in told and "1 of 2 clips have no pose" in told
    assert re.search(r"\| one \| 0\.025/0\.025 \|", told)  # raw/rescaled
    assert evaluate(line) == 0 and "| 2 | 2 | 0 |" in capsys.readouterr().out


def test_revisit_has_four_loops_of_each_frame_and_six_metrics(evaluate, oracle, small_weights, capsys, monkeypatch):
    monkeypatch.undo()  # the paths are drawn
    monkeypatch.setattr(running, "open_estimator", lambda _: oracle)
    weights = [f"{name}={small_weights[name]}" for name in ("lpips", "dino")]
    output = Path(small_weights["lpips"]).parent / "revisit"
    line = f"revisit --clips 1 --metrics lpips dino --weights {' '.join(weights)} -o {output}"
    assert evaluate(line) == 0
    results = json.loads((output / "results.json").read_text())
    assert results["counts"]["asked"] == 4 and results["counts"]["scored"] == 4
    six = ("return_ratio", "return_rotation", "normalised_ate", "return_lpips", "lpips_recovery", "return_dino")
    assert all(results["means"][key]["groups"] == 1 and results["means"][key]["n"] == 4 for key in six)
    # The loop is over in the last frame: there the oracle has drifted by 0.05 sqrt 2 of its largest excursion.
    assert 0.06 < results["means"]["return_ratio"]["mean"] < 0.08
    assert (
        results["estimator_floor"]["return_lpips"]["mean"] < 1e-6
        and results["estimator_floor"]["lpips_recovery"]["mean"] > 0.999
    )
    head = "| Method | Return Trans. Ratio ↓ | Return Rot. (deg) ↓ | Norm. ATE ↓ | Return LPIPS ↓ | LPIPS Recovery ↑ |"
    assert head in capsys.readouterr().out
    assert (output / "plots" / "errors.png").stat().st_size > 10_000 < (output / "plots" / "clips.png").stat().st_size
    assert all((path / "trajectories.png").stat().st_size > 10_000 for path in (output / "clips").iterdir())


SHAPE = {"num_frames": 5, "width": 64, "height": 64, "num_inference_steps": 1, "guidance_scale": 1.0, "clips": 2}


def test_evaluate_in_python_is_the_command(model_folder, evaluate, oracle, capsys):
    """The same folder, whether the model is named, or loaded before; a run is resumed by either."""
    results = sl.evaluate(
        model_folder / "model", model_folder / "one", estimator=oracle, metrics=["psnr"], output="python", **SHAPE
    )
    assert (results.label, results.protocol, results.counts.scored) == ("one", "standard", 2)
    assert results == read_result(RunResults, Path("python/results.json"))
    assert results.means["rot_err_raw"].mean == pytest.approx(0.025, rel=1e-6)
    assert evaluate("standard --clips 2 --metrics psnr -o command") == 0
    written = read_result(RunResults, Path("command/results.json"))
    assert written.means == results.means and [clip.weights for clip in written.clips] == [
        clip.weights for clip in results.clips
    ]
    pipe = sl.load_pipeline(model_folder / "model", camera=model_folder / "one")
    loaded = sl.evaluate(
        pipe, label="<script>alert(1)</script>", estimator=oracle, metrics=["psnr"], output="loaded", **SHAPE
    )
    assert loaded.means == results.means
    page = Path("loaded/report.html").read_text()
    assert "&lt;script&gt;alert(1)" in page and "<script>alert" not in page
    lines = []
    assert sl.evaluate(
        pipe, label="x", estimator=oracle, metrics=["psnr"], output="loaded", on_done=lines.append, **SHAPE
    )
    assert lines[0].startswith("every clip is finished")
    with pytest.raises(SightlineError, match="protocol is 'fast'"):
        sl.evaluate(pipe, protocol="fast")
    with pytest.raises(SightlineError, match="camera is given with a pipeline"):
        sl.evaluate(pipe, "weights")


def test_an_estimator_takes_its_options_from_its_name(monkeypatch):
    import sightline.evaluation.estimators as estimators

    monkeypatch.setattr(estimators, "get_estimator", lambda name, **options: (name, options), raising=False)
    assert running.open_estimator("vipe?folder=2024&registered=0.5&timeout=3") == (
        "vipe", {"folder": "2024", "registered": 0.5, "timeout": 3.0}
    )  # fmt: skip
    assert running.open_estimator("direct") == ("direct", {})
    with pytest.raises(SightlineError, match="expected option=value"):
        running.open_estimator("vipe?folder")


def selection(clips=4):
    return Selection(
        default_sources(("walkthrough",), clips), clips, "all", 0.01, ClipSpec(num_frames=5, width=64, height=64)
    )


def test_processes_share_the_clips_and_a_camera_that_went_nowhere_cannot_win(model_folder):
    model = Model(ModelOptions(str(model_folder / "model"), model_folder / "two"))
    run = Run("standard", Path("out"), StandardCases(selection(4)), Sampling(1, 1.0), Suite([]), Oracle(frozen=True))
    running.prepare(run, model)
    done = {0: [], 1: []}
    for rank in (1, 0):
        running.work(run, model, rank=rank, processes=2, on_done=done[rank].append)
    assert [lines[0] for lines in done.values()] == ["standard: 2 of 4 clips to generate and score"] * 2
    assert [len(lines) for lines in done.values()] == [3, 3] and not run.pending()
    assert re.fullmatch(r"1 of 2 \(about \d+ s left\), walkthrough-00900001-0: scored", done[1][1])
    assert done[1][2] == "2 of 2, walkthrough-00900003-0: scored"
    results = write_report(run.output, run.cases.names, "frozen")
    assert results.counts.scored == 4
    seeds = {clip.name: clip.seed for clip in results.clips}
    assert list(seeds.values()) == [0, 1, 2, 3]
    # A frozen camera is as wrong as the trajectory is long.
    for clip in results.clips:
        distances = run.cases.load(list(seeds).index(clip.name)).trajectory.positions.norm(dim=-1)
        assert clip.generated.scores["trans_err_raw"] == pytest.approx(float(distances.mean()), rel=1e-4)
    clips = Path("out/clips")
    (clips / run.cases.names[0] / "scores.json").unlink()
    model.digests["transformer"] = "another"
    with pytest.raises(SightlineError, match="clips of other weights"):
        running.work(run, model)
    results = write_report(run.output, run.cases.names, "frozen")  # a run that was stopped says so
    assert results.counts.failed == 1 and "never generated" in results.failures[0][1].message


def test_a_model_without_a_camera_is_measured_blind_or_refused(oracle, capsys):
    line = f"evaluate standard --model tiny:ti2v-5b {SMALL} --clips 1 --metrics none -o out".split()
    assert cli.main(line) == cli.FAULT
    assert "'tiny:ti2v-5b' takes no camera: expected --camera WEIGHTS with it, or --blind" in capsys.readouterr().err
    assert cli.main([*line[:-1], "blind", "--blind"]) == 0
    told = capsys.readouterr().out
    assert ", blind | " in told and "| 1 | 1 | 0 |" in told and "Raw lengths are in metres." in told
    assert json.loads(Path("blind/settings.json").read_text())["sampling"]["blind"] is True


def test_against_the_true_video_and_a_run_in_which_nothing_was_found(model_folder):
    """As in the paper: the reference is what the estimator sees in the true video, so what it gets wrong in both cancels."""
    model = Model(ModelOptions(str(model_folder / "model"), model_folder / "two"))
    cases, oracle = StandardCases(selection(1)), Oracle(noise=0.05)
    run = Run("standard", Path("video"), cases, Sampling(1, 1.0), Suite([]), oracle, "video")
    silent = Run("standard", Path("silent"), cases, Sampling(1, 1.0), Suite([]), Oracle(fails_on=("0",)), "video")
    for one in (run, silent):
        running.prepare(one, model)
        running.work(one, model)
    results = write_report(run.output, cases.names, "two")
    assert results.means["rot_err_raw"].mean == pytest.approx(0.025 - 0.0025, rel=1e-6)
    # The floor has the same reference: the true video once more, compressed, where the oracle strays by 0.015 and not 0.005.
    assert results.estimator_floor["rot_err_raw"].mean == pytest.approx(0.005, rel=1e-5)
    table = (run.output / "table.md").read_text()
    assert "the same estimator's trajectory of the true video" in table and "the true videos, compressed" in table
    results = write_report(silent.output, cases.names, "silent")
    assert results.counts == Counts(asked=1, generated=1, scored=0, failed=1, estimator_floor=0)
    assert len(results.failures) == 2 and "| silent | 1 | 0 | 1 |" in (silent.output / "table.md").read_text()
    assert (silent.output / "report.html").is_file()


def test_what_is_no_number_is_a_failure_and_what_is_left_out_is_told(model_folder, monkeypatch):
    model = Model(ModelOptions(str(model_folder / "model"), model_folder / "two"))
    suite = Suite(["psnr"])
    suite.left_out = {"lpips": "its weights are far away."}
    monkeypatch.setattr(suite, "score", lambda *_: SuiteScores({"psnr": np.array([1.0, np.nan])}))
    run = Run("standard", Path("out"), StandardCases(selection(1)), Sampling(1, 1.0), suite, Oracle())
    running.prepare(run, model)
    running.work(run, model)
    results = write_report(run.output, run.cases.names, "two")
    assert "psnr" not in results.means and results.counts.scored == 1
    failure = results.failures[0][1]
    assert failure.stage == "psnr of the generated video" and "nan" in failure.message
    assert "NaN" not in (run.output / "results.json").read_text()
    assert "- Left out LPIPS: its weights are far away." in (run.output / "table.md").read_text()


def test_an_estimator_that_cannot_run_stops_before_the_first_film(evaluate, monkeypatch, capsys):
    class Broken:
        def estimate(self, video, hints):
            raise SightlineError("pycolmap is missing: expected `pip install sightline[eval]`.")

    with monkeypatch.context() as patched:
        patched.setattr(running, "open_estimator", lambda _: Broken())
        patched.setattr(running, "generate", None)
        assert evaluate("standard --clips 2 --metrics none -o out") == cli.FAULT
        assert "sightline: pycolmap is missing" in capsys.readouterr().err
    assert not Path("out").exists()  # nothing is in the way of the next attempt
    monkeypatch.setattr(running, "open_estimator", lambda _: Oracle())
    assert evaluate("standard --clips 1 --metrics none --seed 3 -o out") == 0


@pytest.mark.parametrize("style", ["walkthrough", "openworld"])
def test_paths_and_depth_are_in_metres_or_in_the_unit_that_a_style_reports(style):
    world = sample_clip(style, 900_000, 5, 64, 64)
    metres, positions = (
        render_clip(world.scene, world.true_trajectory).depth[0].numpy(),
        world.true_trajectory.anchored().positions,
    )
    reported = 3 * float(world.reported_trajectory.anchored().positions[-1].norm() / positions[-1].norm())
    for source, scale in ((default_sources((style,), 1)[0], 1.0), (f"worlds:{style}?seed=900000&eta=3", reported)):
        chosen = Selection((source,), 1, "all", 0.01, ClipSpec(5, width=64, height=64))
        standard, loop = StandardCases(chosen).load(0), RevisitCases(chosen).load(0)
        assert np.allclose(standard.trajectory.positions, positions * scale)
        for case in (standard, loop):
            assert case.trajectory.unit == ("metre" if scale == 1.0 else "scene")
            assert case.clip.depth is not None and np.allclose(case.clip.depth, metres * scale, rtol=1e-4)


def test_a_source_of_files_has_no_depth_and_its_loops_the_moves_own_size(tmp_path):
    take = Take(np.zeros((9, 48, 64, 3), np.uint8), smooth_trajectory(9, 64, 48))
    write_re10k(tmp_path / "re10k", take)
    chosen = Selection((f"re10k:{tmp_path / 're10k'}",), 1, "all", 0.01, ClipSpec(num_frames=5, width=64, height=48))
    case = StandardCases(chosen).load(0)
    assert case.clip.depth is None and case.ground_truth is not None and case.ground_truth.shape == (5, 48, 64, 3)
    loop = RevisitCases(chosen).load(0)
    assert loop.ground_truth is None and np.array_equal(loop.clip.frames[0], case.clip.frames[0])
    assert np.isclose(float(loop.trajectory.positions.norm(dim=-1).max()), 0.5)
    assert np.allclose(loop.trajectory.intrinsics, case.trajectory.intrinsics[0])


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("standard --clips 0", "clips is 0"),
        ("standard --metrics psnrr", "metrics has 'psnrr'"),
        ("standard --weights vgg=here", "weights is 'vgg=here'"),
        ("standard --num-frames 6", "frames is 6"),
        ("standard --context-parallel ulysses", "context_parallel is given"),
        ("standard worlds:nowhere", "the style of worlds is 'nowhere'"),
        ("standard worlds:orbit?clips=1", "holds no clip"),
        ("compare out", "expected two folders"),
        ("compare a b", "a/results.json cannot be read"),
        ("vbench", "no run is given"),
        ("vbench --results x", "expected LABEL=FILE"),
    ],
)
def test_bad_input_is_one_sentence(model_folder, line, sentence, capsys):
    verb, *rest = line.split()
    place = f"--model {model_folder / 'model'} --camera {model_folder / 'one'} {SMALL}".split()
    assert cli.main(["evaluate", verb, *(place if verb == "standard" else []), *rest]) == cli.FAULT
    error = [one for one in capsys.readouterr().err.splitlines() if not one.startswith("note:")]
    assert len(error) == 1 and sentence in error[0], error
