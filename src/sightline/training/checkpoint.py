"""Checkpoints: trained weights, optimizer state, moving average and step. No pickle.

    RUN/checkpoints/step-00001000/
        weights/  optimizer/  [ema/]    one safetensors file per process in each (see shards.py)
        state.json                      the steps done, their seconds, the digest of the base model, the names of the files above
        validated                       empty; written when the validation of this step is done, losses and samples

Each process writes its own shard of the tensors, and a run may be resumed with another number of processes or another
`parallel`. A checkpoint is written under a temporary name and renamed when all processes have finished, so one that exists is
complete. With several machines, the run's folder must be on a file system that they share.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import give_usual_modes, write_atomic
from sightline.settings import from_dict
from sightline.training.shards import (
    WriteError,
    incomplete_tensor,
    is_main_process,
    load_shards,
    on_main_process,
    save_shards,
    saved_tensors,
    shard_files,
)

_WRITING, _REMOVING = ".writing-", ".removing-"  # begin the names of checkpoints that are not complete
_VALIDATED = "validated"
_MOMENTS = ("exp_avg", "exp_avg_sq", "momentum_buffer")  # AdamW's two, and Muon's


@dataclass(frozen=True)
class State:
    """What a checkpoint holds beside its tensors."""

    step: int  # steps done
    seconds: float  # of training, as Clock counts them
    base: str  # digest of the model it started from (backbones.weights_digest)
    files: tuple[str, ...] = ()  # the files of the tensors, relative to the checkpoint


def save_checkpoint(
    folder: Path,  # RUN/checkpoints
    state: State,
    trainable: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer,
    ema: dict[str, Tensor] | None,
    *,
    total_limit: int,
) -> Path:
    """Write one checkpoint and delete the oldest beyond `total_limit`. Every process calls this."""
    final, temporary = _folder_of(folder, state.step), folder / f"{_WRITING}{state.step:08d}"
    parts: dict[str, dict[str, Tensor]] = {
        "weights": {name: parameter.detach() for name, parameter in trainable.items()},
        "optimizer": _moments(trainable, optimizer),
    }
    if ema is not None:
        parts["ema"] = ema
    parts = {part: tensors for part, tensors in parts.items() if tensors}

    def start() -> None:
        shutil.rmtree(temporary, ignore_errors=True)
        temporary.mkdir(parents=True)

    def finish() -> None:
        for part, tensors in parts.items():
            if incomplete := incomplete_tensor(temporary / part, tensors):
                raise WriteError(f"not every part of {incomplete} is there: do all processes share this folder?")
        files = [str(file.relative_to(temporary)) for part in parts for file in shard_files(temporary / part)]
        content = {"step": state.step, "seconds": state.seconds, "base": state.base, "files": files}
        (temporary / "state.json").write_text(json.dumps(content) + "\n")
        give_usual_modes(temporary)
        _remove(final)
        temporary.rename(final)

    try:
        on_main_process(start)
        for part, tensors in parts.items():
            save_shards(temporary / part, tensors)
        on_main_process(finish)
    except WriteError as error:
        if is_main_process():
            shutil.rmtree(temporary, ignore_errors=True)
        raise SightlineError(
            f"checkpoint {final} cannot be written ({error}): earlier ones are untouched; make room and resume."
        ) from None
    if is_main_process():
        for old in list_checkpoints(folder)[:-total_limit]:
            _remove(old)
    return final


def _moments(trainable: dict[str, nn.Parameter], optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The moments of each parameter, by NAME.exp_avg and so on."""
    return {
        f"{name}.{moment}": optimizer.state[parameter][moment]
        for name, parameter in trainable.items()
        for moment in _MOMENTS
        if moment in optimizer.state[parameter]
    }


def _remove(path: Path) -> None:
    """Delete a checkpoint, after renaming it: one that is half deleted must not look like a checkpoint."""
    if path.exists():
        hidden = path.with_name(f"{_REMOVING}{path.name}")
        shutil.rmtree(hidden, ignore_errors=True)
        path.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)


def remove_leftovers(folder: Path) -> None:
    """Delete what a killed run was writing or deleting. Only the process that holds the run's folder may call this."""
    for path in [*folder.glob(f"{_WRITING}*"), *folder.glob(f"{_REMOVING}*")]:
        shutil.rmtree(path, ignore_errors=True)


def mark_validated(folder: Path, step: int) -> None:
    """Note that the validation of a step is done, in the checkpoint of that step if there is one."""
    path = _folder_of(folder, step)
    if (path / "state.json").is_file():
        write_atomic(path / _VALIDATED, "")


def is_validated(path: Path) -> bool:
    return (path / _VALIDATED).is_file()


def _folder_of(folder: Path, step: int) -> Path:
    return folder / f"step-{step:08d}"


def load_checkpoint(
    path: Path,
    base: str,
    trainable: dict[str, nn.Parameter],
    optimizer: torch.optim.Optimizer | None,
    ema: dict[str, Tensor] | None,
) -> State:
    """Fill parameters, optimizer state and moving average, however they are sharded now; returns the rest of the checkpoint."""
    state = read_state(path)
    if state.base != base:
        raise SightlineError(
            f"{path} was trained from another base model ({state.base[:12]}): this run's is {base[:12]}."
        )
    for file in state.files:
        if not os.path.isfile(path / file):  # unlike Path.is_file, False for names that no file can have
            raise SightlineError(f"{(path / file[:200])} is missing: expected a complete checkpoint.")
    names = set(saved_tensors(path / "weights"))
    if names != set(trainable):
        odd = sorted(names ^ set(trainable))[0]
        raise SightlineError(
            f"{path} trained other parameters (such as {odd}): expected the same model.trainable and encoding."
        )
    load_shards(path / "weights", {name: parameter.detach() for name, parameter in trainable.items()})
    if optimizer is not None:
        for name in saved_tensors(path / "optimizer"):
            parameter_name, _, moment = name.rpartition(".")
            if parameter_name not in trainable or moment not in _MOMENTS:
                raise SightlineError(
                    f"{path / 'optimizer'} holds {name}: expected {' and '.join(_MOMENTS)} of parameters."
                )
            parameter = trainable[parameter_name]
            moments = optimizer.state[parameter]
            moments[moment] = torch.zeros_like(parameter, memory_format=torch.preserve_format)
            is_fused = optimizer.param_groups[0].get("fused")  # only then is the count on the parameter's device
            moments["step"] = torch.tensor(float(state.step), device=parameter.device if is_fused else "cpu")
        load_shards(path / "optimizer", _moments(trainable, optimizer))
    if ema is not None:
        if not has_ema(path):
            raise SightlineError(f"{path} holds no moving average: expected a run with optimizer.ema_decay.")
        load_shards(path / "ema", ema)
    return state


def has_ema(path: Path) -> bool:
    """Whether a checkpoint holds a moving average of the weights."""
    return (path / "ema").is_dir()


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / "state.json").is_file())


def find_checkpoint(run: Path, which: str) -> Path | None:
    """The checkpoint that --resume names: latest, or a path. None where a run has none yet."""
    if which == "latest":
        checkpoints = list_checkpoints(run / "checkpoints")
        return checkpoints[-1] if checkpoints else None
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
    file = path / "state.json"
    state: State = from_dict(State, read_json(file, "the state of a checkpoint"), f"{file}: ")
    if state.step < 0:
        raise SightlineError(f"{file}: step is {state.step}, expected at least 0.")
    return state
