"""Writing a cache: a folder of encoded clips in safetensors shards, with an index.

    CACHE/
      settings.json                 how the clips were encoded; a run with other settings is refused
      empty_text.safetensors        the embedding of the empty prompt, for text dropout and guidance
      shard-00000.safetensors       clips 0 .. n-1 of the list, shard-00001 the next n, ...
      index.json                    written once all shards exist: where each clip is, and which were skipped

Each clip has a checksum, which is verified when a run is resumed and when the clip is read. The same command writes damaged
shards again. A shard depends only on the settings and its number. A run that was killed and resumed, or one on several processes,
therefore writes the same bytes as an undisturbed one.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from sightline.checks import whole_number
from sightline.data.cache_files import METADATA, clip_entry, read_empty_text, read_header, write_empty_text
from sightline.data.checksums import clip_checksum, verify_shard
from sightline.data.clip import Clip, Skips
from sightline.data.clips import Clips
from sightline.data.encode import ClipEncoder
from sightline.digests import json_digest
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import atomic_write, write_atomic

_LOG = logging.getLogger("sightline.data")
_VERSION = 2
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}


class CacheWriter:
    """Writes the missing shards of a cache. With several processes, each writes its own shards."""

    def __init__(
        self,
        folder: str | Path,
        clips: Clips,
        encoder: ClipEncoder,
        model: str,
        *,
        dtype: str = "bfloat16",
        shard_clips: int = 64,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        """model: the name that settings.json shows. dtype: of stored latents and text; cameras are float64.

        rank, processes: this process and how many there are; it writes every `processes`-th shard.
        """
        if dtype not in DTYPES:
            raise SightlineError(f"dtype is {dtype!r}: expected one of {', '.join(DTYPES)}.")
        if not len(clips):
            raise SightlineError(f"there are no clips to cache ({len(clips.skips)} skipped): expected at least one.")
        encoder.check_shape(clips.spec.num_frames, clips.spec.width, clips.spec.height)
        self.folder, self.clips, self.encoder = Path(folder), clips, encoder
        self.shard_clips = whole_number("shard_clips", shard_clips)
        self.rank, self.processes, self.dtype = rank, processes, DTYPES[dtype]
        self.failed = 0  # clips that this process could not encode, for another reason than their data
        self._verified: set[int] = set()  # shards that this process has written, or read in full
        self._damaged: set[int] = set()  # shards of which a note was printed
        self.settings = {
            "version": _VERSION,
            "model": model,
            "pipeline": type(encoder.pipe).__name__,
            **encoder.digests(),
            "text_encoder_dtype": str(encoder.pipe.text_encoder.dtype).removeprefix("torch."),
            "dtype": dtype,
            "shard_clips": shard_clips,
            **asdict(clips.spec),
            "sources": [source.settings() for source in clips.sources],
            "clips": len(clips),
            "clip_list": json_digest([[window.source, window.name] for window in clips.windows]),
        }
        # A model's name only says where it is stored; its weights are covered by the digests.
        self.fingerprint = json_digest({name: value for name, value in self.settings.items() if name != "model"})

    @property
    def num_shards(self) -> int:
        return -(-len(self.clips) // self.shard_clips)

    def prepare(self) -> None:
        """Check the folder's settings and remove temporary files of a killed run. Call it once per run, before any write."""
        path = self.folder / "settings.json"
        if path.is_file():
            stored = read_json(path, "the settings of a cache")
            _require_same_settings(self.folder, stored, json.loads(json.dumps(self.settings)))
        elif self.folder.is_dir() and any(self.folder.glob("shard-*.safetensors")):
            raise SightlineError(f"{self.folder}: found shards without a settings.json, expected an empty folder.")
        else:
            write_atomic(path, json.dumps(self.settings, indent=1) + "\n")
        try:
            read_empty_text(self.folder)
        except SightlineError:  # missing or damaged
            write_empty_text(self.folder, self.encoder.text("").to(self.dtype))
        for leftover in self.folder.glob(".*"):
            if leftover.name.startswith((".shard-", ".index.", ".settings.", ".empty_text.")):
                leftover.unlink(missing_ok=True)

    def missing(self) -> list[int]:
        """This process's shards that are still to be written."""
        own = range(self.rank, self.num_shards, self.processes)
        return [shard for shard in own if not self._is_written(shard)]

    def write(self, on_clip: Callable[[], object] = lambda: None) -> None:
        """Write the missing shards, then the index if the cache is complete. `on_clip` is called after each clip."""
        for count, shard in enumerate(self.missing()):
            self._write_shard(shard, on_clip)
            if count == 0 and self.rank == 0 and self.num_shards > 1:
                size = self._path(shard).stat().st_size
                _LOG.info(
                    "a shard has %.1f MB, all %d about %.1f GB",
                    size / 1e6,
                    self.num_shards,
                    self.num_shards * size / 1e9,
                )
        if all(self._is_written(shard) for shard in range(self.num_shards)):
            self._write_index()

    def clips_of(self, shard: int) -> range:
        """Indices of the clips in a shard."""
        return range(shard * self.shard_clips, min((shard + 1) * self.shard_clips, len(self.clips)))

    def _path(self, shard: int) -> Path:
        return self.folder / f"shard-{shard:05d}.safetensors"

    def _is_written(self, shard: int) -> bool:
        """Whether the shard exists and is complete. A damaged one is written again; one of another run is an error.

        Every process verifies its own shards, once.
        """
        path = self._path(shard)
        if not path.is_file():
            return False
        is_own = shard % self.processes == self.rank
        try:
            header = read_header(path)
            if is_own and shard not in self._verified:
                verify_shard(path, header["clips"])
        except SightlineError as error:
            if shard not in self._damaged:
                self._damaged.add(shard)
                _LOG.warning("%s The shard is written again.", error)
            return False
        if header["fingerprint"] != self.fingerprint:
            raise SightlineError(f"{path}: was made with other settings than {self.folder / 'settings.json'} says.")
        if is_own and shard not in self._verified and any(skip.get("unexpected") for skip in header["skips"]):
            return False  # clips that failed for another reason than their data are tried again
        self._verified.add(shard)
        return True

    def _write_shard(self, shard: int, on_clip: Callable[[], object]) -> None:
        tensors: dict[str, torch.Tensor] = {}
        entries: list[dict[str, Any]] = []
        skips = Skips(self.clips.skips.strict)
        for index, clip in self._read(self.clips_of(shard)):
            window = self.clips.windows[index]
            try:
                if isinstance(clip, Exception):
                    raise clip
                entry, own = clip_entry(clip), self._tensors(clip)
            except torch.OutOfMemoryError:
                raise SightlineError("the memory is full: expected a smaller --size or fewer --num-frames.") from None
            except Exception as error:  # whatever is wrong with one clip, the others are still cached
                self.failed += not isinstance(error, SightlineError)
                skips.report(self.clips.sources[window.source].name, window.name, error)
            else:
                key = f"{len(entries):05d}"
                tensors |= {f"{key}.{name}": tensor for name, tensor in own.items()}
                entries.append({**entry, "checksum": clip_checksum(entry, own)})
            on_clip()
        header = {"fingerprint": self.fingerprint, "clips": entries, "skips": [asdict(skip) for skip in skips]}
        # Where every clip of a shard is broken, its file still records that.
        tensors = tensors or {"empty": torch.zeros(1)}
        with atomic_write(self._path(shard)) as temporary:
            save_file(tensors, temporary, metadata={METADATA: json.dumps(header)})
        self._verified.add(shard)

    def _read(self, indices: range) -> Iterator[tuple[int, Clip | Exception]]:
        """The clips, or their errors. The next clip is read while this one is encoded."""

        def read(index: int) -> Clip | Exception:
            try:
                return self.clips[index]
            except Exception as error:
                return error

        with ThreadPoolExecutor(max_workers=1) as reader:
            next_clip = reader.submit(read, indices[0])
            for index in indices:
                clip = next_clip.result()
                if index != indices[-1]:
                    next_clip = reader.submit(read, index + 1)
                yield index, clip

    def _tensors(self, clip: Clip) -> dict[str, torch.Tensor]:
        encoded = self.encoder.encode(clip)
        return {
            **{name: tensor.to(self.dtype).contiguous() for name, tensor in encoded.items()},
            "camera_to_world": clip.trajectory.camera_to_world.contiguous(),
            "intrinsics": clip.trajectory.intrinsics.contiguous(),
        }

    def _write_index(self) -> None:
        """Made from the shards alone, so that any process may write it, also more than once."""
        clips: list[dict[str, Any]] = []
        skips: list[Any] = [asdict(skip) for skip in self.clips.skips]
        for shard in range(self.num_shards):
            header = read_header(self._path(shard))
            clips += [
                {
                    "source": entry["source"],
                    "name": entry["name"],
                    "scene": entry["scene"],
                    "shard": shard,
                    "position": position,
                }
                for position, entry in enumerate(header["clips"])
            ]
            skips += header["skips"]
        lines = ",\n".join("  " + json.dumps(clip) for clip in clips)
        text = f'{{"fingerprint": "{self.fingerprint}",\n "skips": {json.dumps(skips)},\n "clips": [\n{lines}\n]}}\n'
        write_atomic(self.folder / "index.json", text)
        _LOG.info("cached %d clips in %d shards, skipped %d", len(clips), self.num_shards, len(skips))


def _require_same_settings(folder: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    for name in [*wanted, *stored]:
        if name != "model" and stored.get(name) != wanted.get(name):
            raise SightlineError(
                f"{folder}: was made with {name} {json.dumps(stored.get(name))} and this run asks for "
                f"{json.dumps(wanted.get(name))}: expected the same settings, or another folder."
            )
