"""The configuration files of a saved model, which are read before any weight."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sightline.backbones.families import require_family
from sightline.backbones.wan_configs import EXPERTS
from sightline.documents import read_json
from sightline.errors import LoadError, SightlineError
from sightline.files import reason

Configs = Mapping[str, Mapping[str, Any]]  # the configuration of each component by its name; "" is the pipeline itself

_COMPONENTS = (*EXPERTS, "vae", "text_encoder")


def read_configs(model: str) -> Configs:
    """Read the configuration files of a model: a folder in the hub's layout, or a hub id (downloads a few small files)."""
    configs: dict[str, Mapping[str, Any]] = {"": _read(model, "model_index.json")}
    require_family(model, configs[""].get("_class_name"))
    for component in _COMPONENTS:
        entry = configs[""].get(component)
        if isinstance(entry, list) and entry and entry[0] is not None:
            configs[component] = _read(model, f"{component}/config.json")
    for component in ("transformer", "vae"):
        if component not in configs:
            raise SightlineError(f"model {model!r} has no {component}: expected a whole pipeline.")
    return configs


def hub_revision(model: str) -> str:
    """The commit of a hub id that the cache holds, or that is downloaded to it. Files of one commit never change."""
    return _file(model, "model_index.json").parent.name


def require_folder_or_id(model: str | Path) -> None:
    """Refuse what can only be a path and does not exist: the hub would be asked for it, and the error would be of the network."""
    path = Path(model)
    reads_as_id = len(path.parts) <= 2 and not path.is_absolute() and ".." not in path.parts
    if not path.exists() and not reads_as_id:
        raise LoadError(
            f"model {str(model)!r} cannot be loaded (no such folder): expected a folder, or a hub id such as OWNER/NAME."
        )


def _read(model: str, name: str) -> Mapping[str, Any]:
    return read_json(_file(model, name), "a configuration of a pipeline")


def _file(model: str, name: str) -> Path:
    require_folder_or_id(model)
    try:
        file = Path(model) / name if Path(model).is_dir() else _download(model, name)
        file.stat()  # a missing file is refused in the same words as a missing model
    except (OSError, ValueError) as error:  # no such folder or id, or no network
        raise LoadError(
            f"model {model!r} cannot be loaded ({name}: {reason(error)}): expected a folder or hub id of a pipeline."
        ) from None
    return file


def _download(model: str, name: str) -> Path:
    from huggingface_hub import hf_hub_download

    return Path(hf_hub_download(model, name))
