"""Processes of a launcher: a finished command leaves their group, a call of `main` does not."""

from __future__ import annotations

import os
import sys
from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from sightline import cli
from sightline.cli._launch import launched


def test_a_finished_command_leaves_no_process_group_behind(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["sightline", "train", "--help"])
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert cli.main() == 0
        assert dist.is_initialized()  # it may be the caller's
        assert cli.command() == 0
        assert not dist.is_initialized()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    capsys.readouterr()


@pytest.mark.parametrize(
    "gpus, processes, connects_as_cpu, device",
    [(0, 2, True, "cpu"), (4, 2, False, "cuda:1"), (1, 2, True, "cuda:0"), (2, 8, True, "cuda:1")],
)
def test_processes_share_the_gpus_where_there_are_more_of_them(gpus, processes, connects_as_cpu, device, monkeypatch):
    rank, chosen = 1, []

    def state(cpu, timeout):
        assert cpu == connects_as_cpu
        return SimpleNamespace(
            device=torch.device("cpu") if cpu else torch.device("cuda", rank), local_process_index=rank
        )

    monkeypatch.setattr("accelerate.PartialState", state)
    monkeypatch.setattr("torch.cuda.device_count", lambda: gpus)
    monkeypatch.setattr("torch.cuda.set_device", chosen.append)
    for name in ("WORLD_SIZE", "LOCAL_WORLD_SIZE"):
        monkeypatch.setenv(name, str(processes))
    assert launched().device == torch.device(device)
    assert chosen == ([torch.device(device)] if gpus and connects_as_cpu else [])


def test_waiting_threads_sleep_unless_the_user_says_otherwise(monkeypatch):
    monkeypatch.setattr(cli, "main", lambda: 0)
    monkeypatch.setenv("OMP_WAIT_POLICY", "")  # which remembers what it was before the command sets it
    monkeypatch.delenv("OMP_WAIT_POLICY")
    assert cli.command() == 0 and os.environ["OMP_WAIT_POLICY"] == "PASSIVE"
    monkeypatch.setenv("OMP_WAIT_POLICY", "ACTIVE")
    assert cli.command() == 0 and os.environ["OMP_WAIT_POLICY"] == "ACTIVE"
