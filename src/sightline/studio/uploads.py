"""What a browser sends: pictures, trajectories and depths, checked by size, type and pixel count before they are decoded.

The name that comes with a file is only shown; it never becomes a path.
"""

from __future__ import annotations

import io
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image, ImageOps, UnidentifiedImageError

from sightline.cameras.formats import FORMATS, detect
from sightline.cameras.trajectory import Trajectory
from sightline.errors import SightlineError
from sightline.files import reason
from sightline.images import to_rgb
from sightline.names import require_plain_name
from sightline.studio.page_text import counted

MAX_PICTURE_BYTES = 30 * 2**20
MAX_PIXELS = 50_000_000
MAX_FILE_BYTES = 40 * 2**20  # of a trajectory or a depth
PICTURE_TYPES = ("PNG", "JPEG", "WEBP")
_SIGNATURES = {b"\x89PNG\r\n\x1a\n": "PNG", b"\xff\xd8\xff": "JPEG", b"RIFF": "WEBP"}
_MAX_MEMBERS = 16  # files of a .zip
_SHOWN = 60  # letters of a name


def read_picture(content: bytes, name: str) -> Image.Image:
    """An uploaded picture as RGB, turned as its EXIF data says."""
    shown = shown_name(name)
    expected = f"expected a picture ({', '.join(PICTURE_TYPES)}) of at most {MAX_PICTURE_BYTES >> 20} MiB"
    if len(content) > MAX_PICTURE_BYTES:
        raise SightlineError(f"{shown} has {len(content) / 2**20:.0f} MiB: {expected}.")
    kind = next((kind for start, kind in _SIGNATURES.items() if content.startswith(start)), None)
    if kind is None:
        raise SightlineError(f"{shown} is no picture of a known type: {expected}.")
    try:
        with Image.open(io.BytesIO(content), formats=[kind]) as image:  # reads the header alone
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise SightlineError(f"{shown} has {width}x{height} pixels: expected at most {MAX_PIXELS:,}.")
            return to_rgb(ImageOps.exif_transpose(image), shown)
    except SightlineError:
        raise
    except Image.DecompressionBombError:  # Pillow's own limit, which is higher, comes first
        raise SightlineError(f"{shown} has too many pixels: expected at most {MAX_PIXELS:,}.") from None
    except UnidentifiedImageError:  # its message is the address of our buffer
        raise SightlineError(f"{shown} is a damaged {kind} file: {expected}.") from None
    except Exception as error:  # Pillow's decoders raise nearly anything on damaged files
        raise SightlineError(f"{shown} cannot be read ({reason(error)}): {expected}.") from None


def read_trajectory(content: bytes, name: str, **lens: Any) -> Trajectory:
    """An uploaded trajectory file in any known format, or a .zip of one that has several files, as the page saves it.

    lens: width, height and focal_mm of the page, for formats that carry no lens.
    """
    with uploaded_file(content, name) as file:
        folder = file.parent
        try:
            if name.lower().endswith(".zip"):
                file = _unpacked(file)
            format = detect(file)
            return Trajectory.load(file, format, **(lens if "focal_mm" in FORMATS[format].read_options else {}))
        except SightlineError as error:
            shown = str(error).replace(str(file), shown_name(name)).replace(f"{folder}/", "")
            raise SightlineError(shown) from None


@contextmanager
def uploaded_file(content: bytes, name: str) -> Iterator[Path]:
    """The content as a file of our own name in a folder of its own, which is deleted afterwards."""
    if len(content) > MAX_FILE_BYTES:
        raise SightlineError(
            f"{shown_name(name)} has {len(content) / 2**20:.0f} MiB: expected at most {MAX_FILE_BYTES >> 20}."
        )
    suffix = Path(name).suffix.lower()
    suffix = suffix if suffix in (".json", ".txt", ".npy", ".npz", ".csv", ".tum", ".kitti", ".zip") else ".txt"
    with tempfile.TemporaryDirectory(prefix="sightline-upload-") as folder:
        file = Path(folder) / f"upload{suffix}"
        file.write_bytes(content)
        yield file


def _unpacked(archive: Path) -> Path:
    """The trajectory in a .zip, whose names lead nowhere else: a folder of COLMAP, or the poses of ViPE beside their lens."""
    folder = archive.parent / "files"
    folder.mkdir()
    try:
        with zipfile.ZipFile(archive) as packed:
            members = [member for member in packed.infolist() if not member.is_dir()]
            size = sum(member.file_size for member in members)
            if not 0 < len(members) <= _MAX_MEMBERS or size > MAX_FILE_BYTES:
                raise SightlineError(
                    f"{archive} has {counted(len(members), 'file')} with {size / 2**20:.0f} MiB in all: expected 1 to "
                    f"{_MAX_MEMBERS} files with at most {MAX_FILE_BYTES >> 20} MiB."
                )
            for member in members:
                parts = [require_plain_name("a file of the .zip", part) for part in member.filename.split("/")]
                place = folder.joinpath(*parts)
                place.parent.mkdir(parents=True, exist_ok=True)
                with packed.open(member) as stream:
                    place.write_bytes(stream.read(MAX_FILE_BYTES))
    except SightlineError:
        raise
    except Exception as error:  # whatever zipfile raises for a damaged archive, a password or an unknown compression
        raise SightlineError(f"{archive} cannot be read ({reason(error)}): expected a .zip of a trajectory.") from None
    return next(iter(sorted(folder.glob("pose/*.npz"))), folder)


def shown_name(name: str) -> str:
    """A name that may be anything, on one line and not too long."""
    plain = "".join(letter if letter.isprintable() else "?" for letter in name) or "the file"
    return plain if len(plain) <= _SHOWN else f"{plain[: _SHOWN - 3]}..."
