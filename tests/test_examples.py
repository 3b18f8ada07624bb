"""Every example runs as it stands and leaves what it says."""

from __future__ import annotations

import json
from pathlib import Path
from runpy import run_path

import pytest

from tests.processes import call_in_process

EXAMPLES = Path(__file__).parent.parent / "examples"
WRITES = {
    "01_generate_an_orbit.py": {"video.mp4", "trajectory.png", "trajectory.json", "comparison.json"},
    "02_moves_and_files.py": {"push_then_pan.png", "there_and_back.json", "clip.txt", "transforms.json", "sparse"},
    "03_train_the_camera.py": {"camera.safetensors"},
    "04_read_a_model.py": {"score_terms.png"},
    "05_render_a_world.py": {"walk.mp4", "walk.json", "loop.mp4", "loop.json", "depth.png"},
    "06_add_an_encoding.py": {"camera.safetensors"},
}
SMALL = {
    "01_generate_an_orbit.py": ["--num-frames", "9", "--width", "64", "--height", "64", "--num-inference-steps", "2"],
    "05_render_a_world.py": ["--num-frames", "5", "--size", "32"],
}


def test_every_example_is_listed():
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(WRITES)


@pytest.mark.parametrize("name", sorted(WRITES))
def test_example(name, tmp_path):
    options = ["--output", str(tmp_path), *SMALL.get(name, [])]
    ran = call_in_process(run_path, str(EXAMPLES / name), None, "__main__", argv=options, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr[-2000:]
    assert WRITES[name] <= {path.name for path in tmp_path.iterdir()}
    if name.startswith("01"):
        assert json.loads((tmp_path / "comparison.json").read_text())["largest_difference"] == 0
