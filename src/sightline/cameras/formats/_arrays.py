"""npy and npz files, read without pickle and without trusting the header: the size of the data is checked first."""

from __future__ import annotations

import io
import math
import zipfile

import numpy as np

from sightline.cameras.formats._files import MAX_BYTES, InputFile
from sightline.files import reason

NPY_MAGIC = b"\x93NUMPY"
ZIP_MAGIC = b"PK\x03\x04"


def parse_npy(file: InputFile, data: bytes, name: str) -> np.ndarray:
    """A float64 array from the bytes of an npy file; only plain real numbers are accepted."""
    stream = io.BytesIO(data)
    try:
        version = np.lib.format.read_magic(stream)
        read_header = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, fortran_order, dtype = read_header(stream)
    except Exception as error:  # the header is a Python literal: damaged ones raise nearly anything
        raise file.error(f"found a broken npy header in {name} ({reason(error)}), expected an array.") from None
    if dtype.kind not in "fiu" or any(size < 0 for size in shape):
        raise file.error(f"found an array of {dtype.str} in {name}, expected real numbers.")
    body = data[stream.tell() :]
    if len(body) != math.prod(shape) * dtype.itemsize:
        raise file.error(
            f"found {len(body)} bytes of numbers in {name}, expected {math.prod(shape) * dtype.itemsize} "
            f"for the shape {list(shape)}."
        )
    flat = np.frombuffer(body, dtype=dtype)
    array = flat.reshape(shape, order="F" if fortran_order else "C")
    with np.errstate(all="ignore"):  # a float128 too large becomes infinite and is refused by the reader
        return array.astype(np.float64)


def npy_shape(data: bytes) -> tuple[int, ...] | None:
    """The shape that the header of an npy file states; None where it cannot be read."""
    stream = io.BytesIO(data)
    try:
        np.lib.format.read_magic(stream)
        return tuple(np.lib.format.read_array_header_1_0(stream)[0])
    except Exception:  # the header is a Python literal: damaged ones raise nearly anything
        return None


def npz_array(file: InputFile, name: str) -> np.ndarray:
    """One array of an npz; at most MAX_BYTES are unpacked, whatever the archive claims."""
    with _open_archive(file) as archive:
        if f"{name}.npy" not in archive.namelist():
            raise file.error(f"found no array {name!r}, expected one.")
        try:
            with archive.open(f"{name}.npy") as member:
                data = member.read(MAX_BYTES + 1)
        except Exception as error:  # zlib, lzma, bz2, CRC, encryption and unknown methods each raise their own
            raise file.error(f"found a damaged array {name!r} ({reason(error)}), expected an npz file.") from None
    if len(data) > MAX_BYTES:
        raise file.error(f"found an array {name!r} over {MAX_BYTES // 2**20} MB, expected at most that.")
    return parse_npy(file, data, name)


def npz_names(file: InputFile) -> list[str]:
    """The names of the arrays of an npz."""
    with _open_archive(file) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")]


def npy_bytes(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=False)
    return stream.getvalue()


def npz_bytes(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)  # type: ignore[arg-type]
    return stream.getvalue()


def _open_archive(file: InputFile) -> zipfile.ZipFile:
    data = file.data
    try:
        return zipfile.ZipFile(io.BytesIO(data))
    except Exception as error:  # a damaged directory raises BadZipFile, struct.error, UnicodeDecodeError, ...
        raise file.error(f"found a damaged archive ({reason(error)}), expected an npz file.") from None
