"""Devices and dtypes by name: refused where this machine lacks them."""

from __future__ import annotations

import pytest
import torch

from sightline.devices import as_device, as_dtype
from sightline.errors import SightlineError


def test_a_gpu_that_is_not_there_is_one_sentence(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    for name in ("cuda", "cuda:1", torch.device("cuda")):
        with pytest.raises(SightlineError, match="but torch finds 0 CUDA devices here"):
            as_device(name)
    assert as_device(None) == torch.device("cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert as_device("cuda:1") == torch.device("cuda", 1)
    with pytest.raises(SightlineError, match="'cuda:2' but torch finds 2"):
        as_device("cuda:2")


@pytest.mark.parametrize("name", ["gpu", "cuda:x", 1.5])
def test_a_device_of_no_kind_is_one_sentence(name):
    with pytest.raises(SightlineError, match="expected a device of torch") as caught:
        as_device(name)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["xpu", "mps:3", torch.device("hpu")])
def test_a_device_of_another_kind_that_torch_cannot_use_is_one_sentence(name):
    with pytest.raises(SightlineError, match=f"device is '{name}', which torch cannot use here: expected cpu or cuda"):
        as_device(name)


def test_dtypes_by_name():
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    assert as_dtype("bfloat16", cpu) == as_dtype(torch.bfloat16, cpu) == as_dtype(None, gpu) == torch.bfloat16
    assert as_dtype(None, cpu) == as_dtype("torch.float32", gpu) == torch.float32
    for name in ("bf16", torch.int8, 16):
        with pytest.raises(SightlineError, match="expected one of float32, bfloat16, float16"):
            as_dtype(name, cpu)
