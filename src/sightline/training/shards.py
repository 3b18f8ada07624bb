"""Sharded safetensors: every process writes and reads only its own part of the tensors, through torch.distributed.checkpoint.

A folder holds one safetensors file per process that had something to write. Each file records, in its header, where its parts
lie in the full tensors, so any number of processes with any sharding can read the folder again. A tensor that every process
holds in full (one process, or DDP) is written once. Nothing is pickled on disk.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from safetensors import SafetensorError
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.metadata import TensorStorageMetadata

from sightline.documents import cannot_read
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.tensors import open_tensors


class WriteError(Exception):
    """A process could not write its part. The message is the reason, and it is the same in every process."""


def save_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write tensors, sharded or not, into a folder. Every process calls this with its own part of the same tensors."""
    with _single_process_allowed():
        try:
            writer = dcp.HuggingFaceStorageWriter(str(folder), save_distributed=True)
            dcp.save(dict(tensors), storage_writer=writer)
        except CheckpointException as error:
            raise _write_error(error) from None


def load_shards(folder: Path, tensors: Mapping[str, Tensor]) -> None:
    """Fill tensors in place. They may be sharded in another way than when they were written."""
    saved = saved_tensors(folder)
    for name, tensor in tensors.items():
        if name not in saved:
            raise SightlineError(f"{folder} holds no {name}: expected a complete checkpoint.")
        if saved[name].size != tensor.shape:
            raise SightlineError(
                f"{folder}: {name} has shape {tuple(saved[name].size)}: expected {tuple(tensor.shape)}."
            )
    with _single_process_allowed():
        try:
            dcp.load(dict(tensors), storage_reader=dcp.HuggingFaceStorageReader(str(folder)))
        except Exception as error:  # a CheckpointException, or what damaged parts raise while the reading is planned
            cause = _cause(error) if isinstance(error, CheckpointException) else error
            raise SightlineError(
                f"{folder} cannot be read ({reason(cause)}): expected a complete checkpoint."
            ) from None


def saved_tensors(folder: Path) -> dict[str, TensorStorageMetadata]:
    """Size and parts of every tensor in a folder, from the headers of its files; a damaged file is refused by name."""
    if not folder.is_dir():
        return {}
    expected = "a complete checkpoint"
    for file in shard_files(folder):
        with open_tensors(file, expected):
            pass
    try:
        metadata = dcp.HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata
    except Exception as error:  # of headers that are sound safetensors but say nothing sensible about their parts
        raise cannot_read(folder, reason(error), expected) from None
    return {name: tensor for name, tensor in metadata.items() if isinstance(tensor, TensorStorageMetadata)}


def shard_files(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.safetensors"))


def incomplete_tensor(folder: Path, tensors: Mapping[str, Tensor]) -> str | None:
    """The name of a tensor of which the folder does not hold every part; None where all are there."""
    saved = saved_tensors(folder)
    for name, tensor in tensors.items():
        written = sum(math.prod(chunk.sizes) for chunk in saved[name].chunks) if name in saved else 0
        if written != tensor.numel():
            return name
    return None


def is_main_process() -> bool:
    return not dist.is_initialized() or dist.get_rank() == 0


def on_main_process(action: Callable[[], None]) -> None:
    """Let the main process do something to the files while the others wait. They all raise its WriteError."""
    failure: list[str | None] = [None]
    if is_main_process():
        try:
            action()
        except (OSError, SightlineError, WriteError) as error:
            failure = [reason(error)]
    if dist.is_initialized():
        dist.broadcast_object_list(failure, src=0)
    if failure[0] is not None:
        raise WriteError(failure[0])


def _write_error(error: CheckpointException) -> BaseException:
    cause = _cause(error)
    return WriteError(reason(cause)) if isinstance(cause, OSError | SafetensorError) else cause


def _cause(error: CheckpointException) -> BaseException:
    """What the first of the processes that failed raised."""
    return error.failures[min(error.failures)][0]


@contextmanager
def _single_process_allowed() -> Iterator[None]:
    """Without torch's warning that one process saves and loads alone, which is how most runs work."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="torch.distributed is disabled")
        yield
