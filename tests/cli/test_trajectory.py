"""The trajectory verb, called in process: what it writes, what it prints, and one sentence for every fault."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

import sightline
from sightline import cli
from sightline.cameras import moves
from sightline.cameras.trajectory import Trajectory
from sightline.generation.job import Job
from sightline.generation.model import model_info
from sightline.generation.shot import make_shot


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")


def run(line: str, *more: str) -> int:
    return cli.main(["trajectory", *line.split(), *more])


def test_make_show_convert_compare(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make -o path.json --frames 9 --size 640x352 --fps 24 --plot made.png", "orbit:30+zoom:28>50") == 0
    made = Trajectory.load("path.json")
    assert (len(made), made.width, made.height, made.fps) == (9, 640, 352, 24.0)
    assert Path("made.png").exists()
    assert "28 to 50 mm" in capsys.readouterr().out

    assert run("show path.json") == 0
    assert "drew path.trajectory.png" in capsys.readouterr().out
    assert Path("path.trajectory.png").exists()

    assert run("convert path.json path.txt --to re10k --scale 2 --frames 17 --size 320x176 --anchor") == 0
    assert "it loses image size" in capsys.readouterr().out
    converted = Trajectory.load("path.txt", width=320, height=176)
    assert len(converted) == 17
    assert float(converted.positions[-1].norm()) == pytest.approx(2 * float(made.positions[-1].norm()))

    assert run("convert path.txt back.json --frames 9 --width 320 --height 176") == 0
    assert run("compare path.json back.json --plot both.svg") == 0
    printed = capsys.readouterr().out
    assert "path length of back.json / path.json: 2" in printed
    assert "rotation (degrees)" in printed
    assert Path("both.svg").exists()


def test_lengths_in_different_units_are_not_compared(capsys: pytest.CaptureFixture[str]) -> None:
    made = sightline.moves.truck(1.0, frames=5, width=64, height=64)
    made.save("scene.json")
    made.replace(unit="metre", fps=8).save("metre.json")
    assert run("compare scene.json metre.json --plot both.png") == 0
    printed = capsys.readouterr().out
    assert "lengths are not compared: scene.json is in the unit of the data, metre.json is in metres" in printed
    assert "duration: scene.json 0.25 s, metre.json 0.5 s" in printed
    assert "translation (" not in printed and "path length" not in printed and Path("both.png").exists()
    assert run("show scene.json metre.json") == 0
    assert "lengths are in different units: scene.json is in the unit of the data" in capsys.readouterr().out


def test_where_the_camera_ends_is_said_in_words_and_far_moves_are_noted(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make", "truck:-1+dolly:-2") == 0
    printed = capsys.readouterr()
    assert "2.236 (1 left, 2 backward) scene" in printed.out and printed.err == ""
    assert run("make --dry-run", "dolly in 1000") == 0
    assert "note: move 'dolly in 1000': the camera moves 1000 units from where it starts" in capsys.readouterr().err


def test_make_writes_nothing_unless_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make orbit:30") == 0
    assert "path length" in capsys.readouterr().out
    assert list(Path().iterdir()) == []


def test_make_passes_lens_and_easing_and_leaves_loops_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("make truck:1 -o a.json --focal-mm 50 --easing ease --frames 9") == 0
    assert Trajectory.load("a.json").camera_to_world.equal(moves.truck(1, easing="ease", frames=9).camera_to_world)
    assert "50 mm" in capsys.readouterr().out
    assert run("make loop_truck:1 -o b.json --frames 81") == 0
    assert Trajectory.load("b.json").camera_to_world.equal(moves.loop_truck(1).camera_to_world)


WORDS = "slow push in, then orbit right 45"


@pytest.mark.parametrize("options", ["", "--easing ease --fps 12", "--focal-mm 35 --target-depth 3", "--size 160x96"])
def test_the_same_words_give_the_same_shot_made_read_or_generated(options: str) -> None:
    assert run(f"make -o path.json {options}", WORDS) == 0
    made, info = Trajectory.load("path.json"), model_info(None)
    given = dict(zip(options.replace("-", "_").split()[::2], options.split()[1::2], strict=True))
    types = {"__easing": str, "__size": str}
    job = Job(**{name[2:]: types.get(name, float)(value) for name, value in given.items()})
    named = make_shot(replace(job, move=WORDS), info).trajectory
    filed = make_shot(Job(trajectory=Path("path.json"), size=job.size), info).trajectory
    for shot in (named, filed):
        assert (len(shot), shot.width, shot.height, shot.fps) == (len(made), made.width, made.height, made.fps)
        assert shot.camera_to_world.equal(made.camera_to_world) and shot.intrinsics.equal(made.intrinsics)


def test_dry_run_describes_the_shot_in_one_line_and_writes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    line = (
        "dolly in 0.25, then orbit right 45 degrees; distance 1.821 scene units, rotation 45 degrees, lens 28 mm, "
        "2 s at 16 fps, 33 frames of 128x128; radius "
    )
    assert run("make --dry-run -o path.json", WORDS) == 0
    assert capsys.readouterr().out == f"{line}2 (default)\n"
    assert cli.main(["generate", "--dry-run", "--move", WORDS]) == 0
    assert capsys.readouterr().out == f"outputs/generate: {line}2 (default)\n"
    assert run("make --dry-run --target-depth 2", WORDS) == 0
    assert capsys.readouterr().out == f"{line}2 (--target-depth)\n"
    assert run("make --dry-run", "orbit:45:3 for 3 s") == 0
    assert "3 s at 16 fps, 49 frames of 128x128; radius 3 (the move)" in capsys.readouterr().out
    for name in ("--frames", "--num-frames"):  # both in both commands
        assert run(f"make --dry-run {name} 49", "orbit:45") == 0
        assert cli.main(["generate", "--dry-run", "--move", "orbit:45", name, "49"]) == 0
        made, generated = capsys.readouterr().out.splitlines()
        assert generated == f"outputs/generate: {made}" and "49 frames of 128x128" in made
    assert list(Path().iterdir()) == []


def test_files_of_the_same_name_are_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    for place in ("a", "b"):
        moves.truck(frames=5).save(f"{place}/path.json")
    moves.static(frames=5).save("c.json")
    assert run("show a/path.json b/path.json c.json --plot out.png") == 0
    printed = capsys.readouterr().out
    assert "a/path.json" in printed and "b/path.json" in printed and "/c.json" not in printed
    assert run("compare a/path.json b/path.json") == 0
    assert "path length of b/path.json / a/path.json: 1" in capsys.readouterr().out


def test_compare_with_a_camera_that_does_not_move(capsys: pytest.CaptureFixture[str]) -> None:
    moves.static(frames=5).save("still.json")
    moves.truck(0.5, frames=5).save("truck.json")
    assert run("compare still.json truck.json") == 0
    assert "path length: still.json does not move, truck.json moves 0.5 scene" in capsys.readouterr().out
    assert run("compare truck.json still.json") == 0
    assert "path length: still.json does not move, truck.json moves 0.5 scene" in capsys.readouterr().out
    assert run("compare still.json still.json") == 0
    assert "neither still.json nor still.json moves" in capsys.readouterr().out


def test_show_several_files_in_one_table_and_one_picture(capsys: pytest.CaptureFixture[str]) -> None:
    moves.orbit(frames=9).save("one.json")
    moves.dolly(frames=5).save("two[bold].json")  # not read as markup
    assert run("show one.json two[bold].json --plot out.pdf") == 0
    printed = capsys.readouterr().out
    assert "two[bold].json" in printed
    assert Path("out.pdf").exists()


def test_no_command_imports_what_it_does_not_use() -> None:
    """sympy takes most of a second, matplotlib half of one, diffusers several. One process runs all commands."""
    moves.orbit(frames=5).save("path.json")
    script = """
