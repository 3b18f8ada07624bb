"""Checkpoints: what was trained, its optimizer state and the step, whole tensors whatever the sharding. No pickle.

    RUN/checkpoints/step-00001000/   weights.safetensors  optimizer.safetensors  [average.safetensors]  state.json

A checkpoint is written under another name and renamed, so one that exists is complete.
"""

from __future__ import annotations

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, distribute_tensor

from sightline.errors import SightlineError
from sightline.files import give_usual_modes, read_json, reason

_MOMENTS = ("exp_avg", "exp_avg_sq")


@dataclass(frozen=True)
class State:
    """What a run needs to go on, beside the tensors."""

    step: int  # steps done
    base: str  # digest of the model it started from (backbones.weights_digest)


def save_checkpoint(
    folder: Path,  # RUN/checkpoints
    state: State,
    trainable: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    average: dict[str, Tensor] | None,
    *,
    keep: int,
    writes: bool,  # this process writes; all must call, since sharded tensors are gathered together
) -> Path:
    """Write one checkpoint and drop the oldest beyond `keep`."""
    weights = {name: whole(parameter.detach()) for name, parameter in trainable.items()}
    moments = {
        f"{name}.{moment}": whole(optimizer.state[parameter][moment])
        for name, parameter in trainable.items()
        for moment in _MOMENTS
        if moment in optimizer.state[parameter]
    }
    averages = None if average is None else {name: whole(tensor) for name, tensor in average.items()}
    final = folder / f"step-{state.step:08d}"
    if not writes:
        return final
    temporary = folder / f".writing-{state.step:08d}"
    try:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)
        save_file(weights, temporary / "weights.safetensors")
        save_file(moments, temporary / "optimizer.safetensors")
        if averages is not None:
            save_file(averages, temporary / "average.safetensors")
        (temporary / "state.json").write_text(json.dumps({"step": state.step, "base": state.base}) + "\n")
        give_usual_modes(temporary)
        _remove(final)
        temporary.rename(final)
    except (OSError, SafetensorError) as error:
        shutil.rmtree(temporary, ignore_errors=True)
        raise SightlineError(
            f"checkpoint {final} cannot be written ({reason(error)}): earlier ones are untouched; make room and resume."
        ) from None
    for old in list_checkpoints(folder)[:-keep]:
        _remove(old)
    return final


def _remove(path: Path) -> None:
    """Out of the way under one name at once: what is half deleted must not look like a checkpoint."""
    if path.exists():
        hidden = path.with_name(f".removing-{path.name}")
        shutil.rmtree(hidden, ignore_errors=True)
        path.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def load_checkpoint(
    path: Path,
    base: str,
    trainable: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer | None,
    average: dict[str, Tensor] | None,
) -> int:
    """Fill parameters, optimizer and average, however they are sharded now; returns the steps done."""
    state = read_state(path)
    if state.base != base:
        raise SightlineError(
            f"{path} was trained from another base model ({state.base[:12]}): this run's is {base[:12]}."
        )
    weights, moments = _read(path / "weights.safetensors"), _read(path / "optimizer.safetensors")
    if set(weights) != set(trainable):
        odd = sorted(set(weights) ^ set(trainable))[0]
        raise SightlineError(
            f"{path} trained other parameters (such as {odd}): expected the same model.trainable and encoding."
        )
    with torch.no_grad():
        for name, parameter in trainable.items():
            _fill(parameter, weights[name], f"{path}: {name}")
            if optimizer is None:
                continue
            stored = optimizer.state[parameter]
            for moment in _MOMENTS:
                if f"{name}.{moment}" in moments:
                    stored[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
                    _fill(stored[moment], moments[f"{name}.{moment}"], f"{path}: {name}.{moment}")
                    stored["step"] = torch.tensor(float(state.step))
        if average is not None:
            averages = _read(path / "average.safetensors")
            for name, tensor in average.items():
                _fill(tensor, averages[name], f"{path}: average of {name}")
    return state.step


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def find_checkpoint(run: Path, which: str) -> Path | None:
    """The checkpoint that --resume names: latest, or a path. None where a run has none yet."""
    if which == "latest":
        found = list_checkpoints(run / "checkpoints")
        return found[-1] if found else None
    path = Path(which)
    if not (path / "state.json").is_file():
        raise SightlineError(
            f"{path} is no checkpoint: expected 'latest' or a folder such as {run}/checkpoints/step-00001000."
        )
    newest = list_checkpoints(run / "checkpoints")[-1:]
    if newest and read_state(newest[0]).step > read_state(path).step:
        raise SightlineError(
            f"{path} is older than {newest[0].name}, whose steps would be mixed with new ones: expected another output, "
            "or the newer checkpoints moved away."
        )
    return path


def read_state(path: Path) -> State:
    content = read_json(path / "state.json", "that of a checkpoint")
    try:
        return State(int(content["step"]), str(content["base"]))
    except (ValueError, KeyError, TypeError) as error:
        raise SightlineError(
            f"{path / 'state.json'} cannot be read ({reason(error)}): expected a checkpoint."
        ) from None


def whole(tensor: Tensor) -> Tensor:
    """The full tensor on the CPU, gathered where it is sharded."""
    full = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return full.detach().contiguous().cpu()


def _fill(target: Tensor, source: Tensor, name: str) -> None:
    if target.shape != source.shape:
        raise SightlineError(f"{name} has shape {tuple(source.shape)}: expected {tuple(target.shape)}.")
    if isinstance(target, DTensor):
        source = distribute_tensor(source.to(target.device, target.dtype), target.device_mesh, target.placements)
    target.copy_(source)


def _read(path: Path) -> dict[str, Any]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise SightlineError(f"{path} cannot be read ({reason(error)}): expected a complete checkpoint.") from None
