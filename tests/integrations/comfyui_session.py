"""Run by test_comfyui.py with ComfyUI's folder as the working folder: python comfyui_session.py FOLDER writes FOLDER/report.json.

Tiny Wan models with random weights on the CPU: ComfyUI's and diffusers' are given the same weights.
"""

from __future__ import annotations

import asyncio
import importlib.util
import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

ROOT, COMFYUI, FOLDER = Path(__file__).parents[2], Path.cwd(), Path(sys.argv[1])
# This file's folder must not be searched: ComfyUI's packages have no __init__, and `tests` would hide its own.
sys.path[0] = str(COMFYUI)
sys.path.append(str(ROOT / "src"))
sys.argv = ["main.py", "--cpu"]
try:
    import torchvision  # noqa: F401
except RuntimeError:  # a wheel made for another build of torch; no operator of it is used here
    library = torch.library.Library("torchvision", "DEF")
    for operator in ("nms", "qnms"):
        library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    for module in [name for name in sys.modules if name.startswith("torchvision")]:
        del sys.modules[module]

import comfy.options  # noqa: E402

comfy.options.enable_args_parsing()
import comfy.model_patcher  # noqa: E402
import comfy.supported_models  # noqa: E402
import comfyui_version  # noqa: E402
import folder_paths  # noqa: E402
import nodes  # noqa: E402

import sightline as sl  # noqa: E402
from sightline.backbones.tiny import tiny_transformer  # noqa: E402
from sightline.encodings.recammaster import ReCamMaster  # noqa: E402
from sightline.encodings.sweep import Sweep  # noqa: E402


def module_of_pack(name: str) -> Any:
    return next(module for path, module in sys.modules.items() if path.endswith(f"integrations/comfyui.{name}"))


def comfy_model(base: Any) -> Any:
    """ComfyUI's Wan with the weights of a diffusers model."""
    config = base.config
    settings = {
        "image_model": "wan2.1",
        "model_type": "t2v",
        "dim": config.num_attention_heads * config.attention_head_dim,
        "ffn_dim": config.ffn_dim,
        "freq_dim": config.freq_dim,
        "text_dim": config.text_dim,
        "in_dim": config.in_channels,
        "out_dim": config.out_channels,
        "num_heads": config.num_attention_heads,
        "num_layers": config.num_layers,
    }
    is_5b = config.out_channels == 48
    model_config = (comfy.supported_models.WAN22_T2V if is_5b else comfy.supported_models.WAN21_T2V)(settings)
    model_config.set_inference_dtype(torch.float32, None)
    model = model_config.get_model({}, device="cpu")
    comfy_name = module_of_pack("weight_names").comfy_name
    weights = {comfy_name(name): tensor for name, tensor in base.state_dict().items()}
    model.diffusion_model.load_state_dict(weights)
    return comfy.model_patcher.ModelPatcher(model.eval(), torch.device("cpu"), torch.device("cpu"))


@torch.no_grad()
def run(patcher: Any, inputs: dict[str, torch.Tensor], beside: Any = None, **options: Any) -> torch.Tensor:
    """beside: latents of reference frames, which get tokens of their own."""
    patcher.patch_model()
    try:
        given = {"wrappers": patcher.wrappers, "sigmas": inputs["timestep"] / 1000, **options}
        latents, text = inputs["hidden_states"], inputs["encoder_hidden_states"]
        return patcher.model.diffusion_model(
            latents, inputs["timestep"], text, time_dim_concat=beside, transformer_options=given
        )
    finally:
        patcher.unpatch_model()


def error(a: torch.Tensor, b: torch.Tensor) -> float:
    return float((a - b).abs().max())


def trained(base: Any, encoding: Any, file: Path) -> Any:
    """A camera model as after training, saved as camera weights."""
    torch.manual_seed(1)  # of the initial weights
    model = sl.CameraWanTransformer3DModel.from_transformer(base, encoding).eval()
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "camera_encoding" in name:
                parameter += 0.1 * torch.randn(parameter.shape, generator=generator)
                if ".alpha_" in name:
                    parameter.fill_(0.7)
    sl.save_camera(model, file)
    return model


def sentence(work: Any) -> str:
    try:
        work()
    except sl.SightlineError as problem:
        return str(problem)
    return "nothing was refused"


