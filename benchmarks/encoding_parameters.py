"""New parameters of every encoding on the real configurations, counted on the meta device. Seconds on a CPU.

    python benchmarks/encoding_parameters.py

Beside the counts stand those of public code (PUBLIC, in millions, at 5B), where there is any, and the extra attention
calls of a layer, counted by running one on a tiny model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from diffusers import WanTransformer3DModel

import sightline as sl
from sightline.backbones import attention
from sightline.backbones.tiny import tiny_transformer
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B
from sightline.cameras.tokens import CameraTokens
from sightline.encodings import CameraCtrl, Encoding, FreqSplit, Gta, Prope, ReCamMaster, ReRope, Scope, Sweep, Ucpe

RELEASES = {"5B": TI2V_5B, "14B": I2V_A14B}

PUBLIC = {"prope": 283, "prope own": 1133, "ucpe": 142, "recammaster": 284, "cameractrl": 245, "rerope": 0}


def rows(pixels: int) -> dict[str, Encoding]:
    """Every encoding and every ablation that has parameters of its own, by the name of its row."""
    return {
        "scope": Scope(),
        "scope ngi=False": Scope(ngi=False),
        "scope norm=False": Scope(norm=False),
        "scope value=True": Scope(value=True),
        "scope terms=ad or abc": Scope(terms="abc"),
        "sweep": Sweep(),
        "sweep tied=False": Sweep(tied=False),
        "cameractrl": CameraCtrl(pixels=pixels),
        "cameractrl blocks": CameraCtrl("blocks", pixels),
        "recammaster": ReCamMaster(),
        "prope": Prope(),
        "prope own": Prope("own"),
        "gta": Gta(),
        "ucpe": Ucpe(),
        "rerope": ReRope(),
        "freqsplit projective": FreqSplit("projective"),
        "freqsplit camera_uv": FreqSplit("camera_uv"),
        "freqsplit plucker": FreqSplit("plucker"),
        "freqsplit four_dof": FreqSplit("four_dof"),
    }


def new_parameters(config: Mapping[str, Any], encoding: Encoding) -> int:
    """How many parameters the retrofit adds to a backbone of this configuration."""
    with torch.device("meta"):
        base = WanTransformer3DModel(**config)
    model = sl.CameraWanTransformer3DModel.from_transformer(base, encoding, copy=False)
    return sum(parameter.numel() for parameter in model.camera_parameters())


@torch.no_grad()
def extra_attention_calls(encoding: Encoding) -> int:
    """Attention calls of a layer beyond the pretrained one."""
    base = tiny_transformer("pixels")
    model = sl.CameraWanTransformer3DModel.from_transformer(base, encoding)
    calls, dispatch = [], attention.dispatch_attention_fn

    def counted(*args: Any, **options: Any) -> Any:
        calls.append(1)
        return dispatch(*args, **options)

    attention.dispatch_attention_fn = counted
    try:
        tokens = CameraTokens.from_trajectory(sl.moves.truck(1.0, frames=5, width=64, height=64), (2, 2, 2))
        text, time = torch.zeros(1, 3, base.config.text_dim), torch.full((1,), 500.0)
        model(
            torch.zeros(1, base.config.in_channels, 2, 4, 4),
            time,
            text,
            attention_kwargs={"camera": tokens},
            return_dict=False,
        )
    finally:
        attention.dispatch_attention_fn = dispatch
    return len(calls) // len(model.blocks) - 1  # the text's attention keeps its stock processor and is not counted


def main() -> None:
    print("| encoding | 5B | share | 14B, each expert | share | public, 5B | extra attention |")
    print("|---|---|---|---|---|---|---|")
    totals = {}
    for size, release in RELEASES.items():
        with torch.device("meta"):
            totals[size] = sum(
                parameter.numel() for parameter in WanTransformer3DModel(**release.transformer).parameters()
            )
    for name in rows(1):
        counts = {
            size: new_parameters(release.transformer, rows(release.stride.width)[name])
            for size, release in RELEASES.items()
        }
        cells = [f"{count:,} | {100 * count / totals[size]:.3f} %" for size, count in counts.items()]
        tiny = Ucpe(ratio=2) if name == "ucpe" else rows(1)[name]
        public = f"{PUBLIC[name]} M" if name in PUBLIC else ""
        print(f"| {name} | {' | '.join(cells)} | {public} | {extra_attention_calls(tiny)} |")


if __name__ == "__main__":
    main()
