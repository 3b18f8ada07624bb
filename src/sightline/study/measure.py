"""What is measured on a trained model: held-out losses, videos against the truth, their cameras, closed loops."""

from __future__ import annotations

import dataclasses
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import torch

from sightline.backbones.inspect import ray_form
from sightline.cameras.trajectory import Trajectory
from sightline.data.clip_spec import ClipSpec
from sightline.data.rendered_store import RenderedStore
from sightline.encodings.scope import Scope
from sightline.evaluation.estimators import Hints, estimate_all, open_estimator
from sightline.evaluation.lab_psnr import MOVED_BELOW
from sightline.evaluation.metrics.similarity import ssim
from sightline.evaluation.metrics.suite import Suite
from sightline.evaluation.pose_errors import pose_errors
from sightline.evaluation.revisit import AWAY, RETURN, appearance_scores, return_scores, window_slice
from sightline.evaluation.scores import POSE_ERRORS
from sightline.evaluation.units import METRE, same_unit
from sightline.images import psnr
from sightline.study.losses import held_out_losses, split_held_out
from sightline.study.results import METRICS, POSES, finite
from sightline.study.sampling import generate_videos
from sightline.study.study import Measure
from sightline.study.videos import Kind, VideoCase, read_videos
from sightline.training.feeds import Feed, make_feed
from sightline.training.objective import autocast
from sightline.training.recipe import DataConfig, Recipe
from sightline.training.validation import evenly_spaced

_PATCH_SIZE = (1, 2, 2)  # of every Wan model
_RAW = ("trans_err", "cam_mc", "ate")
_NETWORKS = {"return_lpips": "lpips", "lpips_recovery": "lpips", "return_dino": "dino"}
_ESTIMATED_AT_ONCE = 16  # videos, on a GPU; as many as `direct` aligns together
_SEED = 0  # of the noise of measurements: the same for all rows and all seeds of a study

Values = dict[str, list[float | None]]  # one value per clip, by name of METRICS


