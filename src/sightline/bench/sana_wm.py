"""SANA-WM's step: the stock model alone, since its camera is part of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from diffusers import SanaWMTransformer3DModel
from diffusers.pipelines.sana_wm.cam_utils import prepare_camera
from torch import Tensor, nn

from sightline.backbones.sana_wm import camera_arguments
from sightline.bench.models import Mode, Setting
from sightline.bench.results import What
from sightline.cameras import moves
from sightline.errors import SightlineError

_TEXT_TOKENS = 300  # of a padded prompt


def require_rows(what: Sequence[What], rows: Sequence[tuple[str, Mode]]) -> None:
    """Refuse what only Wan models can do."""
    wrong = [*(kind for kind in what if kind != "inference"), *(method for method, _ in rows if method != "stock")]
    wrong += [mode for _, mode in rows if "fused" in mode]
    if wrong:
        raise SightlineError(
            f"{wrong[0]} is asked of sana-wm: expected --what inference --methods stock --modes eager compiled."
        )


def random_sana_wm(setting: Setting, device: torch.device) -> SanaWMTransformer3DModel:
    """The released configuration with random weights."""
    torch.manual_seed(0)
    with torch.device(device):
        model = SanaWMTransformer3DModel(**setting.config)
    return nn.Module.to(model, setting.dtype).eval()  # diffusers' own `to` warns, in vain


def compiled(model: SanaWMTransformer3DModel, setting: Setting) -> SanaWMTransformer3DModel:
    """The model with its blocks compiled, in place."""
    model.compile_repeated_blocks(**({"backend": setting.backend} if setting.backend else {}))
    return model


def call_arguments(setting: Setting, device: torch.device) -> dict[str, Any]:
    """The inputs of one clip without guidance, as the pipeline gives them: the given first frame has timestep 0."""
    grid, config, generator = setting.grid, setting.config, torch.Generator(device).manual_seed(0)

    def normal(*shape: int) -> Tensor:
        return torch.randn(1, *shape, generator=generator, device=device, dtype=setting.dtype)

    path = moves.orbit(30, frames=setting.num_frames, width=setting.width, height=setting.height)
    camera = prepare_camera(
        **dict(zip(("poses_c2w", "intrinsics_vec4"), camera_arguments(path).values(), strict=True)),
        target_size=(setting.height, setting.width),
        vae_stride=tuple(setting.stride),
    )
    timestep = torch.full((1, 1, grid.frames), 897.0, device=device)
    timestep[..., 0] = 0
    return {
        "hidden_states": normal(config["in_channels"], *grid),
        "timestep": timestep,
        "encoder_hidden_states": normal(1, _TEXT_TOKENS, config["caption_channels"]),
        "mask": torch.ones(1, _TEXT_TOKENS, device=device),
        "camera_conditions": camera["raymap"][None].to(device, setting.dtype),
        "chunk_plucker": camera["chunk_plucker"][None].to(device, setting.dtype),
        "return_dict": False,
    }
