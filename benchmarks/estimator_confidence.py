"""How sure direct alignment is, of videos that have cameras and of videos that have none:
`python benchmarks/estimator_confidence.py [--clips 8] [--num-frames 17] [-o FILE]`.

The lab's held-out clips at 128 x 128 pixels, and what can become of them: softened by a Gaussian of 1 pixel with noise of 3/255
and a drift of colour; through the lab's autoencoder; noise of several kinds, with and without the true first frame; and the
video of another scene, whole or from the second frame on, with the depth of this one. Prints, for each kind, how many were
measured, how many failed, and the quantiles of the confidence; every error of what was measured too.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from diffusers import AutoencoderKLWan
from torch import Tensor
from torch.nn import functional

from sightline.backbones import shipped
from sightline.backbones.packed_weights import load_component
from sightline.data.clip import Clip
from sightline.evaluation.estimator_floor import estimator_floor, summarize
from sightline.evaluation.estimators import Estimate, Hints, get_estimator
from sightline.evaluation.held_out import held_out_clips


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clips", type=int, default=8, help="a multiple of 4, for the four styles")
    parser.add_argument(
        "--num-frames", type=int, default=17, help="of the 33 of each clip; 4 n + 1, for the autoencoder"
    )
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("-o", "--output", type=Path, help="file for the json")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clips = [shorten(clip, options.num_frames) for clip in held_out_clips(options.clips, depth=True)]
    report: dict[str, dict[str, Any]] = {}
    for kind, make in kinds(clips).items():
        rows = [estimator_floor(WithFirstFrame(clip.frames[0]), [make(number)])[0] for number, clip in enumerate(clips)]
        confidences = [row.estimate.confidence for row in rows]
        report[kind] = {**asdict(summarize(rows)), "confidence": [round(value, 3) for value in confidences]}
        print(
            f"{kind}: measured {report[kind]['scored']}, failed {report[kind]['failed']}; "
            f"confidence least {min(confidences):.2f}, median {np.median(confidences):.2f}, most {max(confidences):.2f}; "
            f"{report[kind]['trans_fraction'] or ''}",
            flush=True,
        )
    if options.output is not None:
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(report, indent=2))


@dataclass(frozen=True, eq=False)
class WithFirstFrame:
    """Direct alignment that knows which image the depth belongs to, as it does when videos are scored."""

    first: np.ndarray
    name: str = "direct"

    def estimate(self, video: np.ndarray, hints: Hints) -> Estimate:
        return get_estimator(self.name).estimate(video, replace(hints, first=self.first))


def kinds(clips: list[Clip]) -> dict[str, Callable[[int], Clip]]:
    """Videos by kind, each made from the clip of that number."""

    def changed(change: Callable[[Clip], np.ndarray], first: bool = False) -> Callable[[int], Clip]:
        def make(number: int) -> Clip:
            frames = change(clips[number])
            if first:
                frames[0] = clips[number].frames[0]
            return replace(clips[number], frames=frames)

        return make

    def others(first: bool) -> Callable[[int], Clip]:
        # The next clip of the same style, so that nothing but the scene tells them apart.
        each = len(clips) // 4
        following = {clip.name: clips[i // each * each + (i + 1) % each] for i, clip in enumerate(clips)}
        return changed(lambda clip: following[clip.name].frames.copy(), first)

    videos = {"true": changed(lambda clip: clip.frames), "soft": changed(soft), "autoencoded": changed(autoencoded)}
    for blur in (0.0, 2.0, 4.0):
        videos[f"noise of {blur:g} pixels"] = changed(lambda clip, blur=blur: noise(clip, blur))
        videos[f"noise of {blur:g} pixels after the true first frame"] = changed(
            lambda clip, b=blur: noise(clip, b), True
        )
    videos["noise that morphs"] = changed(lambda clip: noise(clip, 3.0, kept=0.9))
    return {**videos, "another scene": others(False), "another scene after the first frame": others(True)}


def shorten(clip: Clip, num_frames: int) -> Clip:
    poses, intrinsics = clip.trajectory.camera_to_world[:num_frames], clip.trajectory.intrinsics[:num_frames]
    trajectory = clip.trajectory.replace(camera_to_world=poses, intrinsics=intrinsics)
    return replace(clip, frames=clip.frames[:num_frames], trajectory=trajectory)


def soft(clip: Clip) -> np.ndarray:  # [T, H, W, 3] uint8
    seen = blurred(torch.from_numpy(clip.frames.copy()).float(), 1.0)
    seen += 3 * torch.randn(seen.shape, generator=torch.Generator().manual_seed(0))
    time = torch.linspace(0, 1, len(seen))[:, None, None, None]
    return as_bytes(seen * (1 + time * torch.tensor([0.06, 0.0, -0.06])) + time * torch.tensor([4.0, -2.0, 0.0]))


def autoencoded(clip: Clip) -> np.ndarray:  # [T, H, W, 3] uint8
    vae = load_component(AutoencoderKLWan, shipped.part("vae"), torch.float32).eval()
    seen = torch.from_numpy(clip.frames.copy()).permute(3, 0, 1, 2)[None].float() / 127.5 - 1
    with torch.no_grad():
        seen = vae.decode(vae.encode(seen).latent_dist.mode()).sample[0]
    return as_bytes((seen.permute(1, 2, 3, 0) + 1) * 127.5)


def noise(clip: Clip, blur: float, kept: float = 0.0) -> np.ndarray:  # [T, H, W, 3] uint8
    """Noise blurred by so many pixels; kept: the share of a frame that is left in the next."""
    seed = sum(clip.name.encode())
    seen = blurred(torch.randn(clip.frames.shape, generator=torch.Generator().manual_seed(seed)), blur)
    seen /= seen.std()
    for frame in range(1, len(seen)):
        seen[frame] = kept * seen[frame - 1] + (1 - kept**2) ** 0.5 * seen[frame]
    return as_bytes(128 + 50 * seen)


def blurred(frames: Tensor, pixels: float) -> Tensor:  # [T, H, W, 3]
    if pixels == 0:
        return frames
    reach = int(3 * pixels)
    kernel = torch.exp(-(torch.arange(-reach, reach + 1) / pixels).square() / 2)
    kernel = (kernel[:, None] * kernel / kernel.sum() ** 2).expand(3, 1, -1, -1)
    padded = functional.pad(frames.permute(0, 3, 1, 2), (reach,) * 4, mode="replicate")
    return functional.conv2d(padded, kernel, groups=3).permute(0, 2, 3, 1).clone()


def as_bytes(frames: Tensor) -> np.ndarray:
    return frames.round().clamp(0, 255).byte().numpy()


if __name__ == "__main__":
    main()