import sys
from sightline import cli
for line in ("make orbit:30 -o made.json", "convert path.json out.tum", "compare path.json path.json", "show path.json"):
    slow = {"sympy", "diffusers", "transformers", "scipy"} | ({"matplotlib"} if "show" not in line else set())
    assert cli.main(["trajectory", *line.split()]) == 0
    assert not slow & set(sys.modules), (line, slow & set(sys.modules))
assert cli.main(["generate", "--dry-run"]) == 0 and cli.main(["generate", "--move", "fly:1"]) == cli.FAULT
assert not {"diffusers", "transformers"} & set(sys.modules), "generate"
"""
    environment = os.environ | {"PYTHONPATH": str(Path(sightline.__file__).parents[1])}
    result = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False, env=environment
    )
    assert result.returncode == 0, result.stderr


def test_show_latent_frames(capsys: pytest.CaptureFixture[str]) -> None:
    moves.truck(1.0, frames=81).save("path.json")
    assert run("show path.json --latent --plot out.png") == 0
    assert "21, 5 s at 4 fps" in capsys.readouterr().out
    moves.truck(1.0, frames=80).save("path.json")
    assert run("show path.json --latent") == cli.FAULT
    assert "path.json has 80 frames: expected 4 k + 1" in capsys.readouterr().err


def test_reader_options_pass_through(capsys: pytest.CaptureFixture[str]) -> None:
    moves.truck(1.0, frames=5).save("path.npy", format="panshot")
    assert run("show path.npy --width 640 --height 352 --option x_fov=90 --plot out.png") == 0
    printed = capsys.readouterr().out
    assert "640x352" in printed
    assert "90 degrees across" in printed


def test_notes_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    moves.static(frames=2).replace(xi=0.5).save("wide.json")
    assert run("make", "push in:0.5") == 0
    assert "note: push in is read as dolly in." in capsys.readouterr().err
    assert run("convert wide.json wide.tum") == 0
    assert "note: wide.tum: TUM trajectory cannot carry xi = 0.5" in capsys.readouterr().err


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("moves") == 0
    printed = capsys.readouterr().out
    assert all(name in printed for name in moves.MOVES)
    assert "degrees > 0" in printed and "orbit right 45 over 3 s" in printed and "pull (out)" in printed
    assert run("formats") == 0
    assert "re10k" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments, message",
    [
        (["make", "wobble:3"], "move is 'wobble:3': found the word 'wobble', expected one of static, pan"),
        (["make", "pan:30", "--frames", "0"], "frames is 0"),
        (["make", "pan:30", "--size", "832"], "size is '832': expected WIDTHxHEIGHT"),
        (["make", "pan:30", "--easing", "bouncy"], "easing is 'bouncy'"),
        (["make", "pan:30", "-o", "a.json", "--format", "abc"], "format is 'abc'"),
        (["make", "pan:30", "-o", "x.xyz"], "x.xyz has the ending '.xyz': expected one of .json"),
        (["make", "pan:30", "--plot", "a.gif"], "a.gif has the suffix '.gif'"),
        (["show", "good.json", "-o", "a.gif"], "a.gif has the suffix '.gif'"),
        (["compare", "good.json", "good.json", "-o", "a.gif"], "a.gif has the suffix '.gif'"),
        (["show"], "files is empty"),
        (["show", "nowhere.json"], "nowhere.json: found nothing there"),
        (["show", "good.json", "--option", "x"], "option is 'x': expected NAME=VALUE"),
        (["show", "good.json", "--width", "5"], "width is no option for reading sightline"),
        (["compare", "good.json", "long.json"], "b has 7 frames: expected 5"),
    ],
)
def test_faults_are_one_sentence_and_exit_code_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    moves.static(frames=5).save("good.json")
    moves.static(frames=7).save("long.json")
    assert cli.main(["trajectory", *arguments]) == cli.FAULT
    error = capsys.readouterr().err
    assert error.startswith(f"sightline: {message}")
    assert error.count("\n") == 1


def test_bad_arguments_exit_with_2_too(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        run("make pan:30 --frames many")
    assert caught.value.code == cli.FAULT
    assert "--frames" in capsys.readouterr().err


def test_help_version_and_unknown_verbs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == 0
    assert "trajectory" in capsys.readouterr().out
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out == f"sightline {sightline.__version__}\n"
    assert cli.main(["fly"]) == cli.FAULT
    assert capsys.readouterr().err.startswith("sightline: the verb is 'fly': expected one of generate, trajectory")


def test_an_interrupt_is_one_sentence(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(moves.MoveLine, "read", interrupted)
    assert run("make pan:30") == cli.INTERRUPTED
    assert capsys.readouterr().err == "sightline: interrupted.\n"
