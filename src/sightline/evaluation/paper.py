"""What the paper fixes about its evaluation, how a run differs from it, and what it leaves open (`--protocol paper`)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sightline.backbones.model_info import ModelInfo
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B, WanConfig
from sightline.evaluation.metrics.suite import METRICS
from sightline.evaluation.results import CaseSettings, PaperRecord, Sampling
from sightline.evaluation.scoring import Against

_FIVE_B, _BOTH = (TI2V_5B,), (TI2V_5B, I2V_A14B)
_CLIP_TEXT = (
    "CLIP: called inter-frame similarity, but its values of 25 to 26 fit the similarity of frames and caption, which is what "
    "is measured"
)
_FVD = "the window of FVD: measured on whole clips and on windows of 16 frames"


@dataclass(frozen=True)
class PaperProtocol:
    """One protocol as the paper states it. The values that it leaves open, and that a run needs, are in `left_open`.

    source_kinds: kinds of sources that the paper evaluates on; empty where it does not say.
    clips: first frames; the paper only states 100, for its validation.
    """

    source_kinds: tuple[str, ...]
    metrics: tuple[str, ...]
    models: tuple[WanConfig, ...]
    against: Against
    left_open: tuple[str, ...]
    estimator: str = "vipe"
    clips: int = 100
    num_frames: int = 81
    stride: int = 1
    width: int = 832
    height: int = 480
    num_inference_steps: int = 50
    guidance_scale: float = 5.0
    camera_guidance_scale: float = 1.0


PAPER: dict[str, PaperProtocol] = {
    "standard": PaperProtocol(
        ("re10k",), ("clip_text", "fvd", "fvd_c", "fvd_16", "fvd_c_16", "fid"), _BOTH, "video", (_CLIP_TEXT, _FVD)
    ),
    "beyond": PaperProtocol(
        ("panshot", "omniworld", "folder"), ("fvd", "fvd_c", "fvd_16", "fvd_c_16"), _FIVE_B, "video",
        (_FVD, "where the cameras of Open-Sora-Plan come from: any folder of videos with cameras serves (folder:DIR)"),
    ),
    "revisit": PaperProtocol(
        (), ("lpips", "dino"), _BOTH, "trajectory",
        ("the conditioning images, and how far the loops go: a quarter of the depth of frame 0 where it is known",),
    ),
}  # fmt: skip


def paper_record(
    protocol: str,
    model: ModelInfo,
    cases: CaseSettings,
    sampling: Sampling,
    estimator: str,
    against: Against,
    metrics: Sequence[str],
    asked_clips: int,
) -> PaperRecord:
    """The record of a run with these settings. metrics: those that are measured."""
    paper = PAPER[protocol]
    found = {
        "size": f"{cases.width}x{cases.height}",
        "num_frames": cases.num_frames,
        "num_inference_steps": sampling.num_inference_steps,
        "guidance_scale": sampling.guidance_scale,
        "camera_guidance_scale": sampling.camera_guidance_scale,
        "estimator": estimator.partition("?")[0],
    }
    wanted = {
        "size": f"{paper.width}x{paper.height}",
        **{name: getattr(paper, name) for name in found if name != "size"},
    }
    if protocol != "revisit":  # whose metrics have a reference of their own
        found["against"], wanted["against"] = against, paper.against
    deviations = [
        f"{name} is {found[name]}, the paper's {wanted[name]}" for name in wanted if found[name] != wanted[name]
    ]
    names = " or ".join(config.hub_id for config in paper.models)
    if not any(is_release(model, config) for config in paper.models):
        deviations.append(f"the model is another than the paper's {names}")
    deviations += _source_deviations(paper, cases)
    if sampling.blind:
        deviations.append("the model is not given the trajectory (blind)")
    if missing := [METRICS[name].title for name in paper.metrics if name not in metrics]:
        deviations.append(f"not measured: {'; '.join(missing)}")
    fixed = [f"{name}: {value}" for name, value in wanted.items()]
    fixed += [f"metrics: {' / '.join(METRICS[name].title for name in paper.metrics)}", f"model: {names}"]
    if paper.source_kinds:
        fixed.append(f"sources: held-out scenes of {', '.join(paper.source_kinds)}")
    return PaperRecord(fixed, deviations, [*_left_open(cases, sampling, asked_clips), *paper.left_open])


def _source_deviations(paper: PaperProtocol, cases: CaseSettings) -> list[str]:
    deviations = []
    kinds = [source["kind"] for source in cases.sources]
    others = [kind for kind in kinds if paper.source_kinds and kind not in paper.source_kinds]
    if others:
        deviations.append(f"clips are from {', '.join(others)}, the paper's from {', '.join(paper.source_kinds)}")
    if cases.part == "all" and any(source.get("split") == "train" for source in cases.sources):
        deviations.append("scenes of a training split are not held out")
    return deviations


def _left_open(cases: CaseSettings, sampling: Sampling, asked_clips: int) -> list[str]:
    """What the paper does not state, with the value that this run has."""
    images = cases.clips // (len(cases.loops.names) if cases.loops else 1)
    fewer = f" of the {asked_clips} asked for" if images < asked_clips else ""
    lines = [
        f"the number of first frames: {images}{fewer} (the paper states 100 for its validation only)",
        f"the frame stride: {cases.stride}",
        f"seeds: from {sampling.seed} on",
        f"the negative prompt: {sampling.negative_prompt or 'empty'}",
        f"near-depth normalisation of the trajectories: {'on' if cases.near_depth else 'off'}",
    ]
    if cases.with_caption < cases.clips:
        lines.append(
            f"the prompt of clips without a caption: {cases.default_caption!r} for {cases.clips - cases.with_caption} of "
            f"{cases.clips}"
        )
    return lines


def is_release(model: ModelInfo, config: WanConfig) -> bool:
    return (model.stride, model.defaults) == (config.stride, config.defaults)
