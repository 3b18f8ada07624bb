"""The networks behind the metrics. Weights come from a path, an installed package, or a download whose SHA-256 is known here;
weights that cannot be loaded are reported in one sentence."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from sightline.backbones.stock import SAFETENSORS
from sightline.digests import file_digest
from sightline.documents import require_regular_file
from sightline.errors import SightlineError
from sightline.evaluation.metrics.lpips import Lpips
from sightline.evaluation.metrics.similarity import resize, resize_and_crop
from sightline.files import reason
from sightline.images import frames_to_tensor
from sightline.parsing import parse_assignment

# The torchscript files of StyleGAN2-ADA and of StyleGAN-V. (StyleGAN3's file is a pickle, and loading it would run code.)
INCEPTION_URL = "https://nvlabs-fi-cdn.nvidia.com/stylegan2-ada-pytorch/pretrained/metrics/inception-2015-12-05.pt"
INCEPTION_SHA256 = "f58cb9b6ec323ed63459aa4fb441fe750cfe39fafad6da5cb504a16f19e958f4"


@dataclass(frozen=True)
class HubFile:
    """The file of weights in a repository of the hub, at one revision."""

    repository: str
    revision: str
    file: str
    sha256: str


I3D = HubFile(
    "flateon/FVD-I3D-torchscript", "1c2d61711c52571ad617a1063e6fa691b212e184", "i3d_torchscript.pt",
    "bec6519f66ea534e953026b4ae2c65553c17bf105611c746d904657e5860a5e2",
)  # fmt: skip
CLIP = HubFile(
    "openai/clip-vit-large-patch14", "32bd64288804d66eefd0ccbe215aa642df71cc41", "model.safetensors",
    "a2bf730a0c7debf160f7a6b50b3aaf3703e7e88ac73de7a314903141db026dcb",
)  # fmt: skip
DINO = HubFile(
    "facebook/dinov2-base", "f9e44c814b77203eaa57a6bdbbd535f21ede1415", "model.safetensors",
    "d73036b56966966d07975d696bde331762f37297e2f095de8cea0040c3aa0841",
)  # fmt: skip
_CLIP_MEAN, _CLIP_STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)
_IMAGENET_MEAN, _IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FRAMES_AT_ONCE = 16


class _PerFrame:
    """Runs a network on a few frames at a time, without gradients."""

    device: torch.device

    @torch.no_grad()
    def frames(self, video: np.ndarray) -> Tensor:  # [T, H, W, 3] uint8 -> [T, D]
        chunks = (video[start : start + _FRAMES_AT_ONCE] for start in range(0, len(video), _FRAMES_AT_ONCE))
        return torch.cat([self.features(frames_to_tensor(chunk).to(self.device)).float().cpu() for chunk in chunks])

    def features(self, images: Tensor) -> Tensor:  # [T, 3, H, W] in 0..255 -> [T, D]
        raise NotImplementedError


class InceptionFeatures(_PerFrame):
    """The Inception of FID, 2048 features, as a torchscript file that resizes the frames itself."""

    def __init__(self, weights: str | None, device: torch.device) -> None:
        self.network, self.device = _load_torchscript("inception", weights or _download_inception(), device), device

    def features(self, images: Tensor) -> Tensor:
        return self.network(images.to(torch.uint8), return_features=True)


class ClipFeatures(_PerFrame):
    """CLIP through transformers: the short side is resized to the network's image size, then the centre is cropped."""

    def __init__(self, weights: str | None, device: torch.device) -> None:
        from transformers import AutoTokenizer, CLIPModel

        self.network = _load_pretrained("clip", CLIPModel, weights, CLIP, **SAFETENSORS).to(device)
        self.tokenizer = _load_pretrained("clip", AutoTokenizer, weights, CLIP)
        self.device, self.side = device, self.network.config.vision_config.image_size

    def features(self, images: Tensor) -> Tensor:
        images = _normalize(resize_and_crop(images, self.side), _CLIP_MEAN, _CLIP_STD)
        return self.network.visual_projection(self.network.vision_model(pixel_values=images).pooler_output)

    @torch.no_grad()
    def text(self, text: str) -> Tensor:  # -> [D]
        limit = self.network.config.text_config.max_position_embeddings
        tokens = self.tokenizer([text], truncation=True, max_length=limit, return_tensors="pt").to(self.device)
        output = self.network.text_model(input_ids=tokens["input_ids"], attention_mask=tokens["attention_mask"])
        return self.network.text_projection(output.pooler_output)[0].float().cpu()


class DinoFeatures(_PerFrame):
    """DINOv2's class token after the last norm; the short side is resized to 256, then the central 224 pixels are cropped."""

    def __init__(self, weights: str | None, device: torch.device) -> None:
        from transformers import Dinov2Model

        self.network = _load_pretrained("dino", Dinov2Model, weights, DINO, **SAFETENSORS).to(device)
        self.device = device

    def features(self, images: Tensor) -> Tensor:
        images = _normalize(resize_and_crop(images, 256, 224), _IMAGENET_MEAN, _IMAGENET_STD)
        return self.network(pixel_values=images).pooler_output


