"""The metrics of a run: scores of each clip, and features kept for the distances between sets of clips."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from sightline.errors import SightlineError
from sightline.evaluation.metrics.networks import consecutive_cosine, open_network
from sightline.evaluation.metrics.similarity import cosine, ssim
from sightline.images import as_frames, psnr

_log = logging.getLogger("sightline")


@dataclass(frozen=True)
class Metric:
    """title: as tables print it. better: "higher" or "lower". network: what computes its features, if anything does.
    distance: whether it compares sets of clips rather than clips."""

    title: str
    better: Literal["higher", "lower"]
    network: str | None = None
    distance: bool = False


METRICS: dict[str, Metric] = {
    "psnr": Metric("PSNR (dB)", "higher"),
    "ssim": Metric("SSIM", "higher"),
    "lpips": Metric("LPIPS", "lower", "lpips"),
    "clip_text": Metric("CLIP text", "higher", "clip"),
    "clip_frames": Metric("CLIP inter-frame", "higher", "clip"),
    "dino": Metric("DINOv2", "higher", "dino"),
    "fvd": Metric("FVD", "lower", "i3d", distance=True),
    "fvd_c": Metric("FVD_c", "lower", "i3d", distance=True),
    "fvd_16": Metric("FVD, 16 frames", "lower", "i3d", distance=True),
    "fvd_c_16": Metric("FVD_c, 16 frames", "lower", "i3d", distance=True),
    "fid": Metric("FID", "lower", "inception", distance=True),
}
GROUPS = {
    "offline": tuple(name for name, metric in METRICS.items() if metric.network is None),
    "paper": ("psnr", "ssim", "lpips", "dino", "clip_text", "fvd", "fvd_c", "fvd_16", "fvd_c_16", "fid"),
    "all": tuple(METRICS),
    "none": (),
}
WINDOW = 16  # frames of a window of fvd_16 and fvd_c_16, as FVD was published
DEFAULT_METRICS = ("offline", "lpips")  # LPIPS is left out where its package is missing


def metric_names(requested: Iterable[str]) -> tuple[str, ...]:
    """The metrics of these names and groups, without repeats, in the order of the tables."""
    names: set[str] = set()
    for name in requested:
        if name not in METRICS and name not in GROUPS:
            raise SightlineError(f"metrics has {name!r}: expected some of {', '.join([*GROUPS, *METRICS])}.")
        names.update(GROUPS.get(name, (name,)))
    return tuple(name for name in METRICS if name in names)


@dataclass
class SuiteScores:
    """Scores of one generated video against the ground truth.

    by_frame: [T] for each metric of clips ([T - 1] for similarities of consecutive frames).
    generated, real: features [n, D] for each metric of sets of clips.
    """

    by_frame: dict[str, np.ndarray] = field(default_factory=dict)
    generated: dict[str, np.ndarray] = field(default_factory=dict)
    real: dict[str, np.ndarray] = field(default_factory=dict)


class Suite:
    """Some metrics and their networks. `open` loads the networks, before any video is generated, so that missing weights
    are reported early."""

    def __init__(self, names: Iterable[str], weights: Mapping[str, str] | None = None, device: Any = "cpu") -> None:
        self.names, self.weights, self.device = metric_names(names), dict(weights or {}), torch.device(device)
        self.networks: dict[str, Any] = {}
        self.left_out: dict[str, str] = {}  # metric -> why it is left out

    def leave_out(self, names: Iterable[str], reason: str) -> None:
        """Drop those of these metrics that the suite has, and remember why."""
        lost = [name for name in self.names if name in set(names)]
        if lost:
            self.left_out |= dict.fromkeys(lost, reason)
            self.names = tuple(name for name in self.names if name not in lost)
            _log.warning("left out %s: %s", " and ".join(METRICS[name].title for name in lost), reason)

    def open(self, leave_out: bool = False) -> Suite:
        """Load the networks. leave_out: a metric whose weights are missing is left out with a note instead of refused."""
        for network in dict.fromkeys(METRICS[name].network for name in self.names):
            if network is None:
                continue
            try:
                self.networks[network] = open_network(network, self.weights, self.device)
            except SightlineError as error:
                if not leave_out:
                    raise
                self.leave_out([name for name in self.names if METRICS[name].network == network], str(error))
        return self

    def score(self, video: Any, ground_truth: Any, caption: str | None) -> SuiteScores:
        """Every metric of a generated video [T, H, W, 3] against the ground-truth video of the same shape.

        caption: None for a clip that has none, and therefore no similarity to its text.
        """
        generated, real = as_frames(video), as_frames(ground_truth)
        scores = SuiteScores()
        cache: dict[tuple[str, bool], Tensor] = {}

        def features(network: str, of_real: bool) -> Tensor:  # [T, D]; a network runs once on each video
            if (network, of_real) not in cache:
                cache[network, of_real] = self.networks[network].frames(real if of_real else generated)
            return cache[network, of_real]

        for name in self.names:
            network = str(METRICS[name].network)
            if name == "psnr":
                scores.by_frame[name] = psnr(generated, real)
            elif name == "ssim":
                scores.by_frame[name] = ssim(generated, real)
            elif name == "lpips":
                scores.by_frame[name] = self.networks["lpips"].frames(generated, real)
            elif name == "clip_text":
                if caption is None:
                    continue
                of_frames, of_text = features("clip", False), self.networks["clip"].text(caption)
                scores.by_frame[name] = 100 * np.maximum(cosine(of_frames, of_text.expand_as(of_frames)), 0)
            elif name == "clip_frames":
                scores.by_frame[name] = consecutive_cosine(features("clip", False))
            elif network == "i3d":
                cropped, windowed = name.startswith("fvd_c"), name.endswith("_16")
                for store, frames in ((scores.generated, generated), (scores.real, real)):
                    windows = _windows(frames) if windowed else [frames]
                    store[name] = torch.cat([self.networks["i3d"].clip(part, cropped) for part in windows]).numpy()
            elif METRICS[name].distance:
                scores.generated[name], scores.real[name] = (
                    features(network, which).numpy() for which in (False, True)
                )
            else:
                scores.by_frame[name] = cosine(features(network, False), features(network, True))
        return scores


def _windows(frames: np.ndarray) -> list[np.ndarray]:  # [T, H, W, 3] -> [WINDOW, H, W, 3] each
    """The windows that follow one another from frame 0 on; frames after the last whole one are left out."""
    if len(frames) < WINDOW:
        raise SightlineError(
            f"video has {len(frames)} frames: expected at least {WINDOW} for FVD on windows of that many."
        )
    return [frames[start : start + WINDOW] for start in range(0, len(frames) - WINDOW + 1, WINDOW)]
