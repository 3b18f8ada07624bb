"""The fingerprint of a model's files: it notices any weight that was trained, and anything else that was replaced."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

from sightline.backbones.weights_files import files_digest


def test_any_tensor_and_any_other_file_counts(tmp_path):
    tensors = {f"layer{index}": torch.randn(300, 100) for index in range(3)} | {"alpha": torch.zeros(1)}

    def digest():
        save_file(tensors, tmp_path / "model.safetensors")
        return files_digest(tmp_path)

    (tmp_path / "config.json").write_text(json.dumps({"layers": 3}))
    seen = [digest()]
    assert digest() == seen[0] and files_digest(tmp_path / "model.safetensors") != seen[0]
    for name in tensors:
        tensors[name] = tensors[name] + 1e-3
        seen.append(digest())
    (tmp_path / "config.json").write_text(json.dumps({"layers": 4}))
    seen.append(digest())
    (tmp_path / "config.json").rename(tmp_path / "other.json")
    seen.append(digest())
    assert len(set(seen)) == len(seen)


@pytest.mark.parametrize(
    "content", [b"", b"x", b"\xff" * 9, (2).to_bytes(8, "little") + b"[]", (9).to_bytes(8, "little")]
)
def test_damaged_files_have_a_fingerprint_too(tmp_path, content):
    (tmp_path / "a.safetensors").write_bytes(content)
    assert len(files_digest(tmp_path / "a.safetensors")) == 16
