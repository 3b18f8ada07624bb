"""The distance between videos."""

from __future__ import annotations

import numpy as np
import pytest

from sightline.errors import SightlineError
from sightline.images import psnr


def constant_video(frames=7, height=20, width=30, value=0):
    return np.full((frames, height, width, 3), value, dtype=np.uint8)


def test_psnr_of_equal_and_of_opposite_videos():
    assert psnr(constant_video(), constant_video()).tolist() == [100.0] * 7
    assert psnr(constant_video(), constant_video(value=255)) == pytest.approx(0.0)
    with pytest.raises(SightlineError, match="video has shape"):
        psnr(constant_video(), constant_video(6))
