"""Offloading by groups: which part moves how. The copies themselves need a GPU."""

from __future__ import annotations

import pytest
import torch
from diffusers.hooks import group_offloading

import sightline as sl
from sightline.backbones.tiny import tiny_by_name
from sightline.encodings import encoding_from_config
from sightline.generation import offload
from tests.conftest import model_inputs

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
    monkeypatch.setattr(offload, "_keep_beside", lambda part: None)
    offload.offload_groups(pipe, GPU)
    by_layer = {"offload_type": "leaf_level", **OVERLAPPED}
    assert moved == {"transformer": {**kind, **OVERLAPPED}, "text_encoder": by_layer, "vae": by_layer}


def test_what_is_beside_the_blocks_stays_on_the_device(monkeypatch):
    model = tiny_by_name("tiny:ti2v-5b").transformer
    cpu = torch.device("cpu")  # groups then move in place, which is enough to see which do
    model.enable_group_offload(cpu, cpu, offload_type="block_level", num_blocks_per_group=1)
    offload._keep_beside(model)
    moved: list[str] = []
    names = {id(module): name for name, module in model.named_modules()}
    for kind in ("onload_", "offload_"):

        def note(group, kind=kind):
            moved.append(f"{kind} {names[id(group.modules[0])]}")

        monkeypatch.setattr(group_offloading.ModuleGroup, kind, note)
    with torch.no_grad():
        model(**model_inputs(model))
    beside = next(name for name, _ in model.named_children() if name != "blocks")
    blocks = [f"{kind} blocks.{index}" for index in range(len(model.blocks)) for kind in ("onload_", "offload_")]
    assert moved == [f"onload_ {beside}", *blocks]
