"""Tiny random weights in the layout of released camera models, written from their names and shapes alone."""

from __future__ import annotations

import json
from pathlib import Path

import torch
from diffusers import WanTransformer3DModel
from safetensors.torch import save_file

DIM, HEADS, FFN, TEXT, FREQ, LAYERS, CLIP = 24, 2, 32, 32, 64, 2, 16
CHANNELS = {"5b": 48, "a14b": 16, "2.1": 16}  # of the latents
IN_CHANNELS = {"5b": 100, "a14b": 36, "2.1": 32}
UNSHUFFLE = {"5b": 16, "a14b": 8, "2.1": 8}


def wan_shapes(in_channels: int, out_channels: int, image: bool = False) -> dict[str, tuple[int, ...]]:
    """The parameters of Wan's own transformer."""
    shapes: dict[str, tuple[int, ...]] = {"patch_embedding.weight": (DIM, in_channels, 1, 2, 2)}
    shapes["patch_embedding.bias"] = (DIM,)

    def linear(name: str, outputs: int, inputs: int) -> None:
        shapes[f"{name}.weight"], shapes[f"{name}.bias"] = (outputs, inputs), (outputs,)

    linear("text_embedding.0", DIM, TEXT)
    linear("text_embedding.2", DIM, DIM)
    linear("time_embedding.0", DIM, FREQ)
    linear("time_embedding.2", DIM, DIM)
    linear("time_projection.1", 6 * DIM, DIM)
    linear("head.head", 4 * out_channels, DIM)
    shapes["head.modulation"] = (1, 2, DIM)
    for index in range(LAYERS):
        block = f"blocks.{index}"
        shapes[f"{block}.modulation"] = (1, 6, DIM)
        shapes[f"{block}.norm3.weight"] = shapes[f"{block}.norm3.bias"] = (DIM,)
        linear(f"{block}.ffn.0", FFN, DIM)
        linear(f"{block}.ffn.2", DIM, FFN)
        for attention in ("self_attn", "cross_attn"):
            for part in "qkvo":
                linear(f"{block}.{attention}.{part}", DIM, DIM)
            for norm in ("norm_q", "norm_k"):
                shapes[f"{block}.{attention}.{norm}.weight"] = (DIM,)
        if image:
            linear(f"{block}.cross_attn.k_img", DIM, DIM)
            linear(f"{block}.cross_attn.v_img", DIM, DIM)
            shapes[f"{block}.cross_attn.norm_k_img.weight"] = (DIM,)
    if image:
        for norm, width in (("0", CLIP), ("4", DIM)):
            shapes[f"img_emb.proj.{norm}.weight"] = shapes[f"img_emb.proj.{norm}.bias"] = (width,)
        linear("img_emb.proj.1", CLIP, CLIP)
        linear("img_emb.proj.3", DIM, CLIP)
    return shapes


def fun_state(kind: str, seed: int = 0) -> dict[str, torch.Tensor]:
    """A Fun-Control-Camera transformer: 5b, a14b (one expert), or 2.1."""
    shapes = wan_shapes(IN_CHANNELS[kind], CHANNELS[kind], image=kind == "2.1")
    shapes["control_adapter.conv.weight"] = (DIM, 24 * UNSHUFFLE[kind] ** 2, 2, 2)
    shapes["control_adapter.conv.bias"] = (DIM,)
    for number in (1, 2):
        shapes[f"control_adapter.residual_blocks.0.conv{number}.weight"] = (DIM, DIM, 3, 3)
        shapes[f"control_adapter.residual_blocks.0.conv{number}.bias"] = (DIM,)
    return random_state(shapes, seed)


