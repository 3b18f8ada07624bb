"""Camera weights by the name of their repository on the hub: which files are theirs, and where they are on this machine."""

from __future__ import annotations

import re
from pathlib import Path, PurePosixPath

from sightline.errors import SightlineError
from sightline.files import reason

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_FOLDERS = (".", "high_noise_model", "low_noise_model", "transformer", "transformer_2")
_SUFFIXES = (".safetensors", ".json")


def is_hub_id(camera: str | Path) -> bool:
    """Whether a camera that is no file or folder here reads as OWNER/NAME. A file of weights, or a name in a folder OWNER that
    is here, is taken for a mistyped path."""
    path = Path(camera)
    if path.exists() or path.parent.is_dir() or path.suffix in _SUFFIXES:
        return False
    return _HUB_ID.fullmatch(path.as_posix()) is not None


def local_camera(camera: str | Path) -> Path:
    """A camera's own path, or that of its repository's files, which are downloaded to the hub's cache when they are not there.

    Only weights in safetensors and configurations are downloaded, from the repository itself and from the folders of experts.
    """
    if not is_hub_id(camera):
        return Path(camera)
    import huggingface_hub as hub

    name = Path(camera).as_posix()
    try:
        files = [file for file in hub.list_repo_files(name) if _is_wanted(PurePosixPath(file))]
        if any(file.endswith(".safetensors") for file in files):
            return Path(hub.snapshot_download(name, allow_patterns=files))
    except (
        OSError,
        ValueError,
    ) as error:  # no such repository, or no network: then what an earlier call downloaded is used
        try:
            return Path(hub.snapshot_download(name, local_files_only=True))
        except Exception:
            raise SightlineError(
                f"camera {name} is no file or folder here, and cannot be found on the hub ({reason(error)}): expected camera "
                "weights."
            ) from None
    raise SightlineError(
        f"camera {name} on the hub has no .safetensors beside its configuration: expected a repository that holds one camera "
        "model (docs/released.md)."
    )


def _is_wanted(file: PurePosixPath) -> bool:
    return file.suffix in _SUFFIXES and str(file.parent) in _FOLDERS
