"""Whether the clips of a cache were encoded by the VAE of the model that is trained on them."""

from __future__ import annotations

import logging

import torch.distributed as dist
from torch import nn

from sightline.backbones.pipelines import load_vae
from sightline.backbones.shipped import resolve
from sightline.backbones.tiny import tiny_by_name
from sightline.backbones.weights_digest import weights_digest
from sightline.data.encode import DIGESTS
from sightline.data.joined_caches import JoinedCaches
from sightline.errors import SightlineError

_log = logging.getLogger("sightline")


def require_vae_of(caches: JoinedCaches, base: str, vae: nn.Module | None) -> None:
    """Refuse caches that another VAE has encoded than that of the base model, even one of the same configuration.

    vae: that of the base, where this process has loaded it. Otherwise one process reads it and tells the others.
    """
    expected = caches.caches[0].encoder_digests[DIGESTS[0]]  # the caches agree among themselves
    found = _digest_on_main_process(base) if vae is None else weights_digest(vae)
    if None not in (found, expected) and found != expected:
        raise SightlineError(
            f"{caches.caches[0].folder} was encoded by another VAE than that of model.base {base!r}: expected a cache of that "
            "model (sightline data cache --model)."
        )


def _digest_on_main_process(base: str) -> str | None:
    digest = [_digest(base) if not dist.is_initialized() or dist.get_rank() == 0 else None]
    if dist.is_initialized():
        dist.broadcast_object_list(digest, src=0)
    return digest[0]


def _digest(base: str) -> str | None:
    """None where the VAE is not at hand: training needs it for the validation videos only."""
    if (tiny := tiny_by_name(base)) is not None:
        return weights_digest(tiny.vae)
    try:
        return weights_digest(load_vae(resolve(base)))
    except (SightlineError, OSError) as error:
        _log.warning("whether the cache was encoded by the VAE of %s cannot be checked: %s", base, error)
        return None
