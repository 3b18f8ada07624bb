"""Help comes at once: it loads none of the large libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sightline import cli


@pytest.mark.parametrize("verb", [["trajectory", "make"], ["generate"], ["evaluate", "standard"]])
def test_help_loads_neither_torch_nor_diffusers(verb):
    code = (
        f"import sys; from sightline import cli\n"
        f"try: cli.main({[*verb, '--help']})\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'diffusers', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0


@pytest.mark.parametrize("line", ["--help", "study list --help", "train debug --help"])
def test_a_reader_that_stops_reading_is_no_traceback(line):
    process = subprocess.Popen(
        [sys.executable, "-m", "sightline", *line.split()], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # as head does after some lines
    assert process.stderr.read() == b""
    assert process.wait() == cli.BROKEN_PIPE
    process.stderr.close()


def test_a_closed_output_is_no_error():
    command = [sys.executable, "-c", "import os, sys; os.close(1); os.execv(sys.executable, sys.argv[1:])"]
    command += [sys.executable, "-m", "sightline", "--version"]
    assert subprocess.run(command, stderr=subprocess.PIPE).stderr == b""
