"""safetensors files, read with errors of one sentence. No other format of weights is ever read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor

from sightline.documents import DocumentError, cannot_read, parse_json, require_regular_file
from sightline.errors import SightlineError
from sightline.files import reason

_REAL = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


@contextmanager
def open_tensors(path: str | Path, expected: str) -> Iterator[Any]:
    """safetensors' `safe_open`, in which whatever goes wrong is a SightlineError that names the file.

    expected: what the error says the file should be.
    """
    require_regular_file(path, expected)
    try:
        with safe_open(path, framework="pt") as file:
            yield file
    except SightlineError:
        raise
    except Exception as error:  # SafetensorError, and what torch raises for dtypes and sizes that it does not know
        raise cannot_read(path, reason(error), expected) from None


def read_tensors(path: str | Path, expected: str) -> tuple[dict[str, str], dict[str, Tensor]]:
    """The metadata and the tensors of a file."""
    with open_tensors(path, expected) as file:
        return file.metadata() or {}, {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118  # not a dict


def read_metadata(path: str | Path, expected: str) -> dict[str, str]:
    """The metadata of a file, without its tensors."""
    with open_tensors(path, expected) as file:
        return file.metadata() or {}


def metadata_json(path: str | Path, metadata: dict[str, str], name: str, expected: str) -> Any:
    """An entry of the metadata, which is JSON text."""
    if name not in metadata:
        raise cannot_read(path, f"its metadata has no {name}", expected)
    try:
        return parse_json(metadata[name])
    except DocumentError as error:
        raise cannot_read(path, f"the {name} of its metadata: {error}", expected) from None


def require_real(path: str | Path, tensors: Iterable[tuple[str, Tensor]]) -> None:
    """Refuse tensors that are no floating-point numbers, or hold some that are not finite."""
    for name, tensor in tensors:
        if tensor.dtype not in _REAL:
            kind = str(tensor.dtype).removeprefix("torch.")
            raise SightlineError(f"{path}: {name} holds {kind}, expected floating-point numbers.")
        if not tensor.isfinite().all():
            raise SightlineError(f"{path}: {name} holds values that are not finite, expected finite weights.")
