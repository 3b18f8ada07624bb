"""Uploads are checked before they are decoded, and names never become paths."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from sightline.cameras import moves
from sightline.errors import SightlineError
from sightline.files import require_folder_name
from sightline.studio import uploads
from sightline.studio.library import Library


def png(side=8, **options):
    buffer = io.BytesIO()
    Image.new("RGB", (side, side), (9, 8, 7)).save(buffer, "PNG", **options)
    return buffer.getvalue()


def png_that_claims(width, height):
    """A small file whose header claims a huge picture."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(b"")) + chunk(b"IEND", b"")


def test_a_picture_is_read():
    assert uploads.read_picture(png(), "room.png").size == (8, 8)


@pytest.mark.parametrize(
    "content, words",
    [
        (b"", "is no picture"),
        (b"<svg onload=alert(1)>", "is no picture"),
        (b"%!PS-Adobe-3.0 EPSF-3.0", "is no picture"),
        (b"\x89PNG\r\n\x1a\nxxxx", "is a damaged PNG file"),
        (png()[:40], "is a damaged PNG file"),
        (png(64)[:-30], "cannot be read"),
        (png_that_claims(60_000, 60_000), "expected at most 50,000,000"),
        (png_that_claims(8_000, 8_000), "8000x8000 pixels"),
    ],
    ids=["empty", "svg", "eps", "damaged", "cut", "cut late", "bomb", "large"],
)
def test_a_hostile_picture_is_refused_in_one_sentence(content, words):
    with pytest.raises(SightlineError, match=words) as caught:
        uploads.read_picture(content, "../../etc/\n<b>x</b>" + "y" * 200)
    assert "\n" not in str(caught.value) and len(str(caught.value)) < 300 and "object at" not in str(caught.value)


