"""sightline studio: one sentence for what it cannot do, and Ctrl-C ends it cleanly."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

import sightline
from sightline import cli


def test_without_viser_one_sentence_says_how_to_install_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setitem(sys.modules, "viser", None)
    assert cli.main(["studio", "-o", str(tmp_path / "films")]) == cli.FAULT
    assert "pip install 'sightline[studio]'" in capsys.readouterr().err
    assert not (tmp_path / "films").exists()


@pytest.mark.parametrize(
    "options, words",
    [
        (["--host", "0.0.0.0"], "expected --token with it"),
        (["--host", "0.0.0.0", "--token", "abc"], "expected at least 8"),
        (["--host", "0.0.0.0", "--token", "one word & another"], "expected letters from a to z"),
        (["--port", "99999"], "port is 99999"),
        (["--host", "192.0.2.1", "--token", "a-long-secret"], "expected an address of this machine"),  # of nobody
        (["--model", "lab"], "takes no camera"),
    ],
)
def test_what_it_cannot_do_is_one_sentence(options, words, capsys, tmp_path):
    assert cli.main(["studio", "-o", str(tmp_path), *options]) == cli.FAULT
    assert words in capsys.readouterr().err


def test_a_port_that_is_taken_is_refused(capsys, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert cli.main(["studio", "-o", str(tmp_path), "--port", str(port)]) == cli.FAULT
    assert f"port {port} of 127.0.0.1 cannot be used" in capsys.readouterr().err


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGTERM])  # Ctrl-C, and what `kill` sends
def test_ctrl_c_and_kill_end_it_and_keep_the_films(ending, tmp_path):
    films = tmp_path / "films"
    (films / "old").mkdir(parents=True)
    (films / ".half.sightline-new").mkdir()  # of a film that was being written when an earlier studio was killed
    environment = {**os.environ, "PYTHONPATH": str(Path(sightline.__file__).parents[1])}
    command = [sys.executable, "-m", "sightline", "studio", "--port", "0", "-o", str(films)]
    studio = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        # A shell that starts the tests in the background has them, and all of their processes, ignore Ctrl-C.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert "the studio is open at http://127.0.0.1:" in studio.stdout.readline()
    studio.send_signal(ending)
    out, err = studio.communicate(timeout=120)
    assert studio.returncode == 0 and "the studio is closed" in out and "Traceback" not in err
    assert (films / "old").is_dir() and not (films / ".half.sightline-new").exists()