def compare(pack: Any) -> dict[str, Any]:
    base = tiny_transformer("t2v-a14b")
    generator = torch.Generator().manual_seed(0)
    inputs = {
        "hidden_states": torch.randn(2, base.config.in_channels, 3, 8, 12, generator=generator),
        "timestep": torch.full((2,), 620.0),
        "encoder_hidden_states": torch.randn(2, 7, base.config.text_dim, generator=generator),
    }
    path = sl.moves.orbit(degrees=25, frames=9, width=96, height=64)
    tokens = sl.CameraTokens.from_trajectory(path, (3, 4, 6))
    patcher, report = comfy_model(base), {}
    with torch.no_grad():
        stock = run(patcher, inputs)
        report["stock"] = error(stock, base(**inputs).sample)
        for name, encoding in {"scope": sl.Scope(), "sweep": Sweep()}.items():
            file = FOLDER / f"{name}.safetensors"
            camera = trained(base, encoding, file)(**inputs, attention_kwargs={"camera": tokens}).sample
            patched = pack.apply_camera(patcher, file, path)
            ours = run(patched, inputs)
            report[name] = {"camera": error(ours, camera), "effect": error(ours, stock)}
    file = FOLDER / "scope.safetensors"
    report["unpatched"] = error(run(patcher, inputs), stock)
    report["strength 0"] = error(run(pack.apply_camera(patcher, file, path, strength=0.0), inputs), stock)
    half = run(pack.apply_camera(patcher, file, path, strength=0.5), inputs)
    whole = run(pack.apply_camera(patcher, file, path), inputs)
    report["strength 0.5"] = [error(half, stock), error(half, whole)]
    outside = pack.apply_camera(patcher, file, path, start_percent=0.9)
    report["outside the steps"] = error(run(outside, inputs), stock)
    inside = pack.apply_camera(patcher, file, path, end_percent=0.99)
    report["inside the steps"] = error(run(inside, inputs), whole)
    report["other override"] = other_override(pack.apply_camera(patcher, file, path), inputs, whole)
    report["lora"] = with_lora(pack, base, patcher, inputs, path, tokens)
    report["errors"] = errors(pack, patcher, inputs, file, path)
    return report


def other_override(patched: Any, inputs: Any, expected: torch.Tensor) -> dict[str, Any]:
    """An override of another node is called in self- and cross-attention, finds itself in the options, and has its effect."""
    calls = []

    def counted(attention: Any, *args: Any, **options: Any) -> torch.Tensor:
        calls.append(options["transformer_options"]["optimized_attention_override"] is counted)
        return attention(*args, **options)

    def silent(attention: Any, *args: Any, **options: Any) -> torch.Tensor:
        return 0 * attention(*args, **options)

    same = run(patched, inputs, optimized_attention_override=counted)
    changed = run(patched, inputs, optimized_attention_override=silent)
    return {"error": error(same, expected), "calls": len(calls), "own": sum(calls), "effect": error(changed, expected)}


def with_lora(pack: Any, base: Any, patcher: Any, inputs: Any, path: Any, tokens: Any) -> dict[str, float]:
    """Camera weights with LoRA weights, which diffusers merges and ComfyUI patches."""
    from peft import LoraConfig

    file, generator = FOLDER / "lora.safetensors", torch.Generator().manual_seed(5)
    model = trained(base, sl.Scope(), file)
    model.add_adapter(
        LoraConfig(r=2, lora_alpha=2, target_modules=r"blocks\.\d+\.(attn1\.to_(q|out\.0)|ffn\.net\.(0\.proj|2))")
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=generator))
        sl.save_camera(model, file)
        merged = sl.load_camera(base, file)(**inputs, attention_kwargs={"camera": tokens}).sample
    ours, alone = (run(pack.apply_camera(patcher, FOLDER / name, path), inputs) for name in (file, "scope.safetensors"))
    return {
        "error": error(ours, merged),
        "effect": error(ours, alone),
        "after": error(run(patcher, inputs), base(**inputs).sample),
    }


