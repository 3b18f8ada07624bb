"""Statistics with known answers, the eta they suggest, and the verb that prints them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch

from sightline.cameras import lens
from sightline.cameras.trajectory import Trajectory
from sightline.cli import main
from sightline.data.clip_spec import ClipSpec
from sightline.data.move_stats import IN_TURN, OWN_MOTION, TOGETHER, move_uses
from sightline.data.sources import open_source
from sightline.data.stats import Quantiles, source_statistics, suggested_etas
from sightline.errors import SightlineError
from sightline.figures import draw_moments
from tests.data.conftest import make_take
from tests.data.layouts import Take, write_dl3dv, write_omniworld, write_panshot, write_re10k

SPEC = ClipSpec(num_frames=5, width=96, height=54)


def sideways(step: float, name: str = "take") -> Take:
    """A truck to the right without any turn, through a very long lens: all rays point ahead, so |m| is the distance."""
    take = make_take(name, frames=5)
    poses = torch.eye(4, dtype=torch.float64).repeat(5, 1, 1)
    poses[:, 0, 3] = step * torch.arange(5)
    intrinsics = lens.intrinsics_from_fov(0.1, 96, 54)
    return Take(take.frames, Trajectory(poses, intrinsics, 96, 54), name=name)


def test_known_answers(tmp_path: Path):
    write_dl3dv(tmp_path, sideways(0.5))
    statistics = source_statistics(open_source(f"dl3dv:{tmp_path}?eta=2"), SPEC)
    assert (statistics.shots, statistics.clips, statistics.frames, statistics.eta) == (1, 1, 5, 2.0)
    assert statistics.path_length == pytest.approx(2.0)
    assert statistics.turn == pytest.approx(0.0, abs=1e-6)
    # Frames 1 .. 4 at 0.5, 1, 1.5 and 2; the first frame does not count.
    assert statistics.raw.percentile_5 == pytest.approx(0.5, rel=1e-4)
    assert statistics.raw.percentile_95 == pytest.approx(2.0, rel=1e-4)
    assert statistics.scaled.percentile_95 == pytest.approx(4.0, rel=1e-4)
    assert statistics.normalised is None


def test_turn_is_in_degrees(tmp_path: Path):
    take = make_take(frames=5)
    poses = torch.eye(4, dtype=torch.float64).repeat(5, 1, 1)
    angle = torch.deg2rad(torch.tensor([0.0, 10, 20, 10, 0], dtype=torch.float64))
    poses[:, 0, 0], poses[:, 0, 2], poses[:, 2, 0], poses[:, 2, 2] = angle.cos(), angle.sin(), -angle.sin(), angle.cos()
    write_dl3dv(tmp_path, Take(take.frames, take.trajectory.replace(camera_to_world=poses)))
    statistics = source_statistics(open_source(f"dl3dv:{tmp_path}"), SPEC)
    assert statistics.turn == pytest.approx(40.0)
    assert statistics.raw.median == pytest.approx(0.0, abs=1e-9)
    assert math.isnan(suggested_etas([statistics])[0])


def test_a_source_of_a_twentieth_wants_eta_20(tmp_path: Path):
    write_re10k(tmp_path / "re10k", sideways(0.4))
    write_omniworld(tmp_path / "omniworld", sideways(0.4 / 20))
    statistics = [source_statistics(open_source(f"{kind}:{tmp_path / kind}"), SPEC) for kind in ("re10k", "omniworld")]
    assert statistics[0].raw.median / statistics[1].raw.median == pytest.approx(20, rel=1e-3)
    assert statistics[1].scaled.median == pytest.approx(statistics[0].scaled.median, rel=1e-3)
    assert suggested_etas(statistics) == pytest.approx([1.0, 20.0], rel=1e-3)


def test_near_depth_enters_when_it_is_known(tmp_path: Path):
    write_re10k(tmp_path / "re10k", sideways(0.4))
    write_panshot(tmp_path / "panshot", sideways(1.2), 0.1, 0.0, near_depth=3.0, video=False)
    spec = ClipSpec(num_frames=5, width=96, height=54, near_depth=True)
    statistics = [source_statistics(open_source(f"{kind}:{tmp_path / kind}"), spec) for kind in ("re10k", "panshot")]
    assert statistics[1].with_near_depth == 1
    assert statistics[1].raw.median == pytest.approx(
        3 * statistics[0].raw.median, rel=1e-3
    )  # raw means raw, asked or not
    assert statistics[1].normalised is not None
    assert statistics[1].normalised.median == pytest.approx(statistics[0].raw.median, rel=1e-3)
    assert suggested_etas(statistics) == pytest.approx([1.0, 1 / 3], rel=1e-3)
    assert suggested_etas(statistics, near_depth=True) == pytest.approx([1.0, 1.0], rel=1e-3)


def test_spread_is_of_order_statistics():
    assert Quantiles.from_values(torch.arange(101.0).flip(0)) == Quantiles(50.0, 5.0, 25.0, 75.0, 95.0)


def test_a_sample_is_spread_over_the_list_and_broken_shots_are_counted_out(tmp_path: Path):
    for index in range(6):
        write_re10k(tmp_path, sideways(0.1 * (index + 1), f"t{index}"))
    (tmp_path / "pose_files" / "t3.txt").write_text("broken\n")
    statistics = source_statistics(open_source(f"re10k:{tmp_path}"), SPEC, clips=2)
    assert (statistics.shots, statistics.clips) == (6, 1)  # t0 and t3 were picked
    with pytest.raises(SightlineError, match="re10k/t3"):
        source_statistics(open_source(f"re10k:{tmp_path}"), SPEC, clips=2, strict=True)


def test_no_pixels_are_needed(tmp_path: Path):
    write_re10k(tmp_path, sideways(0.4))
    for picture in (tmp_path / "frames" / "take").iterdir():
        picture.unlink()
    assert source_statistics(open_source(f"re10k:{tmp_path}"), SPEC).clips == 1


def test_the_drawing_is_written_whole_or_refused(tmp_path: Path):
    write_re10k(tmp_path / "re10k", sideways(0.4))
    statistics = [source_statistics(open_source(f"re10k:{tmp_path / 're10k'}"), SPEC)]
    draw_moments(statistics, tmp_path / "a.png")
    assert (tmp_path / "a.png").read_bytes().startswith(b"\x89PNG")
    with pytest.raises(SightlineError, match=r"has the suffix '\.bmp'"):
        draw_moments(statistics, tmp_path / "a.bmp")


def test_moves_are_counted_with_their_amounts():
    lines = ["", "pan:20", "dolly:-0.5+pan:40", "static, orbit:1e1:target_depth=2", "zoom:45"]
    uses = {use.name: use for use in move_uses(lines)}
    assert {name: use.fraction for name, use in uses.items()} == {
        OWN_MOTION: 0.2, TOGETHER: 0.2, IN_TURN: 0.2, "pan": 0.4, "dolly": 0.2, "static": 0.2, "orbit": 0.2, "zoom": 0.2,
    }  # fmt: skip
    assert uses["pan"].amounts[1] == pytest.approx(30) and uses["dolly"].amounts[1] == pytest.approx(0.5)
    assert uses["static"].amounts is None and uses["orbit"].amounts[0] == pytest.approx(10)


# -- the verb -------------------------------------------------------------------------------------------------------


def test_sightline_data_stats(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_re10k(tmp_path / "re10k", sideways(0.4))
    write_omniworld(tmp_path / "omniworld", sideways(0.02))
    (tmp_path / "re10k" / "pose_files" / "zz.txt").write_text("broken\n")
    sources = [f"{kind}:{tmp_path / kind}" for kind in ("re10k", "omniworld")]
    options = ["--num-frames", "5", "--size", "96x54", "--plot", str(tmp_path / "plot.svg")]
    assert main(["data", "stats", *sources, *options]) == 0
    printed = capsys.readouterr()
    assert "omniworld" in printed.out and "suggested" in printed.out
    assert "note: skipped re10k/zz" in printed.err and "note: skipped 1 clip" in printed.err
    assert (tmp_path / "plot.svg").exists()
    assert main(["data", "stats", *sources, *options, "--strict"]) == 2
    assert "sightline: re10k/zz" in capsys.readouterr().err


def test_sightline_data_stats_prints_the_moves_of_worlds(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    options = ["--num-frames", "5", "--size", "32x32", "--clips", "12", "--plot", str(tmp_path / "plot.png")]
    assert main(["data", "stats", "worlds:orbit?clips=12&paths=4&moves=1", *options]) == 0
    assert "camera moves of orbit" in capsys.readouterr().out
    assert main(["data", "stats", "worlds:orbit?clips=2", *options]) == 0
    assert "camera moves" not in capsys.readouterr().out


def test_sightline_data_preview(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_dl3dv(tmp_path / "dl3dv", make_take(frames=9))
    options = ["--num-frames", "9", "--size", "96x54", "--clips", "2", "-o", str(tmp_path / "out")]
    assert main(["data", "preview", f"dl3dv:{tmp_path / 'dl3dv'}", *options]) == 0
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["dl3dv-0.mp4", "dl3dv.png"]
    assert main(["data", "preview", "--style", "walkthrough", *options]) == 0
    assert {"walkthrough.png", "walkthrough.mp4"} <= {path.name for path in (tmp_path / "out").iterdir()}
    assert main(["data", "preview", *options]) == 2
    assert "no source is given" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["preview", "stats", "cache"])
def test_help(verb: str, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as stopped:
        main(["data", verb, "--help"])
    assert stopped.value.code == 0
    assert "--num-frames" in capsys.readouterr().out