def test_a_file_that_is_too_large_is_refused_before_it_is_opened(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_PICTURE_BYTES", 10)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    with pytest.raises(SightlineError, match="MiB"):
        uploads.read_picture(png(), "room.png")


@pytest.mark.parametrize(
    "name", ["path.json", "../../path.json", "/etc/passwd.json", "a\0b.json", "x" * 5000 + ".json"]
)
def test_a_trajectory_is_read_whatever_its_name(tmp_path, name):
    moves.orbit(10, frames=5).save(tmp_path / "path.json")
    assert len(uploads.read_trajectory((tmp_path / "path.json").read_bytes(), name)) == 5


def test_a_trajectory_without_a_lens_gets_that_of_the_page_and_another_keeps_its_own(tmp_path):
    path = moves.orbit(10, frames=5, width=128, height=128, focal_mm=50)
    page = {"width": 128, "height": 128, "focal_mm": 35.0}
    for name, focal_mm in (("path.tum", 35.0), ("path.npy", 35.0), ("path.json", 50.0)):
        path.save(tmp_path / name)
        read = uploads.read_trajectory((tmp_path / name).read_bytes(), name, **page).fit_to(128, 128)
        assert float(read.intrinsics[0, 0, 0]) == pytest.approx(focal_mm * 128 / 36)


def test_a_trajectory_that_is_none_is_refused_without_the_name_of_our_file():
    with pytest.raises(SightlineError, match=r"notes\.txt") as caught:
        uploads.read_trajectory(b"hello", "notes.txt")
    assert "sightline-upload" not in str(caught.value)


NAMES = [
    "..",
    ".",
    "",
    "/etc",
    "../secret",
    "a/b",
    "a\\..\\b",
    "a\0b",
    ".hidden",
    "~",
    "con\n",
    "%2e%2e",
    "x" * 5000,
    "inputs",
]


@pytest.mark.parametrize("name", NAMES)
def test_no_name_leads_out_of_the_output_folder(tmp_path, name):
    secret = tmp_path / "secret"
    secret.mkdir()
    (secret / "settings.json").write_text('{"request": {}, "generated": {}, "model": {}, "result": {}}')
    library = Library(tmp_path / "films")
    library.folder.mkdir()
    (library.folder / "link").symlink_to(secret)
    for action in (library.film, library.delete):
        for tried in (name, "link", str(secret), "../secret", "films/../../secret", f"{library.folder}/../secret"):
            with pytest.raises(SightlineError, match="the film"):
                action(tried)
    assert (secret / "settings.json").exists()
    assert library.names() == []
    for tried in (name, str(secret), "../secret", "-rf *", "--output=x", "the garden of IMG_2033.jpg"):
        new = require_folder_name(library.new_folder(tried))
        assert new.name[0] not in ".-"  # neither hidden nor read as an option by a command
        assert new.parent == library.folder and new.resolve().parent == library.folder and new.name != "inputs"


def test_pictures_and_trajectories_are_kept_once_by_their_content(tmp_path):
    library = Library(tmp_path)
    image = Image.fromarray(np.zeros((4, 4, 3), np.uint8))
    assert library.keep_picture(image) == library.keep_picture(image)
    path = moves.orbit(10, frames=5)
    assert library.keep_trajectory(path) == library.keep_trajectory(path)
    assert len(list((tmp_path / "inputs").iterdir())) == 2


def zipped(**files):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return buffer.getvalue()


@pytest.mark.parametrize("format, place", [("colmap", "."), ("vipe", "pose/x.npz")])
def test_a_trajectory_of_several_files_is_opened_from_a_zip(tmp_path, format, place):
    path = moves.parse("dolly:0.3+pan:15", frames=9, width=64, height=48)
    (tmp_path / "files" / place).parent.mkdir(parents=True, exist_ok=True)
    path.save(tmp_path / "files" / place, format=format)
    found = sorted(file for file in (tmp_path / "files").rglob("*") if file.is_file())
    content = zipped(**{str(file.relative_to(tmp_path / "files")): file.read_bytes() for file in found})
    opened = uploads.read_trajectory(content, f"{format}.zip", width=64, height=48, focal_mm=28.0)
    torch.testing.assert_close(opened.anchored().camera_to_world, path.camera_to_world, atol=1e-6, rtol=0)
    torch.testing.assert_close(opened.intrinsics, path.intrinsics, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "content",
    [
        b"PK nothing",
        zipped(),
        zipped(**{"../evil.txt": b"x"}),
        zipped(**{"/etc/evil": b"x"}),
        zipped(**{f"{n}.txt": b"x" for n in range(17)}),
        zipped(**{"readme.txt": b"no cameras"}),
    ],
)
def test_a_hostile_zip_is_refused_in_a_sentence_without_our_own_paths(content):
    with pytest.raises(SightlineError, match="expected") as caught:
        uploads.read_trajectory(content, "path.zip", width=64, height=48, focal_mm=28.0)
    assert "sightline-upload-" not in str(caught.value)


def test_the_poses_of_vipe_without_their_lens_do_not_name_our_folder(tmp_path):
    moves.pan(5, frames=3, width=64, height=48).save(tmp_path / "pose.npz", format="vipe")
    with pytest.raises(SightlineError, match="expected a file") as caught:
        uploads.read_trajectory((tmp_path / "pose.npz").read_bytes(), "pose.npz", width=64, height=48, focal_mm=28.0)
    assert "sightline-upload-" not in str(caught.value)


def test_a_zip_that_unpacks_to_too_much_is_refused_with_its_size(monkeypatch):
    monkeypatch.setattr(uploads, "MAX_FILE_BYTES", 2**20)
    with zipfile.ZipFile(buffer := io.BytesIO(), "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("large.txt", bytes(3 * 2**20))
    with pytest.raises(SightlineError, match=r"bomb\.zip has 1 file with 3 MiB in all: expected 1 to 16 files"):
        uploads.read_trajectory(buffer.getvalue(), "bomb.zip", width=64, height=48, focal_mm=28.0)
