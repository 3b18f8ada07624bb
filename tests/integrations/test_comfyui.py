"""The ComfyUI node pack inside ComfyUI, on the CPU, with tiny random weights."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

# ComfyUI is GPL and no part of this project. SIGHTLINE_COMFYUI names a folder that holds it, SIGHTLINE_COMFYUI_PYTHON the Python
# of an environment with its requirements and those of sightline.
COMFYUI = os.environ.get("SIGHTLINE_COMFYUI")
PYTHON = os.environ.get("SIGHTLINE_COMFYUI_PYTHON", sys.executable)

pytestmark = pytest.mark.skipif(
    COMFYUI is None,
    reason="needs ComfyUI: set SIGHTLINE_COMFYUI to its folder and SIGHTLINE_COMFYUI_PYTHON to its Python",
)


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    folder = tmp_path_factory.mktemp("comfyui")
    script = Path(__file__).with_name("comfyui_session.py")
    done = subprocess.run(
        [PYTHON, script, folder], cwd=COMFYUI, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "report.json").read_text())


def test_comfyui_loads_the_pack(report):
    assert report["loaded"]
    assert report["nodes"] == [
        "SightlineApplyCamera",
        "SightlineCameraPath",
        "SightlinePathPreview",
        "SightlinePathToWanCamera",
    ]


@pytest.mark.parametrize("encoding", ["scope", "sweep"])
def test_the_camera_is_that_of_the_retrofit_in_diffusers(report, encoding):
    """Up to the difference of the two stock models, while the camera itself changes the output a thousand times more."""
    compare = report["compare"]
    assert compare[encoding]["camera"] <= 3 * compare["stock"]
    assert compare[encoding]["effect"] > 1000 * compare["stock"]


def test_lora_weights_are_applied_and_taken_back(report):
    lora, stock = report["compare"]["lora"], report["compare"]["stock"]
    assert lora["error"] <= 5 * stock
    assert lora["effect"] > 1000 * stock
    assert lora["after"] == stock


@pytest.mark.parametrize("case", ["unpatched", "strength 0", "outside the steps"])
def test_without_a_camera_the_model_is_the_stock_model(report, case):
    assert report["compare"][case] == 0


def test_strength_and_steps(report):
    assert min(report["compare"]["strength 0.5"]) > 1e-3
    assert report["compare"]["inside the steps"] == 0


def test_another_attention_override_is_kept(report):
    """Two layers of self- and cross-attention."""
    other = report["compare"]["other override"]
    assert (other["error"], other["calls"], other["own"]) == (0, 4, 4)
    assert other["effect"] > 1e-2


def test_a_path_for_fun_camera_is_that_of_the_core_node(report):
    fun_camera = report["fun_camera"]
    assert fun_camera["shape"] == fun_camera["theirs"] == [1, 24, 3, 48, 64]
    assert fun_camera["error"] < 1e-6


@pytest.mark.parametrize("case", ["apply", "without", "late", "file", "fun", "fun static"])
def test_the_example_workflows_run(report, case):
    workflow = report["workflows"][case]
    assert workflow["valid"] and workflow["success"], workflow
    assert workflow["videos"]


def test_the_path_reaches_the_sampled_video(report):
    differences = report["workflows"]["differences"]
    assert differences["late"] == 0  # no step is left
    assert min(differences[case] for case in ("apply", "file", "fun")) > 1e-4


def test_a_workflow_reads_no_file_outside_the_input_folder(report):
    workflow = report["workflows"]["outside"]
    assert not workflow["success"]
    (message,) = workflow["messages"]
    assert message.startswith("file is '../scope.safetensors': expected a file in ComfyUI's input folder")


@pytest.mark.parametrize(
    "case, sentence",
    [
        ("twice", "the model has a camera already: expected one Apply Camera per model."),
        ("frames", "trajectory has 13 frames: expected 4 x (3 - 1) + 1 = 9 for 3 latent frames"),
        ("aspect", "the camera path is for 64x64, 1 to 1, and the latents are 1.5 to 1"),
        ("percent", "start_percent is 0.5 and end_percent 0.2: expected 0 <= start <= end <= 1."),
        ("backbone", "was trained on a backbone with in_channels 16: this model has 48."),
        ("reference", "expected 72 tokens, those of the latents alone (a reference frame beside them has no camera)."),
        ("encoding", "expected one that only adds to queries and keys, as scope and sweep do."),
        ("model", "the model is a NoneType: expected one of ComfyUI's Wan models."),
        ("length", "the camera path has 8 frames: expected 4n + 1."),
    ],
)
def test_what_does_not_fit_is_refused_in_one_sentence(report, case, sentence):
    assert sentence in report["compare"]["errors"][case]
