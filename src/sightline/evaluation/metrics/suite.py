"""The metrics of a run: scores of a clip now, features kept for the distances between sets of clips."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sightline.errors import SightlineError
from sightline.evaluation.metrics.networks import open_network, pairwise_cosine
from sightline.evaluation.metrics.similarity import cosine, ssim
from sightline.images import as_frames, psnr

_log = logging.getLogger("sightline")


@dataclass(frozen=True)
class Metric:
    """title: as tables print it. better: which way. network: it looks through. distance: of sets, not of a clip."""

    title: str
    better: str  # "higher" or "lower"
    network: str | None = None
    distance: bool = False
    offline: bool = False  # needs no hub


METRICS: dict[str, Metric] = {
    "psnr": Metric("PSNR (dB)", "higher", offline=True),
    "ssim": Metric("SSIM", "higher", offline=True),
    "lpips": Metric("LPIPS", "lower", "lpips", offline=True),
    "clip_text": Metric("CLIP text", "higher", "clip"),
    "clip_frames": Metric("CLIP inter-frame", "higher", "clip"),
    "dino": Metric("DINOv2", "higher", "dino"),
    "cosine_efflite0": Metric("cosine EffLite0", "higher", "efflite0", offline=True),
    "fvd": Metric("FVD", "lower", "i3d", distance=True),
    "fvd_c": Metric("FVD_c", "lower", "i3d", distance=True),
    "fid": Metric("FID", "lower", "inception", distance=True),
    "fd_efflite0": Metric("FD-EffLite0", "lower", "efflite0", distance=True, offline=True),
}
PAPER = ("clip_text", "fvd", "fvd_c", "fid")
GROUPS = {
    "offline": tuple(name for name, metric in METRICS.items() if metric.offline),
    "paper": ("psnr", "ssim", "lpips", "dino", *PAPER),
    "all": tuple(METRICS),
    "none": (),
}


def metric_names(asked: Iterable[str]) -> tuple[str, ...]:
    """Metrics and groups of them, as one list without repeats, in the order of tables."""
    chosen: set[str] = set()
    for name in asked:
        if name not in METRICS and name not in GROUPS:
            raise SightlineError(f"metrics has {name!r}: expected some of {', '.join([*GROUPS, *METRICS])}.")
        chosen.update(GROUPS.get(name, (name,)))
    return tuple(name for name in METRICS if name in chosen)


class Suite:
    """Networks are opened by `open`, before anything is filmed, so that a missing weight costs no film."""

    def __init__(self, names: Iterable[str], weights: Mapping[str, str] | None = None, device: Any = "cpu") -> None:
        self.names, self.weights, self.device = metric_names(names), dict(weights or {}), torch.device(device)
        self.networks: dict[str, Any] = {}
        self.absent: dict[str, str] = {}  # by metric, why it is left out

    def open(self, leave_out: bool = False) -> Suite:
        """leave_out: a metric whose weights are absent is noted and left out instead of refused."""
        for network in dict.fromkeys(METRICS[name].network for name in self.names):
            if network is None:
                continue
            try:
                self.networks[network] = open_network(network, self.weights, self.device)
            except SightlineError as error:
                if not leave_out:
                    raise
                lost = [name for name in self.names if METRICS[name].network == network]
                self.absent |= dict.fromkeys(lost, str(error))
                _log.warning("left out %s: %s", " and ".join(METRICS[name].title for name in lost), error)
        self.names = tuple(name for name in self.names if name not in self.absent)
        return self

    def score(self, video: Any, truth: Any, caption: str) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        """Scores [T] (inter-frame: [T - 1]) by metric, and features [n, D] by "METRIC made" and "METRIC real"."""
        made, real = as_frames(video), as_frames(truth)
        scores: dict[str, np.ndarray] = {}
        features: dict[str, np.ndarray] = {}
        seen: dict[tuple[str, str], Tensor] = {}

        def frames(network: str, which: str) -> Tensor:  # [T, D]; a network looks at each film once
            if (network, which) not in seen:
                seen[network, which] = self.networks[network].frames(made if which == "made" else real)
            return seen[network, which]

        for name in self.names:
            if name == "psnr":
                scores[name] = psnr(made, real)
            elif name == "ssim":
                scores[name] = ssim(made, real)
            elif name == "lpips":
                scores[name] = self.networks["lpips"].frames(made, real)
            elif name == "clip_text":
                found, words = frames("clip", "made"), self.networks["clip"].text(caption)
                scores[name] = 100 * np.maximum(cosine(found, words.expand_as(found)), 0)
            elif name == "clip_frames":
                scores[name] = pairwise_cosine(frames("clip", "made"))
            elif name in ("fvd", "fvd_c"):
                for which, film in (("made", made), ("real", real)):
                    features[f"{name} {which}"] = self.networks["i3d"].clip(film, cropped=name == "fvd_c").numpy()
            elif METRICS[name].distance:
                for which in ("made", "real"):
                    features[f"{name} {which}"] = frames(str(METRICS[name].network), which).numpy()
            else:
                network = str(METRICS[name].network)
                scores[name] = cosine(frames(network, "made"), frames(network, "real"))
        return scores, features
