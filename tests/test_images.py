"""Images that are read keep their grey, and the distance between videos."""

from __future__ import annotations

import os
import struct
import zlib

import numpy as np
import pytest
import torch
from PIL import Image

from sightline.errors import SightlineError
from sightline.images import load_image, psnr


def constant_video(frames=7, height=20, width=30, value=0):
    return np.full((frames, height, width, 3), value, dtype=np.uint8)


def test_psnr_of_equal_and_of_opposite_videos():
    assert psnr(constant_video(), constant_video()).tolist() == [100.0] * 7
    assert psnr(constant_video(), constant_video(value=255)) == pytest.approx(0.0)
    with pytest.raises(SightlineError, match="video has shape"):
        psnr(constant_video(), constant_video(6))


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.uint8])
def test_a_first_frame_may_be_a_tensor(kind):
    pixels = torch.arange(16 * 16 * 3).reshape(16, 16, 3) % 2  # black and white, which every dtype holds
    tensor = (pixels * 255).to(kind) if kind == torch.uint8 else pixels.to(kind).requires_grad_()
    assert (np.asarray(load_image(tensor, 16, 16)) == pixels.numpy() * 255).all()


@pytest.mark.parametrize(
    "array, sentence",
    [
        (np.full((8, 8, 3), 200.0), "image holds values from 200 to 200"),
        (np.full((8, 8, 3), np.nan), "image holds values from nan"),
        (np.zeros((8, 8, 3), int), "image holds int64"),
        (np.zeros((0, 8, 3), np.uint8), "image has shape"),
    ],
)
def test_an_error_about_a_picture_calls_it_an_image(array, sentence):
    with pytest.raises(SightlineError, match=sentence):
        load_image(array, 16, 16)


def test_grey_of_16_bits_and_fractions_keep_their_grey(tmp_path):
    ramp = np.arange(0, 256, dtype=np.uint8).reshape(16, 16)
    Image.fromarray(ramp.astype(np.uint16) * 257).save(tmp_path / "grey.png")
    Image.fromarray(ramp.astype(np.float32) / 255).save(tmp_path / "float.tif")
    for name in ("grey.png", "float.tif"):
        for image in (tmp_path / name, Image.open(tmp_path / name)):
            loaded = np.asarray(load_image(image, 16, 16))
            assert loaded.shape == (16, 16, 3) and (loaded == ramp[..., None]).all(), name


@pytest.mark.parametrize(
    "array, sentence",
    [
        (np.full((4, 4), 200, np.float32), "floating-point numbers from 200 to 200: expected 8 or 16 bits"),
        (np.full((4, 4), np.nan, np.float32), "floating-point numbers from nan"),
        (np.full((4, 4), 70000, np.int32), "integers of 32 bits from 70000"),
    ],
)
def test_pixels_without_a_known_white_are_refused(array, sentence, tmp_path):
    Image.fromarray(array).save(tmp_path / "a.tif")
    with pytest.raises(SightlineError, match=sentence):
        load_image(tmp_path / "a.tif", 4, 4)


def test_what_is_no_picture_is_one_sentence(tmp_path):
    os.mkfifo(tmp_path / "pipe.png")
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "empty.png").write_bytes(b"")
    (tmp_path / "device.png").symlink_to("/dev/zero")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (32, 32, 3), np.uint8)).save(tmp_path / "cut.png")
    sound = (tmp_path / "cut.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(sound[:600])
    header = sound[12:16] + struct.pack(">II", 100_000, 100_000) + sound[24:29]
    (tmp_path / "bomb.png").write_bytes(sound[:12] + header + struct.pack(">I", zlib.crc32(header)) + sound[33:])
    Image.new("RGB", (8, 8)).save(tmp_path / "a.eps")
    (tmp_path / "a.eps").rename(tmp_path / "program.png")  # Pillow would start Ghostscript
    for file in sorted(tmp_path.iterdir()):
        with pytest.raises(SightlineError, match=f"{file.name} cannot be read") as caught:
            load_image(file, 8, 8)
        assert "\n" not in str(caught.value)
