"""Numbers on the command line: finite, and seeds that torch takes, in every command."""

from __future__ import annotations

import pytest

from sightline import cli


@pytest.mark.parametrize(
    "line, sentence",
    [
        ("generate --guidance-scale nan", "guidance_scale is nan: expected a finite number."),
        ("generate --world -3", "world is -3: expected a whole number"),
        ("evaluate standard --guidance-scale nan", "guidance_scale is nan: expected a finite number."),
        ("evaluate revisit --seed -5", "seed is -5: expected a whole number"),
        ("evaluate efficiency --camera-guidance-scale inf", "camera_guidance_scale is inf"),
        ("evaluate compare a b --seed -1", "seed is -1"),
        ("lab measure --seed -1", "seed is -1"),
        ("lab vae --seconds 1e999", "seconds is inf"),
        ("data cache worlds:orbit --model m -o cache --held-out nan", "held_out is nan"),
        ("trajectory make pan:3 --fps inf -o a.json", "fps is inf"),
    ],
)
def test_every_command_refuses_them(line, sentence, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert cli.main(line.split()) == cli.FAULT
    error = capsys.readouterr().err
    assert error.startswith("sightline: ") and sentence in error and error.count("\n") == 1
    assert not list(tmp_path.iterdir())