def random_state(shapes: dict[str, tuple[int, ...]], seed: int) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return {name: 0.2 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def write(folder: Path, state: dict[str, torch.Tensor], **config: object) -> Path:
    """One transformer as VideoX-Fun saves it."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(state, folder / "diffusion_pytorch_model.safetensors")
    settings = {"_class_name": "Wan2_2Transformer3DModel", "dim": DIM, "num_heads": HEADS, "num_layers": LAYERS}
    (folder / "config.json").write_text(json.dumps(settings | config))
    return folder


def write_fun(folder: Path, kind: str) -> Path:
    """A whole release: A14B has two folders, the others one transformer beside a VAE and a text encoder in pickles."""
    if kind == "a14b":
        write(folder / "high_noise_model", fun_state(kind, seed=1))
        write(folder / "low_noise_model", fun_state(kind, seed=2))
    else:
        write(folder, fun_state(kind))
    (folder / "Wan2.2_VAE.pth").write_bytes(b"no safetensors")
    return folder


def shard(folder: Path) -> list[Path]:
    """Split the one file of a folder into two shards with an index, and return them."""
    from safetensors.torch import load_file

    whole = folder / "diffusion_pytorch_model.safetensors"
    state = load_file(whole)
    names, weight_map, shards = sorted(state), {}, []
    for number, part in enumerate((names[: len(names) // 2], names[len(names) // 2 :]), start=1):
        shards.append(folder / f"diffusion_pytorch_model-0000{number}-of-00002.safetensors")
        save_file({name: state[name] for name in part}, shards[-1])
        weight_map |= dict.fromkeys(part, shards[-1].name)
    whole.unlink()
    index = folder / "diffusion_pytorch_model.safetensors.index.json"
    index.write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))
    return shards


def dreamx_state(ratio: int = 1) -> dict[str, torch.Tensor]:
    """A DreamX-World-5B-Cam transformer, whose heads are wider than Fun's here: the branch needs blocks of four."""
    shapes, width = wan_shapes(48, 48), DIM // ratio
    for index in range(LAYERS):
        branch = f"blocks.{index}.cam_self_attn"
        for part in ("q_proj", "k_proj", "v_proj"):
            shapes[f"{branch}.{part}.weight"], shapes[f"{branch}.{part}.bias"] = (width, DIM), (width,)
        shapes[f"{branch}.out_proj.weight"], shapes[f"{branch}.out_proj.bias"] = (DIM, width), (DIM,)
        shapes[f"{branch}.norm_q.weight"] = shapes[f"{branch}.norm_k.weight"] = (width,)
    return random_state(shapes, 0)


HY_CONFIG = {
    "patch_size": [1, 2, 2], "num_attention_heads": HEADS, "attention_head_dim": DIM // HEADS, "in_channels": 48,
    "out_channels": 48, "text_dim": TEXT, "freq_dim": FREQ, "ffn_dim": FFN, "num_layers": LAYERS,
}  # fmt: skip


def hy_state() -> dict[str, torch.Tensor]:
    """An HY-WorldPlay-5B transformer, under diffusers' names."""
    shapes = {name: tuple(tensor.shape) for name, tensor in WanTransformer3DModel(**HY_CONFIG).state_dict().items()}
    action = "condition_embedder.action_embedder"
    shapes[f"{action}.linear_1.weight"], shapes[f"{action}.linear_1.bias"] = (DIM, FREQ), (DIM,)
    shapes[f"{action}.linear_2.weight"], shapes[f"{action}.linear_2.bias"] = (DIM, DIM), (DIM,)
    for index in range(LAYERS):
        branch = f"blocks.{index}.attn1.to_out_prope.0"
        shapes[f"{branch}.weight"], shapes[f"{branch}.bias"] = (DIM, DIM), (DIM,)
    return random_state(shapes, 0)


def write_hy(folder: Path, state: dict[str, torch.Tensor] | None = None) -> Path:
    """The configuration of wan_transformer, beside the converted weights."""
    folder.mkdir(parents=True, exist_ok=True)
    save_file(hy_state() if state is None else state, folder / "diffusion_pytorch_model.safetensors")
    (folder / "config.json").write_text(json.dumps({"_class_name": "WanTransformer3DModel", **HY_CONFIG}))
    return folder
