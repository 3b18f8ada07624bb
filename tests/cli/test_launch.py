"""Processes of a launcher: a finished command leaves their group."""

from __future__ import annotations

import torch.distributed as dist

from sightline import cli


def test_a_finished_verb_leaves_no_process_group_behind(capsys):
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        assert cli.main(["train", "--help"]) == 0
        assert not dist.is_initialized()
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    capsys.readouterr()
