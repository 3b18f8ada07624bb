"""Help comes at once: it loads none of the large libraries."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("verb", [["trajectory", "make"], ["generate"], ["evaluate", "standard"]])
def test_help_loads_neither_torch_nor_diffusers(verb):
    code = (
        f"import sys; from sightline import cli\n"
        f"try: cli.main({[*verb, '--help']})\n"
        "except SystemExit: pass\n"
        "sys.exit(any(name in sys.modules for name in ('torch', 'diffusers', 'matplotlib')))"
    )
    assert subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL).returncode == 0
