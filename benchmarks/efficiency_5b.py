"""The paper's efficiency table on one GPU with random weights of TI2V-5B: UCPE, PRoPE and SCoPE, 480 x 832 x 81, guidance 5.

    python benchmarks/efficiency_5b.py                             4 steps of each method, after a warm-up video of 4
    python benchmarks/efficiency_5b.py --num-inference-steps 50    as many as in the paper

A pipeline of random weights is written to a temporary folder (about 15 GB), and `sightline evaluate efficiency --protocol paper`
measures it: seconds per step and peak memory do not depend on the weights, and those of a step not on the number of steps. The
text encoder is one layer of its width, so the rest of its 11 GB comes on top of the memory. Written to `--output`: results.json
and table.md, which lists every deviation from the paper.
"""

from __future__ import annotations

import gc
import tempfile
from dataclasses import replace
from pathlib import Path

import torch
import tyro

from sightline import cli
from sightline.backbones.wan_configs import TI2V_5B
from sightline.bench.random_pipeline import random_pipeline
from sightline.evaluation.efficiency import PAPER_METHODS

_TINY_TRANSFORMER = {
    "num_attention_heads": 8, "attention_head_dim": 16, "num_layers": 1, "ffn_dim": 32, "text_dim": 32
}  # fmt: skip
_TINY = replace(
    TI2V_5B,
    transformer={**TI2V_5B.transformer, **_TINY_TRANSFORMER},
    vae={**TI2V_5B.vae, "base_dim": 4, "decoder_base_dim": 4},
)


def main(
    methods: tuple[str, ...] = PAPER_METHODS, num_inference_steps: int = 4, output: Path = Path("outputs/efficiency-5b"),
    folder: Path | None = None, tiny: bool = False,
) -> None:  # fmt: skip
    """folder: where the temporary folder is made, for example /dev/shm. tiny: rehearse on a CPU."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        model = str(Path(temporary) / "ti2v-5b-random")
        pipe = random_pipeline(_TINY, torch.device("cpu")) if tiny else random_pipeline(TI2V_5B, torch.device("cuda"))
        pipe.save_pretrained(model)
        del pipe
        gc.collect()
        video = ["--num-frames", "5", "--size", "64x64"] if tiny else []
        options = ["--num-inference-steps", str(num_inference_steps), "--output", str(output), *video]
        code = cli.main(
            ["evaluate", "efficiency", "--protocol", "paper", "--model", model, "--methods", *methods, *options]
        )
    if code:
        raise SystemExit(code)


if __name__ == "__main__":
    tyro.cli(main)