class Measurer:
    """The clips of one table and what is measured on them. They are read when they are first needed, and kept.

    recipe: of the table, before its rows change it. videos: the sources of the clips to generate. store: in whose folder the
    files of clips are made where they do not exist yet; its `between` is called between all parts of the work.
    """

    def __init__(self, recipe: Recipe, videos: tuple[str, ...], measure: Measure, store: RenderedStore) -> None:
        self.recipe, self.sources, self.measure, self.store = (
            dataclasses.replace(recipe, seed=_SEED),
            videos,
            measure,
            store,
        )
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        self._cases: dict[Kind, list[VideoCase]] = {}
        self._true: dict[str, Trajectory | None] = {}  # estimated from the true videos

    @property
    def folder(self) -> Path:
        return self.store.folder

    @cached_property
    def encoder(self) -> Any:
        return self.store.encoder(self.recipe.model.base, self.device, self.recipe.dtype)

    @cached_property
    def feed(self) -> Feed:
        return self._open(self.recipe.data)

    def _open(self, data: DataConfig) -> Feed:
        encoder, batch_size = None if data.cache else self.encoder, self.recipe.optimizer.batch_size
        return make_feed(
            data, encoder, _SEED, batch_size=batch_size, patch_size=_PATCH_SIZE, with_camera=True, store=self.store
        )

    @cached_property
    def estimator(self) -> Any:
        return open_estimator(self.measure.estimator)

    @cached_property
    def suite(self) -> Suite:
        return Suite(self.measure.networks, self.measure.weights, self.device).open(leave_out=True)

    def cases(self, kind: Kind) -> list[VideoCase]:
        if kind not in self._cases:
            data, measure = self.recipe.data, self.measure
            count = measure.videos if kind == "video" else measure.loops
            spec = ClipSpec(data.num_frames, data.stride, None, data.width, data.height, data.near_depth)
            self._cases[kind] = read_videos(
                kind, self.sources, count, measure.part, data.held_out_fraction, spec, self.encoder,
                data.max_sequence_length, self.folder, self.store.between,
            )  # fmt: skip
            self.encoder.pipe.text_encoder.to("cpu")  # the captions are encoded now; a large model needs the memory
        return self._cases[kind]

    def prepare(self, data: DataConfig) -> None:
        """Make the files of all clips, so that no run has to wait for them. data: what a row is trained on."""
        _ = self.feed
        if data != self.recipe.data:
            self._open(data)
        for kind in ("video", "revisit"):
            if kind in self.measure.groups:
                self.cases(kind)
                if kind == "revisit" or self.measure.poses:
                    _ = self.estimator  # a wrong name is refused before anything is trained

    def sweep_loss(self, model: Any) -> float:
        """The mean loss over the held-out clips on which learning rates are chosen."""
        _, indices = split_held_out(self.feed, self.measure.loss_clips)
        losses = held_out_losses(
            model, self.feed, self.recipe, indices, self.device, self.measure.batch_size, with_another=False
        )
        return float(np.mean(losses["loss"]))

    def __call__(self, model: Any) -> tuple[dict[str, list[str]], Values]:
        """The names of the clips by group, and what was measured on them."""
        clips: dict[str, list[str]] = {}
        values: Values = {}
        for group in self.measure.groups:
            self.store.between()
            if group == "loss":
                indices, _ = split_held_out(self.feed, self.measure.loss_clips)
                clips[group] = ["-".join(self.feed.held_out.names[index]) for index in indices]
                losses = held_out_losses(
                    model, self.feed, self.recipe, indices, self.device, self.measure.batch_size, with_another=True
                )
                values |= {name: [finite(value) for value in of_clips] for name, of_clips in losses.items()}
            else:
                cases, videos = self.cases(group), self._generate(model, group)
                clips[group] = [case.name for case in cases]
                if group == "video":
                    clips[POSES] = [case.name for case in cases if case.name in self._posed]
                score, which = (self._video_scores, "generated") if group == "video" else (self._loop_scores, "loop")
                posed = [i for i, case in enumerate(cases) if group != "video" or case.name in self._posed]
                found = self._estimate([cases[i] for i in posed], [videos[i] for i in posed], which)
                estimated = dict(zip(posed, found, strict=True))
                scores = [score(cases[i], videos[i], estimated.get(i)) for i in range(len(cases))]
                names = [name for name in METRICS if METRICS[name].group == group and self._is_measured(name)]
                values |= {name: [finite(of_clip.get(name)) for of_clip in scores] for name in names}
        return clips, values

    def _is_measured(self, name: str) -> bool:
        """Whether a metric of videos can be measured at all; where it can, single clips may still fail."""
        if name in _RAW:
            return self._is_metric
        return name not in _NETWORKS or _NETWORKS[name] in self.suite.names

    @property
    def _is_metric(self) -> bool:
        """Whether all trajectories are in metres. Where every clip has its own scale, a raw error would only measure that scale,
        which no first frame shows."""
        return self.measure.against == "video" or all(case.trajectory.unit == METRE for case in self.cases("video"))

    @cached_property
    def _posed(self) -> set[str]:
        """The clips whose cameras are estimated."""
        names = [case.name for case in self.cases("video")]
        return (
            {names[index] for index in evenly_spaced(self.measure.poses, len(names))} if self.measure.poses else set()
        )

    def _generate(self, model: Any, kind: Kind) -> list[np.ndarray]:
        videos = generate_videos(
            model, self.encoder, self.cases(kind), self.feed.empty_text,
            num_inference_steps=self.measure.num_inference_steps, guidance_scale=self.measure.guidance_scale,
            batch_size=self.measure.batch_size, autocast=autocast(self.recipe, self.device),
        )  # fmt: skip
        kept = []
        for video in videos:
            self.store.between()
            kept.append(video)
        return kept

    def _estimate(self, cases: list[VideoCase], videos: list[np.ndarray], which: str) -> list[Trajectory | None]:
        hints = [
            Hints(case.trajectory, case.depth, case.frames[0], f"{case.name.replace('/', '-')}-{which}")
            for case in cases
        ]
        at_once = _ESTIMATED_AT_ONCE if self.device.type == "cuda" else 1
        found: list[Trajectory | None] = []
        for start in range(0, len(videos), at_once):
            self.store.between()
            some = slice(start, start + at_once)
            found += [one.trajectory for one in estimate_all(self.estimator, videos[some], hints[some])]
        return found

    def _reference(self, case: VideoCase) -> Trajectory | None:
        """What pose errors are measured to; None where nothing was found in the true video."""
        if self.measure.against == "trajectory":
            return case.trajectory
        if case.name not in self._true:
            posed = [case for case in self.cases("video") if case.name in self._posed]
            found = self._estimate(posed, [case.frames for case in posed], "true")
            self._true |= {case.name: trajectory for case, trajectory in zip(posed, found, strict=True)}
        return self._true[case.name]

    def _video_scores(self, case: VideoCase, video: np.ndarray, estimated: Trajectory | None) -> dict[str, float]:
        scores: dict[str, float] = {}
        moved = psnr(np.repeat(case.frames[:1], len(case.frames), axis=0), case.frames) < MOVED_BELOW
        if moved.any():
            scores["psnr_moved"] = float(psnr(video, case.frames)[moved].mean())
        reference = None if estimated is None else self._reference(case)
        if estimated is None or reference is None:
            return scores
        rescaled = pose_errors(estimated, reference, "rescaled")
        scores |= {f"{name}_rescaled": float(getattr(rescaled, name)) for name in POSE_ERRORS if name != "rot_err"}
        scores["rot_err"] = float(rescaled.rot_err)
        if self._is_metric and same_unit(estimated.unit, reference.unit):
            raw = pose_errors(estimated, reference, "raw")
            scores |= {name: float(getattr(raw, name)) for name in POSE_ERRORS}
        return scores

    def _loop_scores(self, case: VideoCase, video: np.ndarray, estimated: Trajectory | None) -> dict[str, float]:
        first = case.frames[0]
        scores = appearance_scores(video, first, self.suite)
        returned, away = (
            float(ssim(frames, np.broadcast_to(first, frames.shape)).mean())
            for frames in (video[window_slice(len(video), window)] for window in (RETURN, AWAY))
        )
        scores["return_ssim"] = returned
        if away < 1 - 1e-6:
            scores["ssim_recovery"] = 1 - (1 - returned) / (1 - away)
        return scores | ((estimated is not None and return_scores(estimated, case.trajectory)) or {})


@torch.no_grad()
def reciprocal_shares(model: Any) -> dict[str, float]:
    """The share of the reciprocal product in M = E_q^T E_k of every layer, and the mean; nothing for other encodings.

    The share of a head is |c I|^2 / |M_6|^2, with c I the nearest multiple of the reciprocal form: 1 at the start, and about
    1/36 for a random form.
    """
    encoding = getattr(model, "encoding", None)
    if not isinstance(encoding, Scope) or encoding.projection != "linear":
        return {}
    shares = (1 - ray_form(model).distance.square()).mean(dim=1).tolist()  # [L]
    return {"reciprocal_share": float(np.mean(shares)), **{f"reciprocal_share/{i}": s for i, s in enumerate(shares)}}


def new_parameters(model: Any) -> int:
    """Parameters that the encoding adds."""
    return sum(p.numel() for layer in getattr(model, "encoding_layers", []) for p in layer.parameters())
