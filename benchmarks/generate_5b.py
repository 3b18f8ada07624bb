"""Filming with the real TI2V-5B configuration: seconds per step, the whole film, and peak memory, on one GPU.

    python benchmarks/generate_5b.py                      480 x 832 x 81, 4 steps, guidance 5

Weights are random, so the film is noise: time and memory do not depend on them. The transformer and the VAE are the release's;
the text encoder is one layer of its width, since a prompt is encoded once and its 11 GB are not the question here.
"""

from __future__ import annotations

import itertools
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
import tyro
from diffusers import AutoencoderKLWan, UniPCMultistepScheduler, WanTransformer3DModel
from transformers import UMT5Config, UMT5EncoderModel

import sightline as sl
from sightline.backbones.stock import WanImageToVideoPipeline
from sightline.backbones.tiny import tiny_tokenizer
from sightline.backbones.wan_configs import TI2V_5B


def random_pipeline(
    transformer: Mapping[str, Any], vae: Mapping[str, Any], device: torch.device
) -> WanImageToVideoPipeline:
    torch.manual_seed(0)
    text = UMT5Config(vocab_size=128, d_model=transformer["text_dim"], d_kv=64, d_ff=1024, num_layers=1, num_heads=8)
    with torch.device(device):
        parts = {
            "transformer": WanTransformer3DModel(**transformer).to(torch.bfloat16),
            "vae": AutoencoderKLWan(**vae),
            "text_encoder": UMT5EncoderModel(text).to(torch.bfloat16),
        }
    scheduler = UniPCMultistepScheduler(
        prediction_type="flow_prediction", use_flow_sigmas=True, flow_shift=TI2V_5B.flow_shift
    )
    pipe = WanImageToVideoPipeline(tokenizer=tiny_tokenizer(), scheduler=scheduler, expand_timesteps=True, **parts)
    sl.attach_camera(pipe, sl.Scope())
    with torch.no_grad():
        for layer in pipe.transformer.encoding_layers:  # as if trained: a zero would hide a broken addition
            layer.alpha_q.fill_(0.3)
            layer.alpha_k.fill_(0.3)
    return pipe.to(device)


def main(
    steps: int = 4, frames: int = 81, width: int = 832, height: int = 480, guidance: float = 5.0, compile: bool = False,
    output: Path | None = None,
) -> None:  # fmt: skip
    device = torch.device("cuda")
    pipe = random_pipeline(TI2V_5B.transformer, TI2V_5B.vae, device)
    if compile:
        pipe.transformer.compile_repeated_blocks(fullgraph=True)
    path = sl.moves.orbit(degrees=30, target_depth=2.0, frames=frames, width=width, height=height)
    image = np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8)
    moments: list[float] = []

    def note(_pipe: Any, _step: int, _time: Any, values: dict[str, Any]) -> dict[str, Any]:
        torch.cuda.synchronize()
        moments.append(time.perf_counter())
        return values

    torch.cuda.reset_peak_memory_stats()
    began = time.perf_counter()
    video = sl.generate(
        pipe, image, "a room", path, num_inference_steps=steps, guidance_scale=guidance, callback_on_step_end=note
    )
    between = sorted(later - earlier for earlier, later in itertools.pairwise(moments))
    found = {
        "command": f"python benchmarks/generate_5b.py --steps {steps}" + (" --compile" if compile else ""),
        "gpu": torch.cuda.get_device_name(),
        "torch": torch.__version__,
        "video": list(video.shape),
        "seconds per step, two passes": between[len(between) // 2],
        "seconds in all": time.perf_counter() - began,
        "seconds after the last step, decoding": time.perf_counter() - moments[-1],
        "peak GiB": torch.cuda.max_memory_allocated() / 2**30,
    }
    print(json.dumps(found, indent=2))
    if output is not None:
        output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    tyro.cli(main)
