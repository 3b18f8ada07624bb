"""Estimates the memory that a model needs from its configuration files, and says what to use where there is too little."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from sightline.backbones.config_files import Configs
from sightline.backbones.families import LTX2, SANA_WM, WAN, Family, family_of_config, patch_size
from sightline.backbones.hy_worldplay_memory import WINDOW
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.speed import joins_offloaded
from sightline.backbones.stock import EXPERTS
from sightline.backbones.wan_configs import HY_WORLDPLAY
from sightline.errors import SightlineError
from sightline.memory import GIB, available_memory

OFFLOADS = ("none", "model", "group", "sequential")  # from the fastest to the one that needs the least memory
# Bytes per token and channel in bfloat16, measured: of a layer, and of the embedding where each token has a timestep.
_ATTENTION, _TOKEN_TIME = 40, 36
_SANA_WM = 160  # bytes per token and channel of SANA-WM, whose attention runs in float32 (counted on a narrow model)
_MARGIN = 1.1  # for the workspaces of kernels and the gaps of the allocator


@dataclass(frozen=True)
class Estimate:
    """Bytes. blocks: the largest layer of each component, which is what offloading keeps on the device. beside: what
    transformers have beside their blocks, which group offloading keeps there too. pinned: all weights in pinned memory, where
    each tensor takes a power of two."""

    weights: Mapping[str, int]
    blocks: Mapping[str, int]
    beside: int
    pinned: int
    denoising: int
    decoding: int

    def device(self, offload: str) -> int:
        """Peak on the device that computes."""
        work = dict.fromkeys(EXPERTS, self.denoising) | {"vae": self.decoding}
        if offload == "none":
            peak = sum(self.weights.values()) + max(work.values())
        elif offload == "model":
            peak = max(size + work.get(name, 0) for name, size in self.weights.items())
        else:  # one group computes while the next one is copied
            peak = max(2 * size + work.get(name, 0) for name, size in self.blocks.items())
            peak += self.beside if offload == "group" else 0
        return int(peak * _MARGIN)

    def host(self, offload: str) -> int:
        """Main memory: all weights pass through it, and stay there when they are offloaded."""
        return self.pinned if offload == "group" else sum(self.weights.values())


def estimate(
    configs: Configs,
    num_frames: int,
    width: int,
    height: int,
    dtype: torch.dtype,
    *,
    camera_guidance: bool = False,
    tiled: bool = False,
    joined: bool = False,
    bfloat16_vae: bool = False,
) -> Estimate:
    """The memory for one video. camera_guidance: its two passes are one batch. tiled: the VAE decodes tile by tile. joined: the
    two passes of text guidance are one batch where the film is not too large for that (`joins_offloaded`). bfloat16_vae: a VAE
    in float32 decodes in bfloat16."""
    info, size = ModelInfo.from_configs(configs), dtype.itemsize
    family = family_of_config(configs[""])
    parts = {name: on_meta(name, config, family) for name, config in configs.items() if name}
    sizes = dict.fromkeys(parts, size) | ({"vae": 4} if family.float32_vae else {})
    weights = {name: sum(p.numel() for p in part.parameters()) * sizes[name] for name, part in parts.items()}
    blocks = {name: _largest_block(part) * sizes[name] for name, part in parts.items()}
    beside = sum(_beside_blocks(part) * sizes[name] for name, part in parts.items() if name in EXPERTS)
    pinned = sum(_power_of_two(p.numel() * sizes[name]) for name, part in parts.items() for p in part.parameters())
    transformer, grid = configs["transformer"], info.grid(num_frames, width, height)
    frames = min(grid.frames, WINDOW + info.latent_chunk) if info.latent_chunk > 1 else grid.frames
    tokens = frames * grid.tokens_per_frame * (2 if camera_guidance else 1)
    tokens *= 2 if family in (LTX2, SANA_WM) else 1  # their text guidance is one batch too
    tokens *= 2 if joined and family is WAN and joins_offloaded(grid.num_tokens) else 1
    if family is SANA_WM:
        denoising = tokens * transformer["hidden_size"] * _SANA_WM
    else:
        channels = transformer["num_attention_heads"] * transformer["attention_head_dim"]
        per_channel = _ATTENTION + (_TOKEN_TIME if configs[""].get("expand_timesteps") or family is LTX2 else 0)
        denoising = tokens * channels * per_channel * size // 2
    vae, video = parts["vae"], num_frames * height * width * 3 * 4
    if tiled:
        width, height = min(width, vae.tile_sample_min_width), min(height, vae.tile_sample_min_height)
    grid, patch = info.grid(num_frames, width, height), patch_size(transformer)
    # Wan's VAE decodes one latent frame after the other; from the third on, all of its caches are full. LTX-2's decodes all.
    frames = 3 if family.float32_vae else grid.frames * patch[0]
    shape = (1, vae.config[family.latent_channels], frames, grid.rows * patch[1], grid.columns * patch[2])
    decoding = _decoding_peak(vae, shape) * min(sizes["vae"], 2 if bfloat16_vae else 4) // 4 + 2 * video
    return Estimate(weights, blocks, beside, pinned, denoising, decoding)


def require_memory(needs: Estimate, offload: str, device: torch.device, tiled: bool) -> str:
    """One line that states the estimate; refuses what does not fit, and says what to use instead."""
    available = available_memory()
    if device.type == "cpu":
        needed = needs.device("none")
        if needed > available:
            raise SightlineError(
                f"the model needs about {needed / GIB:.0f} GiB of memory and {available / GIB:.0f} are free: expected a smaller "
                "size, fewer frames, --dtype bfloat16, or another machine (--ignore-memory tries all the same)."
            )
        return f"memory, estimated: {needed / GIB:.1f} of {available / GIB:.1f} GiB"
    free, _ = torch.cuda.mem_get_info(device)
    needed = needs.device(offload)
    if needed > free:
        raise SightlineError(
            f"the model needs about {needed / GIB:.0f} GiB on the GPU with --offload {offload} and {free / GIB:.0f} are free: "
            f"expected {_advice(needs, offload, free, tiled)} (--ignore-memory tries all the same)."
        )
    host = needs.host(offload)
    if host > available and offload != "none":
        raise SightlineError(
            f"the model needs about {host / GIB:.0f} GiB of main memory for --offload {offload} and "
            f"{available / GIB:.0f} are free: expected --offload none, or more memory (--ignore-memory tries all the same)."
        )
    return f"memory, estimated: {needed / GIB:.1f} of {free / GIB:.1f} GiB on the GPU, {host / GIB:.1f} in main memory"


def _advice(needs: Estimate, offload: str, free: int, tiled: bool) -> str:
    leaner = OFFLOADS[OFFLOADS.index(offload) + 1 :]
    fitting = [offload for offload in leaner if needs.device(offload) <= free]
    if fitting:
        return f"--offload {fitting[0]}, which needs about {needs.device(fitting[0]) / GIB:.0f} GiB"
    options = [] if tiled else ["--tiled-decode"]
    return ", ".join(
        [*([f"--offload {leaner[-1]}"] if leaner else []), *options, "a smaller --size or fewer --num-frames"]
    )


def on_meta(name: str, config: Mapping[str, Any], family: Family) -> Any:
    """The component without its weights."""
    import diffusers
    import transformers

    from sightline.backbones.hy_worldplay_model import HyWorldPlayTransformer3DModel
    from sightline.backbones.models import camera_class_of

    try:
        with torch.device("meta"):
            if name == "text_encoder":
                kind: Any = getattr(transformers, family.text_encoder)
                return kind(kind.config_class.from_dict(dict(config)))
            kind = getattr(diffusers, family.vae if name == "vae" else family.transformer)
            if config.get("_class_name") == HY_WORLDPLAY:
                kind = HyWorldPlayTransformer3DModel
            elif "encoding" in config:
                kind = camera_class_of(kind)
            return kind.from_config(dict(config))
    except (TypeError, ValueError, KeyError) as error:
        raise SightlineError(
            f"the configuration of the {name} is not valid ({error}): expected that of such a pipeline."
        ) from None


def _largest_block(part: nn.Module) -> int:
    """Parameters of the largest layer in any list of layers, or of a larger embedding beside them (the text encoder's)."""
    sizes = [
        sum(p.numel() for p in child.parameters())
        for m in part.modules()
        if isinstance(m, nn.ModuleList)
        for child in m
    ]
    tables = [m.weight.numel() for m in part.modules() if isinstance(m, nn.Embedding)]
    return max(sizes + tables, default=0)


def _beside_blocks(transformer: nn.Module) -> int:
    """Parameters outside its lists of blocks."""
    lists = [child for child in transformer.children() if isinstance(child, nn.ModuleList)]
    return sum(p.numel() for p in transformer.parameters()) - sum(
        p.numel() for part in lists for p in part.parameters()
    )


def _power_of_two(size: int) -> int:
    """The smallest power of two that is not less: torch's allocator of pinned memory hands out such blocks."""
    return 1 << (size - 1).bit_length() if size else 0


def _decoding_peak(vae: Any, shape: tuple[int, ...]) -> int:
    """Peak bytes while the VAE decodes latents of this shape in float32, found by running it on the meta device."""
    peak, latents = _PeakBytes(), torch.empty(shape, device="meta")
    with suppress(NotImplementedError), torch.no_grad(), torch.device("meta"), peak:
        vae.decode(latents, return_dict=False)
    return peak.bytes


class _PeakBytes(TorchDispatchMode):
    """The largest number of bytes, over all operations, of the storages that are alive after one."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0
        self._alive: dict[int, tuple[StorageWeakRef, int]] = {}

    def __torch_dispatch__(self, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = operation(*args, **(kwargs or {}))
        for leaf in tree_leaves(result):
            if isinstance(leaf, Tensor):
                storage = leaf.untyped_storage()
                self._alive[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())
        self._alive = {key: pair for key, pair in self._alive.items() if not pair[0].expired()}
        self.bytes = max(self.bytes, sum(size for _, size in self._alive.values()))
        return result
