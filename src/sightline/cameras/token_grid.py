"""The grid of tokens of a latent video, and how many frames and pixels of the video one token covers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from sightline.checks import whole_number

# Raw frames per latent frame of every Wan VAE, for code that knows the trajectory but not the model.
TEMPORAL_STRIDE = 4
_SPATIAL_STRIDE = 8  # AutoencoderKLWan's default, for configurations that do not name it


class TokenStride(NamedTuple):
    """How much of a video one token covers."""

    frames: int  # raw frames; the first latent frame covers one alone
    height: int  # pixels
    width: int

    @classmethod
    def from_vae(cls, vae_config: Mapping[str, Any], patch_size: Sequence[int]) -> TokenStride:
        """The strides of the VAE (its config) times the patch size (t, h, w) of the transformer."""
        temporal = vae_config.get("scale_factor_temporal") or TEMPORAL_STRIDE
        spatial = vae_config.get("scale_factor_spatial") or _SPATIAL_STRIDE
        patch = [whole_number("patch_size", size) for size in patch_size]
        temporal, spatial = (whole_number("the VAE's scale factor", factor) for factor in (temporal, spatial))
        return cls(temporal * patch[0], spatial * patch[1], spatial * patch[2])

    def nearest_num_frames(self, num_frames: int) -> int:
        """The number of frames nearest to this one that fills whole latent frames: n times the stride, plus one."""
        return round((num_frames - 1) / self.frames) * self.frames + 1

    def nearest_size(self, width: int, height: int) -> tuple[int, int]:
        """The (width, height) nearest to this one that fills whole tokens, at least one each way."""
        return (
            max(self.width, round(width / self.width) * self.width),
            max(self.height, round(height / self.height) * self.height),
        )


class TokenGrid(NamedTuple):
    """The number of latent frames, token rows and token columns of a video."""

    frames: int
    rows: int
    columns: int

    @classmethod
    def from_latents(cls, shape: Sequence[int], patch_size: Sequence[int]) -> TokenGrid:
        """Of latents of this shape, [..., t, h, w], cut into patches of this size (t, h, w)."""
        return cls(*(size // patch for size, patch in zip(shape[-3:], patch_size, strict=True)))

    @classmethod
    def from_video(cls, num_frames: int, width: int, height: int, stride: TokenStride) -> TokenGrid:
        """Of a video of this size, whose tokens cover `stride`."""
        return cls((num_frames - 1) // stride.frames + 1, height // stride.height, width // stride.width)

    def temporal_stride(self, num_frames: int) -> int:
        """Raw frames per latent frame, for a video of so many frames on this grid; 1 for a video of one frame."""
        return max((num_frames - 1) // max(self.frames - 1, 1), 1)

    @property
    def tokens_per_frame(self) -> int:
        """Tokens of one latent frame."""
        return self.rows * self.columns

    @property
    def num_tokens(self) -> int:
        """Tokens of the whole video."""
        return self.frames * self.rows * self.columns
