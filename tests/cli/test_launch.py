"""Processes of a launcher: a finished command leaves their group, a call of `main` does not."""

from __future__ import annotations

import sys

import torch.distributed as dist

from sightline import cli


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
