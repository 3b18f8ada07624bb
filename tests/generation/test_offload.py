"""Offloading by groups: which part moves how. The copies themselves need a GPU."""

from __future__ import annotations

import pytest
import torch

import sightline as sl
from sightline.backbones.tiny import tiny_by_name
from sightline.encodings import encoding_from_config
from sightline.generation import offload

GPU = torch.device("cuda", 1)
OVERLAPPED = {"onload_device": GPU, "use_stream": True, "record_stream": False}


@pytest.mark.parametrize(
    "encoding, kind",
    [
        ("scope", {"offload_type": "block_level", "num_blocks_per_group": 1}),
        ("cameractrl", {"offload_type": "leaf_level"}),  # its encoder belongs to the first block and runs before it
    ],
)
def test_transformers_move_by_block_and_the_rest_by_layer(encoding, kind, monkeypatch):
    pipe = tiny_by_name("tiny:ti2v-5b")
    config = {"name": encoding} | ({"pixels": 32} if encoding == "cameractrl" else {})
    sl.attach_camera(pipe, encoding_from_config(config))
    moved = {}
    by_block = lambda **options: moved.update(transformer=options)  # noqa: E731
    monkeypatch.setattr(pipe.transformer, "enable_group_offload", by_block)
    names = {part: name for name, part in pipe.components.items() if isinstance(part, torch.nn.Module)}
    monkeypatch.setattr(offload, "apply_group_offloading", lambda part, **options: moved.update({names[part]: options}))
    offload.offload_groups(pipe, GPU)
    by_layer = {"offload_type": "leaf_level", **OVERLAPPED}
    assert moved == {"transformer": {**kind, **OVERLAPPED}, "text_encoder": by_layer, "vae": by_layer}
