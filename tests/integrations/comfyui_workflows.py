"""Runs the example workflows in ComfyUI's own executor, at a small size, with tiny models in place of the files they name."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import comfy.model_patcher
import comfy.supported_models
import execution
import folder_paths
import nodes
import torch
from PIL import Image

WIDTH, HEIGHT, LENGTH, STEPS = 64, 32, 9, 2
TINY = {
    "dim": 24,
    "ffn_dim": 32,
    "freq_dim": 64,
    "text_dim": 32,
    "num_heads": 2,
    "num_layers": 2,
    "image_model": "wan2.1",
}


class TinyClip:
    def tokenize(self, text: str) -> str:
        return text

    def encode_from_tokens_scheduled(self, tokens: str) -> list[Any]:
        return [[torch.zeros(1, 7, TINY["text_dim"]), {}]]


class TinyVAE:
    def __init__(self, channels: int, stride: int) -> None:
        self.channels, self.stride = channels, stride
        self.decoded: list[torch.Tensor] = []

    def encode(self, pixels: torch.Tensor) -> torch.Tensor:  # [T, H, W, 3] -> [1, C, t, h, w]
        frames, height, width, _ = pixels.shape
        return torch.zeros(1, self.channels, (frames - 1) // 4 + 1, height // self.stride, width // self.stride)

    def decode(self, latents: torch.Tensor) -> torch.Tensor:  # [1, C, t, h, w] -> [1, T, H, W, 3]
        self.decoded.append(latents)
        frames, height, width = 4 * (latents.shape[2] - 1) + 1, *(size * self.stride for size in latents.shape[3:])
        return latents.sigmoid().mean().expand(1, frames, height, width, 3).clone()


class TinyClipVision:
    def encode_image(self, image: torch.Tensor, crop: bool) -> Any:
        return SimpleNamespace(penultimate_hidden_states=torch.zeros(1, 257, 1280))


def tiny_fun_camera() -> Any:
    config = comfy.supported_models.WAN21_Camera({**TINY, "model_type": "camera", "in_dim": 32, "out_dim": 16})
    config.set_inference_dtype(torch.float32, None)
    model = config.get_model({}, device="cpu").eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(0.05 * torch.randn(parameter.shape, generator=generator))
    return comfy.model_patcher.ModelPatcher(model, torch.device("cpu"), torch.device("cpu"))


def loader(given: str, kind: str, value: Any) -> type:
    """A node with the inputs and the output of a core loader, which returns `value`."""

    class Loader:
        RETURN_TYPES, FUNCTION, CATEGORY = (kind,), "load", "tests"

        @classmethod
        def INPUT_TYPES(cls) -> dict[str, Any]:
            return {
                "required": {given: ("STRING", {})},
                "optional": {"type": ("STRING", {}), "weight_dtype": ("STRING", {})},
            }

        def load(self, **names: str) -> tuple[Any]:
            return (value,)

    return Loader


async def run_workflow(file: Path, model: Any, vae: TinyVAE, changes: dict[str, Any]) -> dict[str, Any]:
    """Run an example. changes: inputs, set in every node that has them. Returns what the server would have been told."""
    nodes.NODE_CLASS_MAPPINGS |= {
        "UNETLoader": loader("unet_name", "MODEL", model),
        "CLIPLoader": loader("clip_name", "CLIP", TinyClip()),
        "VAELoader": loader("vae_name", "VAE", vae),
        "CLIPVisionLoader": loader("clip_name", "CLIP_VISION", TinyClipVision()),
    }
    prompt = json.loads(file.read_text())
    small = {"width": WIDTH, "height": HEIGHT, "length": LENGTH, "steps": STEPS, **changes}
    for node in prompt.values():
        for name, value in small.items():
            if name in node["inputs"] and not isinstance(node["inputs"][name], list):
                node["inputs"][name] = value
    valid, problem, outputs, node_errors = await execution.validate_prompt(file.stem, prompt, None)
    if not valid:
        return {"valid": False, "problem": problem, "nodes": node_errors}
    server = SimpleNamespace(client_id=None, last_node_id=None, send_sync=lambda *message: None, sockets_metadata={})
    executor = execution.PromptExecutor(server, cache_args={"ram": 0.0, "lru": 0})
    await executor.execute_async(prompt, file.stem, {}, outputs)
    messages = [data["exception_message"] for event, data in executor.status_messages if event == "execution_error"]
    output = Path(folder_paths.get_output_directory())
    videos = sorted(path.name for path in output.rglob("*.mp4"))
    return {"valid": True, "success": executor.success, "messages": messages, "videos": videos}


def prepare(folder: Path) -> None:
    """Folders of their own for inputs and outputs, and the picture that the workflows name."""
    for name in ("input", "output", "temp"):
        (folder / name).mkdir()
        getattr(folder_paths, f"set_{name}_directory")(str(folder / name))
    Image.new("RGB", (WIDTH, HEIGHT), (90, 120, 200)).save(folder / "input/first_frame.png")