def errors(pack: Any, patcher: Any, inputs: Any, file: Path, path: Any) -> dict[str, str]:
    applied = pack.apply_camera(patcher, file, path)
    other, no_wan = (
        comfy_model(tiny_transformer("ti2v-5b")),
        SimpleNamespace(model=SimpleNamespace(diffusion_model=None)),
    )
    recammaster = FOLDER / "recammaster.safetensors"
    trained(tiny_transformer("t2v-a14b"), ReCamMaster(), recammaster)
    return {
        "twice": sentence(lambda: pack.apply_camera(applied, file, path)),
        "frames": sentence(lambda: run(pack.apply_camera(patcher, file, path.resampled(13)), inputs)),
        "aspect": sentence(lambda: run(pack.apply_camera(patcher, file, path.fit_to(64, 64)), inputs)),
        "percent": sentence(lambda: pack.apply_camera(patcher, file, path, start_percent=0.5, end_percent=0.2)),
        "backbone": sentence(lambda: pack.apply_camera(other, file, path)),
        "reference": sentence(lambda: run(applied, inputs, beside=inputs["hidden_states"][:, :, :1])),
        "encoding": sentence(lambda: pack.apply_camera(patcher, recammaster, path)),
        "model": sentence(lambda: pack.apply_camera(no_wan, file, path)),
        "length": sentence(lambda: pack.fun_camera_embedding(path.resampled(8))),
    }


def fun_camera(pack: Any) -> dict[str, Any]:
    """Core's own camera node and ours, for a camera that moves to the right."""
    from comfy_extras.nodes_camera_trajectory import WanCameraEmbedding

    width, height, frames = 64, 48, 9
    theirs = WanCameraEmbedding.execute("Pan Right", width, height, frames, fx=0.5, fy=0.5).args[0]
    path = sl.moves.static(frames=frames, width=width, height=height)
    poses = path.camera_to_world.clone()
    poses[:, 0, 3] = torch.arange(frames, dtype=torch.float64) / frames * 1.5
    # Core reads fx and fy as those of a picture of 1280 x 720, scaled to cover ours.
    lens = torch.tensor([[height * 1280 / 720 * 0.5, 0, width / 2], [0, height * 0.5, height / 2], [0, 0, 1]])
    ours = pack.fun_camera_embedding(path.replace(camera_to_world=poses, intrinsics=lens))
    return {"shape": list(ours.shape), "theirs": list(theirs.shape), "error": error(ours, theirs)}


async def workflows() -> dict[str, Any]:
    """The example workflows as they are, a path file in place of moves, and a file outside the input folder."""
    spec = importlib.util.spec_from_file_location("comfyui_workflows", Path(__file__).with_name("comfyui_workflows.py"))
    runner = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(runner)
    runner.prepare(FOLDER)
    await nodes.init_builtin_extra_nodes()
    examples, base = ROOT / "integrations/comfyui/example_workflows", tiny_transformer("ti2v-5b")
    trained(base, sl.Scope(), FOLDER / "scope_wan2.2_ti2v_5b.safetensors")
    sl.moves.pan(10, frames=17, width=640, height=320).save(FOLDER / "input/path.json")
    apply, fun = examples / "wan22_5b_camera.json", examples / "fun_camera.json"
    five_b, vae = comfy_model(base), runner.TinyVAE(48, 16)
    report = {
        "apply": await runner.run_workflow(apply, five_b, vae, {}),
        "without": await runner.run_workflow(apply, five_b, vae, {"strength": 0.0}),
        "late": await runner.run_workflow(apply, five_b, vae, {"start_percent": 1.0}),
        "file": await runner.run_workflow(apply, five_b, vae, {"file": "path.json"}),
        "outside": await runner.run_workflow(apply, five_b, vae, {"file": "../scope.safetensors"}),
    }
    first, without, late, from_file = vae.decoded
    report["differences"] = {
        "apply": error(first, without),
        "late": error(late, without),
        "file": error(from_file, first),
    }
    fun_model, vae = runner.tiny_fun_camera(), runner.TinyVAE(16, 8)
    report["fun"] = await runner.run_workflow(fun, fun_model, vae, {})
    report["fun static"] = await runner.run_workflow(fun, fun_model, vae, {"moves": "static"})
    report["differences"]["fun"] = error(*vae.decoded)
    return report


async def main() -> None:
    folder_paths.add_model_folder_path("sightline_camera", str(FOLDER))
    loaded = await nodes.load_custom_node(str(ROOT / "integrations/comfyui"))
    pack = module_of_pack("camera_patch")
    report = {"core": comfyui_version.__version__, "loaded": loaded}
    report["nodes"] = sorted(name for name in nodes.NODE_CLASS_MAPPINGS if name.startswith("Sightline"))
    report["compare"], report["fun_camera"] = compare(pack), fun_camera(pack)
    report["workflows"] = await workflows()
    (FOLDER / "report.json").write_text(json.dumps(report))


asyncio.run(main())