class I3dFeatures:
    """The I3D of FVD, 400 logits per clip, as StyleGAN-V's torchscript file."""

    def __init__(self, weights: str | None, device: torch.device) -> None:
        self.network, self.device = _load_torchscript("i3d", weights or _download("i3d", I3D), device), device

    @torch.no_grad()
    def clip(self, video: np.ndarray, cropped: bool) -> Tensor:  # [T, H, W, 3] uint8 -> [1, D]
        """cropped: resize the short side to 224 and crop the centre (FVD_c); otherwise resize the whole frame (FVD)."""
        images = frames_to_tensor(video).to(self.device)
        images = resize_and_crop(images, 224, mode="bilinear") if cropped else resize(images, 224)
        images = (images / 127.5 - 1).clamp(-1, 1).permute(1, 0, 2, 3)[None]  # [1, 3, T, 224, 224]
        return self.network(images, rescale=False, resize=False, return_features=True).float().cpu()


NETWORKS: dict[str, Callable[[str | None, torch.device], Any]] = {
    "lpips": Lpips,
    "inception": InceptionFeatures,
    "i3d": I3dFeatures,
    "clip": ClipFeatures,
    "dino": DinoFeatures,
}


def open_network(name: str, weights: Mapping[str, str], device: torch.device | str = "cpu") -> Any:
    """The network of this name. weights: paths (or hub ids, for clip and dino) by network; without an entry, the weights come
    from the network's package or the hub."""
    return NETWORKS[name](weights.get(name), torch.device(device))


def read_weights(assignments: Iterable[str]) -> dict[str, str]:
    """Paths by network, from texts NAME=PATH as the command line gives them."""
    paths = {}
    for text in assignments:
        name, path = parse_assignment("weights", text, f"NAME=PATH with NAME one of {', '.join(NETWORKS)}")
        if name not in NETWORKS or not path:
            raise SightlineError(f"weights is {text!r}: expected NAME=PATH with NAME one of {', '.join(NETWORKS)}.")
        paths[name] = path
    return paths


def _normalize(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:  # of 0..255
    mean_rgb, std_rgb = (images.new_tensor(values)[:, None, None] for values in (mean, std))
    return (images.clamp(0, 255) / 255 - mean_rgb) / std_rgb


def _load_pretrained(name: str, kind: Any, weights: str | None, download: HubFile, **options: Any) -> Any:
    """weights: a folder or a hub id of the caller's choice; without it the download, once its digest is right."""
    if weights is None:
        _download(name, download)
        options["revision"] = download.revision
    place = weights or download.repository
    try:
        loaded = kind.from_pretrained(place, **options)
    except Exception as error:  # no such folder, no network, or any damage to configurations and weights
        raise _missing(name, place, error) from None
    return loaded.eval() if hasattr(loaded, "eval") else loaded


def _load_torchscript(name: str, file: str | Path, device: torch.device) -> Any:
    require_regular_file(file, f"the weights of {name}")
    try:
        return torch.jit.load(str(file), map_location=device).eval()
    except Exception as error:  # what torch raises for damaged archives
        raise _missing(name, file, error) from None


def _download_inception() -> Path:
    """The downloaded file, in the folder where torch keeps its own downloads."""
    file = Path(torch.hub.get_dir()) / "checkpoints" / INCEPTION_URL.rsplit("/", 1)[1]
    if not file.is_file():
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            torch.hub.download_url_to_file(INCEPTION_URL, str(file), progress=False)
        except (OSError, ValueError, RuntimeError) as error:
            raise _missing("inception", INCEPTION_URL, error) from None
    return _require_digest("inception", file, INCEPTION_SHA256)


def _download(name: str, source: HubFile) -> Path:
    """The file of weights, in the cache of the hub."""
    from huggingface_hub import hf_hub_download

    try:
        file = Path(hf_hub_download(source.repository, source.file, revision=source.revision))
    except (OSError, ValueError, RuntimeError) as error:
        raise _missing(name, f"{source.repository}/{source.file}", error) from None
    return _require_digest(name, file, source.sha256)


def _require_digest(name: str, file: Path, sha256: str) -> Path:
    found = file_digest(file)
    if found != sha256:
        raise SightlineError(
            f"{file} has the SHA-256 {found}: expected {sha256}, that of the weights of {name}; delete it to download it again."
        )
    return file


def _missing(name: str, place: str | Path, error: BaseException) -> SightlineError:
    return SightlineError(
        f"the weights of {name} cannot be had from {place} ({reason(error)}): expected --weights {name}=PATH, or the network."
    )


def consecutive_cosine(features: Tensor) -> np.ndarray:  # [T, D] -> [T - 1]
    """Cosine similarity of each frame with the next."""
    return functional.cosine_similarity(features[1:].double(), features[:-1].double(), dim=-1).numpy()
