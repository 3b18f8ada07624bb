"""Memory is estimated from configuration files alone, and too little of it says what to use instead."""

from __future__ import annotations

import json
from pathlib import Path

import psutil
import pytest
import torch

from sightline import cli
from sightline.backbones.config_files import read_configs
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.tiny import tiny_pipeline
from sightline.errors import SightlineError
from sightline.generation import memory
from sightline.generation.memory import GIB, OFFLOADS, estimate, require_memory
from tests.generation.wan_configs import WAN, write_configs

SHOT = (81, 832, 480)
DOCS = Path(__file__).parent.parent.parent / "docs" / "generation.md"


@pytest.fixture(scope="module")
def estimates():
    return {release: estimate(configs, *SHOT, torch.bfloat16) for release, configs in WAN.items()}


def test_the_weights_of_the_releases_are_counted(estimates):
    five, fourteen = estimates["TI2V-5B"], estimates["I2V-A14B"]
    assert five.weights["transformer"] / 2 == pytest.approx(5.0e9, rel=0.01)
    assert fourteen.weights["transformer"] / 2 == pytest.approx(14.3e9, rel=0.01)
    assert fourteen.weights["transformer_2"] == fourteen.weights["transformer"]
    assert five.weights["text_encoder"] / 2 == pytest.approx(5.68e9, rel=0.01)
    # One forward pass of the stock 5B peaked at 11.7 GB on an H200.
    assert five.weights["transformer"] + five.denoising == pytest.approx(11.7e9, rel=0.05)


def test_offloading_tiling_guidance_and_precision_change_what_they_should(estimates):
    for one in estimates.values():
        needs = [one.device(offload) for offload in OFFLOADS]
        assert needs == sorted(needs, reverse=True) and needs[0] > 2 * needs[1]
    configs, five = WAN["TI2V-5B"], estimates["TI2V-5B"]
    tiled = estimate(configs, *SHOT, torch.bfloat16, tiled=True)
    assert tiled.decoding < five.decoding / 3 and tiled.denoising == five.denoising
    other = estimate(configs, *SHOT, torch.float32, camera_guidance=True)
    assert other.denoising == 4 * five.denoising
    assert other.weights["transformer"] == 2 * five.weights["transformer"]
    assert other.weights["vae"] == five.weights["vae"]  # float32 in any case


def gpu_with(monkeypatch, gibibytes, main=500):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _: (gibibytes * GIB, 200 * GIB))
    monkeypatch.setattr(psutil, "virtual_memory", lambda: type("Memory", (), {"available": main * GIB}))


def test_too_little_memory_says_what_to_use_instead(estimates, monkeypatch):
    five, device = estimates["TI2V-5B"], torch.device("cuda")
    gpu_with(monkeypatch, 80)
    assert "on the GPU" in require_memory(five, "none", device, False)
    gpu_with(monkeypatch, 24)
    with pytest.raises(
        SightlineError, match="with --offload none and 24 are free: expected --offload model, which needs"
    ):
        require_memory(five, "none", device, False)
    with pytest.raises(SightlineError, match="expected --offload group, which needs about"):
        require_memory(estimates["I2V-A14B"], "none", device, False)
    gpu_with(monkeypatch, 4)
    with pytest.raises(SightlineError, match="expected --offload sequential, --tiled-decode, a smaller --size"):
        require_memory(five, "none", device, False)
    gpu_with(monkeypatch, 24, main=16)
    with pytest.raises(SightlineError, match="GiB of main memory for --offload model and 16 are free"):
        require_memory(five, "model", device, False)
    with pytest.raises(SightlineError, match="GiB of memory and 16 are free: expected a smaller size"):
        require_memory(five, "none", torch.device("cpu"), False)


def test_a_model_too_large_is_refused_before_it_is_loaded(tmp_path, monkeypatch, capsys):
    folder = write_configs("I2V-A14B", tmp_path / "model")  # without weights: loading it would fail otherwise
    gpu_with(monkeypatch, 0, main=16)
    for config in (folder / "transformer/config.json", folder / "transformer_2/config.json"):
        config.write_text(json.dumps({**json.loads(config.read_text()), "encoding": {"name": "scope"}}))
    arguments = ["--model", str(folder), "-o", str(tmp_path / "out")]
    assert cli.main(["generate", *arguments]) == cli.FAULT
    assert "GiB of memory and 16 are free" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("release", WAN)
def test_the_table_of_the_docs_is_what_the_command_prints(release, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("COLUMNS", "120")
    folder = write_configs(release, tmp_path / "model")
    assert cli.main(["generate", "--model", str(folder), "--dtype", "bfloat16", "--estimate"]) == 0
    words = [line.split() for line in capsys.readouterr().out.splitlines()]
    printed = [row for row in words if row and row[0] in OFFLOADS]
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in DOCS.read_text().splitlines()]
    assert [row[1:] for row in cells if row[:1] == [release] and row[1] in OFFLOADS] == printed


def test_offloading_is_estimated_where_there_is_no_gpu(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    folder = write_configs("TI2V-5B", tmp_path / "model")
    command = ["generate", "--model", str(folder), "--dtype", "bfloat16", "--estimate"]
    assert cli.main(command) == 0
    table = capsys.readouterr().out
    assert cli.main([*command, "--offload", "group"]) == 0
    assert capsys.readouterr().out == table


def test_pinned_memory_comes_in_powers_of_two(estimates):
    for needs in estimates.values():
        assert needs.host("model") == sum(needs.weights.values())
        assert 1.2 < needs.host("group") / needs.host("model") < 2
    assert [memory._power_of_two(size) for size in (0, 1, 2, 3, 4096, 4097)] == [0, 1, 2, 4, 4096, 8192]


def test_facts_of_files_and_of_a_loaded_pipeline_agree(tmp_path):
    for kind in ("ti2v-5b", "i2v-a14b", "t2v-a14b"):
        pipe = tiny_pipeline(kind)
        pipe.save_pretrained(tmp_path / kind)
        assert ModelInfo.from_configs(read_configs(str(tmp_path / kind))) == ModelInfo.of(pipe)
    info = {release: ModelInfo.from_configs(configs) for release, configs in WAN.items()}
    assert info["TI2V-5B"].grid(*SHOT).num_tokens == 8190 and info["I2V-A14B"].grid(*SHOT).num_tokens == 32760
    assert info["TI2V-5B"].takes_text_alone and not info["I2V-A14B"].takes_text_alone
    assert info["I2V-A14B"].defaults.guidance_scale == 3.5 and ModelInfo.of(tiny_pipeline()).defaults.num_frames == 33


def test_the_rehearsal_counts_what_is_alive():
    with memory._PeakBytes() as peak:
        x = torch.empty(1000, device="meta")
        for _ in range(5):
            x = x + 1  # two alive at a time
    assert peak.bytes == 8000


def test_the_speed_level_changes_what_a_film_needs():
    """Decoding in bfloat16 needs less, and both guidance passes of offloaded weights in one batch more."""
    usual, bfloat16, joined = (
        estimate(WAN["TI2V-5B"], *SHOT, torch.bfloat16, **more)
        for more in ({}, {"bfloat16_vae": True}, {"joined": True})
    )
    assert bfloat16.decoding < 0.6 * usual.decoding and bfloat16.weights == usual.weights
    assert joined.denoising == 2 * usual.denoising
    assert bfloat16.device("group") < 12e9  # the GPU of 12 GB that the documentation promises
