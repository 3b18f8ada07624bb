"""A reader of a command's output may stop early, as head does, or not be there."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sightline import cli


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
