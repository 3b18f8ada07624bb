"""The token grid of a video is that of its latents, whichever of the two it is computed from."""

from __future__ import annotations

import pytest
import torch

from sightline.backbones.tiny import tiny_pipeline
from sightline.cameras.token_grid import TEMPORAL_STRIDE, TokenGrid, TokenStride


@pytest.mark.parametrize(
    "kind, stride",
    [
        ("ti2v-5b", TokenStride(frames=4, height=32, width=32)),
        ("i2v-a14b", TokenStride(frames=4, height=16, width=16)),
        ("pixels", TokenStride(frames=4, height=4, width=4)),
    ],
)
def test_the_grid_of_a_video_is_that_of_its_latents(kind, stride):
    pipe = tiny_pipeline(kind)
    patch_size = pipe.transformer.config.patch_size
    assert TokenStride.from_vae(pipe.vae.config, patch_size) == stride
    with torch.no_grad():
        latents = pipe.vae.encode(torch.zeros(1, 3, 5, 64, 96)).latent_dist.mode()
    grid = TokenGrid.from_video(5, 96, 64, stride)
    assert TokenGrid.from_latents(latents.shape, patch_size) == grid == (2, 64 // stride.height, 96 // stride.width)
    assert grid.num_tokens == grid.frames * grid.tokens_per_frame == grid.frames * grid.rows * grid.columns


def test_nearest_sizes_fill_whole_tokens():
    stride = TokenStride(frames=4, height=32, width=16)
    assert [stride.nearest_num_frames(count) for count in (1, 5, 8, 80, 82)] == [1, 5, 9, 81, 81]
    assert stride.nearest_size(832, 480) == (832, 480)
    assert stride.nearest_size(840, 470) == (832, 480) and stride.nearest_size(1, 1) == (16, 32)


def test_a_configuration_without_strides_means_the_defaults_of_the_vae():
    assert TokenStride.from_vae({}, (1, 2, 2)) == (TEMPORAL_STRIDE, 16, 16)


def test_the_stride_of_a_grid_is_never_zero():
    assert TokenGrid(9, 2, 2).temporal_stride(33) == 4
    assert TokenGrid(1, 2, 2).temporal_stride(1) == 1
