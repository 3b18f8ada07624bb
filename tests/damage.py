"""Damage to the files of a folder, from a seed, and what must come of it: the content, or one SightlineError."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import struct
import warnings
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import yaml

from sightline.errors import SightlineError
from tests.cameras.formats.file_mutations import json_value, mutated
from tests.reader_samples import Reader

_NASTY = [
    b"", b"\x00", b" ", b"null", b"[]", b"{}", b"true", b"1", b'""', b"[" * 100_000, b'{"a":' * 10_000, b"[[1], {}]",
    b"a: &a [1, 1]\nb: &b [*a, *a]\nc: &c [*b, *b]\n", b"a: &a {b: *a}\n", b"- - - - -\n", b"a: 2026-99-99\n", b"? [1]\n: 2\n",
    b"\xff\xfe{\x00}\x00", b'{"a": "\\ud800"}', b'{"a": 1, "a": 2}', b"9" * 10_000, b"\x80\x04\x95.", b"PK\x03\x04",
    b"\x89PNG\r\n\x1a\n",
]  # fmt: skip


@contextmanager
def time_limit(seconds: int) -> Iterator[None]:
    """Raise TimeoutError in the block after so many seconds."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"a reader took more than {seconds} s")

    previous = signal.signal(signal.SIGALRM, stop)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, previous)


def damage(file: Path, chance: random.Random) -> None:
    """Replace a file by a damaged one, or by something that is no file."""
    if chance.random() < 0.05:
        _replace(file, chance)
        return
    data = file.read_bytes()
    if chance.random() < 0.05:
        data = chance.choice(_NASTY)
    elif file.suffix == ".safetensors" and chance.random() < 0.7:
        data = _damaged_header(data, chance)
    elif chance.random() < 0.6 and (values := _damaged_values(file.suffix, data, chance)):
        data = values
    elif data.startswith(b"\x89PNG") and chance.random() < 0.3:
        data = _png_of_another_size(data, chance)
    elif chance.random() < 0.3:
        data = _flipped(data, chance)
    else:
        data = mutated(data, chance)
    file.write_bytes(data)


def _flipped(data: bytes, chance: random.Random) -> bytes:
    """The same length, with some other bytes."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 20)):
        changed[chance.randrange(len(changed))] = chance.randrange(256)
    return bytes(changed)


def _replace(file: Path, chance: random.Random) -> None:
    file.unlink()
    kind = chance.choice(["missing", "folder", "pipe", "device", "loop"])
    if kind == "folder":
        file.mkdir()
    elif kind == "pipe":
        os.mkfifo(file)
    elif kind == "device":
        file.symlink_to("/dev/zero")
    elif kind == "loop":
        file.symlink_to(file.name)


def _damaged_values(suffix: str, data: bytes, chance: random.Random) -> bytes:
    """A document that can still be parsed, with other values in it; nothing where the file is no document."""
    if suffix == ".json":
        for _ in range(chance.randint(1, 2)):
            data = json_value(data, chance)
        return data
    if suffix == ".jsonl":
        lines = data.split(b"\n")
        at = chance.randrange(len(lines))
        lines[at] = json_value(lines[at], chance)
        return b"\n".join(lines)
    if suffix == ".yaml":
        return yaml.safe_dump(json.loads(json_value(json.dumps(yaml.safe_load(data)).encode(), chance))).encode()
    return b""


def _damaged_header(data: bytes, chance: random.Random) -> bytes:
    """A safetensors file whose header, or the JSON in its metadata, is damaged, and whose length is right again."""
    size = struct.unpack("<Q", data[:8])[0]
    header = data[8 : 8 + size]
    metadata = {name: text for name, text in json.loads(header).get("__metadata__", {}).items() if text[:1] == "{"}
    if metadata and chance.random() < 0.4:
        name = chance.choice(sorted(metadata))
        metadata[name] = json_value(metadata[name].encode(), chance).decode()
        document = json.loads(header)
        document["__metadata__"] |= metadata
        header = json.dumps(document).encode()
    else:
        header = json_value(header, chance) if chance.random() < 0.6 else mutated(header, chance)
    return struct.pack("<Q", len(header)) + header + data[8 + size :]


def _png_of_another_size(data: bytes, chance: random.Random) -> bytes:
    """A PNG whose header is sound, and claims another size, depth or kind than its pixels have."""
    header = bytearray(data[16:29])
    at = chance.choice([0, 4])
    if chance.random() < 0.7:
        header[at : at + 4] = struct.pack(">I", chance.choice([0, 1, 3, 1000, 20_000, 2**31 - 1, 2**32 - 1]))
    else:
        header[chance.choice([8, 9, 10, 11, 12])] = chance.randrange(256)
    return data[:16] + header + struct.pack(">I", zlib.crc32(data[12:16] + header)) + data[33:]


def damaged_copies(reader: Reader, folder: Path, count: int, seed: str) -> Iterator[Path]:
    """`count` times the folder with the reader's sample in it, of which one file, sometimes two, is damaged."""
    sound, copy = folder / "sound", folder / "damaged"
    sound.mkdir()
    reader.write(sound)
    reader.read(sound)  # the sample itself is sound
    files = sorted(file.relative_to(sound) for file in sound.glob(reader.files) if file.is_file())
    chance = random.Random(seed)
    for _ in range(count):
        shutil.rmtree(copy, ignore_errors=True)
        shutil.copytree(sound, copy)
        for file in chance.sample(files, k=min(len(files), chance.choice([1, 1, 1, 2]))):
            damage(copy / file, chance)
        yield copy


def sentence(reader: Reader, folder: Path, seconds: int = 20) -> str | None:
    """Read a damaged folder; returns what the SightlineError says, None where the damage does no harm."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with time_limit(seconds):
                reader.read(folder)
        except SightlineError as error:
            message = str(error)
            assert "\n" not in message and len(message) < 1100, message
            return message
    return None
