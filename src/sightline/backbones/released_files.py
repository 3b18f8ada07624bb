"""The files of weights that others have released: their names and shapes are known before any tensor is read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.tensors import open_tensors, require_real

_EXPECTED = "camera weights in safetensors, or those of a released camera model"
_PICKLES = (".pth", ".pt", ".bin", ".ckpt", ".pkl")
_DTYPES = ("F64", "F32", "F16", "BF16")
# Releases name two experts by their noise, diffusers by their order.
_NOISES = {"transformer": "high_noise", "transformer_2": "low_noise"}
Shape = tuple[int, ...]
_PREFIX = "model.diffusion_model."  # of every name in files that were packed for ComfyUI


@dataclass(frozen=True)
class ReleasedWeights:
    """All tensors of one network, in one file or in several shards.

    source: the file or folder. files: where a tensor lies. shapes: of every tensor, by its name without ComfyUI's prefix.
    """

    source: Path
    files: dict[str, Path]
    shapes: dict[str, tuple[int, ...]]

    @classmethod
    def open(cls, source: Path) -> ReleasedWeights:
        """Read the headers of all files; refuses pickles, missing shards and quantised tensors."""
        files: dict[str, Path] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        for file in _shards(source):
            with open_tensors(file, _EXPECTED) as tensors:
                for raw in tensors.keys():  # noqa: SIM118  # not a dict
                    name, tensor = raw.removeprefix(_PREFIX), tensors.get_slice(raw)
                    if tensor.get_dtype() not in _DTYPES:
                        raise SightlineError(
                            f"{file}: {name} is stored as {tensor.get_dtype()}, expected weights that are not quantised "
                            f"({', '.join(_DTYPES)})."
                        )
                    if name in files:
                        raise SightlineError(
                            f"{file}: {name} is in {files[name].name} too, expected every tensor once."
                        )
                    files[name], shapes[name] = file, tuple(tensor.get_shape())
        return cls(source, files, shapes)

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor with its name, one at a time: a file larger than half of the memory can still be read."""
        for file in sorted(set(self.files.values())):
            with open_tensors(file, _EXPECTED) as tensors:
                for raw in tensors.keys():  # noqa: SIM118  # not a dict
                    tensor = tensors.get_tensor(raw)
                    require_real(file, [(raw, tensor)])
                    yield raw.removeprefix(_PREFIX), tensor


def require_no_pickle(source: Path) -> None:
    """Refuse a file of weights that only pickle can read."""
    if source.suffix.lower() in _PICKLES:
        raise SightlineError(
            f"{source} is a pickle file, which can run code when it is loaded: expected a .safetensors file."
        )


def require_same_tensors(
    source: Path, found: Mapping[str, tuple[str | None, Shape]], expected: Mapping[str, Shape], family: str
) -> None:
    """Refuse tensors that a model does not have, has in another shape, or needs and does not find.

    found: by the name of each tensor in the files, the parameter that it becomes, and the shape that it has there.
    """
    if unknown := sorted(name for name, (target, _) in found.items() if target not in expected):
        raise SightlineError(
            f"{source} holds the unknown tensor {unknown[0]} ({len(unknown)} unknown): expected those of {family} alone."
        )
    if missing := sorted(set(expected) - {target for target, _ in found.values()}):
        raise SightlineError(
            f"{source} lacks {missing[0]} ({len(missing)} missing, in diffusers' names): expected every weight of the model."
        )
    for name, (target, shape) in found.items():
        assert target is not None
        if shape != expected[target]:
            raise SightlineError(f"{source}: {name} has shape {shape}, expected {expected[target]}.")


def expert_places(source: Path) -> dict[str, Path]:
    """Where the two experts of a release are, which are folders, or files that differ in one word of their names; empty for a
    release of one transformer. source: the folder that holds them, or one of the two files."""
    for noise in _NOISES.values():
        files = [source] if source.is_file() else sorted(source.glob("*.safetensors"))
        files = [file for file in files if noise in file.name]
        if len(files) > 1:
            raise SightlineError(
                f"camera {source} holds {len(files)} files of experts, such as {files[0].name}: expected one of these files as "
                "the camera, whose counterpart is beside it."
            )
        if files:
            return {name: files[0].with_name(files[0].name.replace(noise, other)) for name, other in _NOISES.items()}
    folders = {name: source / f"{noise}_model" for name, noise in _NOISES.items()}
    return folders if any(folder.is_dir() for folder in folders.values()) else {}


def _shards(source: Path) -> list[Path]:
    if source.is_file():
        require_no_pickle(source)
        return [source]
    indices, found = sorted(source.glob("*.safetensors.index.json")), sorted(source.glob("*.safetensors"))
    if len(indices) > 1:
        raise SightlineError(f"{source} holds {len(indices)} index files: expected the weights of one model.")
    if indices:
        named = read_json(indices[0], "the index of sharded weights").get("weight_map")
        if not isinstance(named, dict) or not named or not all(isinstance(name, str) for name in named.values()):
            raise SightlineError(f"{indices[0]} has no weight_map: expected the shard of every tensor.")
        shards = sorted({source / Path(name).name for name in named.values()})
        if missing := [shard.name for shard in shards if not shard.is_file()]:
            raise SightlineError(
                f"{source} lacks the shard {missing[0]} ({len(missing)} of {len(shards)} missing): expected all shards that "
                f"{indices[0].name} names."
            )
        return shards
    if len(found) == 1 and "-of-" not in found[0].stem:
        return found
    if found:
        raise SightlineError(
            f"{source} holds {found[0].name} without an index: expected one file of weights, or shards with their "
            ".safetensors.index.json."
        )
    if pickles := sorted(file.name for file in source.iterdir() if file.suffix.lower() in _PICKLES):
        raise SightlineError(
            f"{source} holds its weights in pickle files ({', '.join(pickles)}), which can run code when they are loaded: "
            "expected .safetensors files."
        )
    raise SightlineError(f"{source} holds no .safetensors file: expected {_EXPECTED}.")
