"""RenderedStore: clips of procedural worlds, rendered and encoded once in a folder, for all runs and processes that use them.

    STORE/DIGEST.safetensors      the clips of one source: latents, text, cameras in metres, the scale that each world reports;
                                  the digest is that of everything they depend on

A cache (data/cache.py) stores clips of any source one by one, with checksums and captions. Here a file is one batch of tensors,
which a run reads onto its device in a second. A file is complete or absent.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor

from sightline.cameras.camera_batch import CameraBatch
from sightline.data.clips import Window
from sightline.data.encode import ClipEncoder, load_encoder
from sightline.data.latents import LatentBatch
from sightline.digests import json_digest
from sightline.errors import SightlineError
from sightline.files import atomic_write
from sightline.locks import hold_lock
from sightline.settings import convert
from sightline.tensors import metadata_json, read_tensors, require_real

_VERSION = 2
_EXPECTED = "rendered clips"
_PROBE = torch.tensor([1.0, 2.0])  # sources that make the same of these scales give the same units
_CAMERAS = ("camera_to_world", "intrinsics", "xi")
_DIMENSIONS = {"latents": 5, "text": 3, "condition": 5, "camera_to_world": 4, "intrinsics": 4, "xi": 1, "scales": 1}
_KEPT = 4  # data sets in memory: the training and held-out clips of this run and of the one before

Rendered = tuple[LatentBatch, CameraBatch]  # of the same clips
Made = tuple[LatentBatch, CameraBatch, Tensor]  # with the scale that the world of each reports, [B]


@dataclass(frozen=True, eq=False)
class ClipsOfSource:
    """Some clips of one source.

    settings: what the stored clips depend on beside the encoder. make: renders and encodes them in batches, without the first
    ones of the given number, which an earlier call has made.
    units_per_metre: from the scale that each clip's world reports to the factor on its stored positions.
    """

    settings: dict[str, Any]
    windows: list[Window]
    make: Callable[[int], Generator[Made, None, None]]
    units_per_metre: Callable[[Tensor], Tensor]


class RenderedStore:
    """A folder of rendered clips. Those that were read last stay in the memory of the device for the next run of a process.

    between: called between batches of clips that are made. An error of it ends the work; the next process goes on with it.
    """

    def __init__(self, folder: str | Path, between: Callable[[], object] = lambda: None) -> None:
        self.folder, self.between = Path(folder), between
        self._memory: dict[tuple[str, ...], Rendered] = {}
        self._encoder: tuple[tuple[str, ...], ClipEncoder] | None = None

    def encoder(self, model: str, device: torch.device, dtype: str) -> ClipEncoder:
        """The encoder of a model, which stays loaded for the next run with the same base."""
        key = (model, device.type, dtype)
        if self._encoder is None or self._encoder[0] != key:
            self._encoder = key, load_encoder(model, device, dtype)
        return self._encoder[1]

    def read(self, parts: Sequence[ClipsOfSource], encoder: ClipEncoder) -> Rendered:
        """The clips of all parts, one part after the other. Those that are not in the folder yet are made and written; where
        another process is making them, this one waits."""
        device, digests = encoder.pipe.vae.device, encoder.digests()
        names = [_digest(part, digests) for part in parts]
        factors = [[float(one) for one in part.units_per_metre(_PROBE)] for part in parts]
        key = tuple(f"{name} {factor}" for name, factor in zip(names, factors, strict=True))
        if key not in self._memory:
            found = [self._read_one(name, part, device) for name, part in zip(names, parts, strict=True)]
            while len(self._memory) >= _KEPT:
                del self._memory[next(iter(self._memory))]
            self._memory[key] = found[0] if len(found) == 1 else _join(found)
        return self._memory[key]

    def _read_one(self, name: str, part: ClipsOfSource, device: torch.device) -> Rendered:
        file = self.folder / f"{name}.safetensors"
        if not file.is_file():
            self.folder.mkdir(parents=True, exist_ok=True)
            with hold_lock(self.folder / f".{name}.lock", file, patience=math.inf):
                if not file.is_file():
                    self._make(file, part, device)
        batch, cameras, scales = _read(file, len(part.windows), device)
        return batch, cameras.scaled(part.units_per_metre(scales))

    def _make(self, file: Path, part: ClipsOfSource, device: torch.device) -> None:
        begun = file.with_suffix(".begun")  # the first clips, where an earlier process was stopped
        made = [_read(begun, None, device)] if begun.is_file() else []
        with closing(part.make(len(made[0][2]) if made else 0)) as batches:
            for batch in batches:
                made.append(batch)
                try:
                    self.between()
                except Exception:
                    _write(begun, *_cat(made))
                    raise
        _write(file, *_cat(made))
        begun.unlink(missing_ok=True)


def _cat(made: Sequence[Made]) -> Made:
    batches, cameras, scales = zip(*made, strict=True)
    return LatentBatch.cat(batches), CameraBatch.cat(cameras), torch.cat(scales)


def _digest(part: ClipsOfSource, encoder: dict[str, str]) -> str:
    windows = [[window.shot, window.start] for window in part.windows]
    return json_digest({"version": _VERSION, "encoder": encoder, "settings": part.settings, "windows": windows})


def _join(parts: Sequence[Rendered]) -> Rendered:
    return LatentBatch.cat([batch for batch, _ in parts]), CameraBatch.cat([cameras for _, cameras in parts])


def _write(file: Path, batch: LatentBatch, cameras: CameraBatch, scales: Tensor) -> None:
    tensors: dict[str, Tensor] = {"latents": batch.latents, "text": batch.text, "scales": scales}
    if batch.condition is not None:
        tensors["condition"] = batch.condition
    tensors |= {name: getattr(cameras, name) for name in _CAMERAS}
    with atomic_write(file) as temporary:
        size = {"size": f"[{cameras.width}, {cameras.height}]"}
        save_file({name: tensor.contiguous().cpu() for name, tensor in tensors.items()}, temporary, metadata=size)


def _read(file: Path, count: int | None, device: torch.device) -> Made:
    """count: of the clips; any where None."""
    metadata, tensors = read_tensors(file, _EXPECTED)
    size = convert(tuple[int, int], metadata_json(file, metadata, "size", _EXPECTED), f"{file}: size")
    count = len(tensors.get("scales", ())) if count is None else count
    for name, dimensions in _DIMENSIONS.items():
        tensor = tensors.get(name)
        if name == "condition" and tensor is None:
            continue
        if tensor is None or tensor.ndim != dimensions or len(tensor) != count:
            raise SightlineError(
                f"{file} is damaged: expected {name} of {count} clips; delete it, and it is made again."
            )
    require_real(file, tensors.items())
    if tensors["camera_to_world"].shape[2:] != (4, 4) or tensors["intrinsics"].shape[2:] != (3, 3):
        raise SightlineError(f"{file} is damaged: expected poses and lenses; delete it, and it is made again.")
    here = {name: tensor.to(device) for name, tensor in tensors.items()}
    cameras = CameraBatch(here["camera_to_world"], here["intrinsics"], here["xi"], *size)
    return LatentBatch(here["latents"], here["text"], condition=here.get("condition")), cameras, here["scales"]
