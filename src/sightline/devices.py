"""Devices and dtypes by name, refused before anything is loaded for them; and the number of CPU threads."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from sightline.errors import SightlineError

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def as_device(device: str | torch.device | None = None) -> torch.device:
    """The device of this name; by default the GPU where there is one. One that this machine lacks is refused."""
    try:
        chosen = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    except (RuntimeError, TypeError):
        raise SightlineError(f"device is {device!r}: expected a device of torch, such as cpu or cuda:0.") from None
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if chosen.type == "cuda" and (chosen.index or 0) >= count:
        raise SightlineError(
            f"device is {str(device)!r} but torch finds {count} CUDA devices here: expected another, or cpu."
        )
    if chosen.type not in ("cpu", "cuda", "meta"):
        try:
            torch.empty(0, device=chosen)
        except (RuntimeError, AssertionError, NotImplementedError, ImportError):  # each kind of device has its own
            raise SightlineError(
                f"device is {str(device)!r}, which torch cannot use here: expected cpu or cuda."
            ) from None
    return chosen


def as_dtype(dtype: str | torch.dtype | None, device: torch.device) -> torch.dtype:
    """The dtype of this name; by default bfloat16 on a GPU and float32 elsewhere."""
    if dtype is None:
        return torch.bfloat16 if device.type == "cuda" else torch.float32
    chosen = _DTYPES.get(dtype.removeprefix("torch.")) if isinstance(dtype, str) else dtype
    if chosen is None or chosen not in _DTYPES.values():
        raise SightlineError(f"dtype is {dtype!r}: expected one of {', '.join(_DTYPES)}.")
    return chosen


@contextmanager
def cpu_threads(number: int) -> Iterator[None]:
    """torch on this number of CPU threads. One is fastest for thousands of small operations, after each of which threads would
    wait for each other."""
    threads = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
