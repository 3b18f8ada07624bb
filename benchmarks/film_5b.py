"""A whole film, image in and mp4 out, with stock diffusers and at every speed level, in turn on one GPU with random weights.

    python benchmarks/film_5b.py -o outputs/film-5b                             480 x 832 x 81, 50 steps, guidance 5
    python benchmarks/film_5b.py --steps 10 --layers 10                         shorter
    python benchmarks/film_5b.py --rows exact fast --offload group --memory 12  with 12 GB of GPU memory and no more
    python benchmarks/film_5b.py --model 14b --steps 4 --rows fast --offload group --memory 24
    python benchmarks/film_5b.py --tiny                                         a rehearsal on a CPU; its numbers mean nothing

Stock rows have no camera; the others have SCoPE. A film of two steps comes first, which compiles: its time beyond that of two
steps is what compilation costs. Without PyAV no mp4 is written, and the results say so. Written: film.json and film.png.
"""

from __future__ import annotations

import gc
import json
import logging
import sys
import tempfile
import time
import traceback
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch
import tyro
from torch import Tensor
from tyro.conf import arg

import sightline as sl
from sightline.backbones.model_info import ModelInfo
from sightline.backbones.stock import experts
from sightline.backbones.wan_configs import I2V_A14B, TI2V_5B, WanConfig
from sightline.bench.random_pipeline import random_pipeline
from sightline.figures import BarPanel, draw_bars
from sightline.generation.generate import speed_of_film
from sightline.generation.offload import offload_groups
from sightline.timing import GB, peak_gpu_gib, peak_process_gib, reset_peak_memory, synchronized_time
from sightline.video import can_write_mp4

Row = Literal["stock", "stock-compiled", "exact", "fast", "fast-uncompiled", "faster", "fastest"]
# What matters most comes first: a run that is stopped keeps the rows that it has.
ROWS: tuple[Row, ...] = ("stock", "fast", "fast-uncompiled", "stock-compiled", "faster", "exact", "fastest")
_MANY = 10**6  # videos, for which compilation always saves time
_TINY = {"num_attention_heads": 8, "attention_head_dim": 16, "num_layers": 3, "ffn_dim": 32, "text_dim": 32}


@dataclass(frozen=True)
class FilmCost:
    """Seconds and memory of one film. rest: everything outside the transformers; decoding: of it, from their last pass to frames
    in main memory. latents_off: RMS of the difference from the latents of the row without a fast path, over their RMS."""

    row: str
    used: str
    seconds: float
    transformer: float
    rest: float
    decoding: float
    mp4: float | None
    first_film: float
    peak_gib: float
    latents_off: float | None


def main(
    model: Literal["5b", "14b"] = "5b", rows: tuple[Row, ...] = ROWS, steps: int = 50, layers: int | None = None,
    num_frames: int = 81, width: int = 832, height: int = 480, guidance_scale: float = 5.0,
    offload: Literal["none", "group"] = "none", memory: float | None = None, tiny: bool = False,
    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/film-5b"),
) -> list[FilmCost]:  # fmt: skip
    """memory: GB of the GPU that may be used, weights and all."""
    device = torch.device("cpu") if tiny else torch.device("cuda", 0)  # a limit of memory needs the index
    config = TI2V_5B if model == "5b" else I2V_A14B
    transformer = {**config.transformer, **(_TINY if tiny else {}), **({"num_layers": layers} if layers else {})}
    config = replace(config, transformer=transformer)
    if tiny:
        vae = {**config.vae, "base_dim": 4} | ({"decoder_base_dim": 4} if model == "5b" else {})
        config, num_frames, width, height, steps = replace(config, vae=vae), 5, 64, 64, min(steps, 3)
    trajectory = sl.moves.orbit(degrees=30, target_depth=2.0, frames=num_frames, width=width, height=height)
    film = {"trajectory": trajectory, "guidance_scale": guidance_scale}
    costs: list[FilmCost] = []
    latents: dict[str, Tensor] = {}
    failed: dict[str, str] = {}
    output.mkdir(parents=True, exist_ok=True)
    for row in rows:
        pipe: Any = None
        try:
            pipe = _pipeline(config, row, device, offload)
            # The limit holds from here on: the pipeline was made before, with all of the GPU.
            if memory is not None and device.type == "cuda":
                torch.cuda.set_per_process_memory_fraction(memory * GB / torch.cuda.mem_get_info(device)[1], device)
            cost, latents[row] = _measure(pipe, row, film, steps, device)
            costs.append(cost)
        except Exception as error:  # out of memory, or what a compiler or a kernel refuses: the other rows go on
            traceback.print_exc()
            failed[row] = (str(error).splitlines() or [type(error).__name__])[0]
        finally:
            del pipe
            gc.collect()
            torch.compiler.reset()
            if device.type == "cuda":
                torch.cuda.empty_cache()
                torch.cuda.set_per_process_memory_fraction(1.0, device)
        costs = [replace(cost, latents_off=_off(latents, cost.row)) for cost in costs]
        print(json.dumps({"row": row, "failed": failed[row]} if row in failed else asdict(costs[-1])), flush=True)
        settings = {"model": model, "layers": config.transformer["num_layers"], "steps": steps, "offload": offload,
                    "video": [num_frames, height, width], "memory_gb": memory, "mp4": can_write_mp4(),
                    "guidance_scale": guidance_scale, "device": torch.cuda.get_device_name() if not tiny else "cpu",
                    "torch": torch.__version__, "cudnn": torch.backends.cudnn.version(), "failed": failed}  # fmt: skip
        _write(costs, {"command": " ".join(["python", "benchmarks/film_5b.py", *sys.argv[1:]]), **settings}, output)
    return costs


def _pipeline(config: WanConfig, row: Row, device: torch.device, offload: str) -> Any:
    logging.getLogger("diffusers").setLevel(logging.ERROR)  # a note on casting, for every row
    pipe: Any = random_pipeline(config, device)
    pipe.set_progress_bar_config(disable=True)
    if not row.startswith("stock"):
        sl.attach_camera(pipe, sl.Scope())
        with torch.no_grad():
            for model in experts(pipe).values():
                for layer in model.encoding_layers:  # as if trained: a zero would hide a broken addition
                    layer.alpha_q.fill_(0.3)
                    layer.alpha_k.fill_(0.3)
        level: Any = row.removesuffix("-uncompiled")
        sl.set_speed(pipe, level, num_videos=0 if row.endswith("-uncompiled") else _MANY)
    elif row == "stock-compiled":
        for model in experts(pipe).values():
            backend = {} if device.type == "cuda" else {"backend": "aot_eager"}
            model.compile_repeated_blocks(fullgraph=True, **backend)
    if offload == "group" and device.type == "cuda":
        pipe.to("cpu")
        torch.cuda.empty_cache()
        offload_groups(pipe, device)
    return pipe


def _measure(pipe: Any, row: Row, film: dict[str, Any], steps: int, device: torch.device) -> tuple[FilmCost, Tensor]:
    trajectory = film["trajectory"]
    image = np.random.default_rng(0).integers(0, 256, (trajectory.height, trajectory.width, 3), dtype=np.uint8)
    last: dict[str, Tensor] = {}
    clock = _TransformerClock(pipe, device)

    def keep(_pipe: Any, _step: int, _timestep: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        last["latents"] = tensors["latents"]
        return tensors

    def make(number: int) -> tuple[float, float, float | None]:  # of the film, of decoding, of the mp4
        started = synchronized_time(device)
        video = sl.generate(
            pipe, image, "a room", num_inference_steps=number, blind=row.startswith("stock"), callback_on_step_end=keep, **film
        )  # fmt: skip
        decoding = clock.since_the_last()
        decoded = synchronized_time(device)
        if not can_write_mp4():
            return decoded - started, decoding, None
        with tempfile.TemporaryDirectory() as folder:
            sl.save_video(video, Path(folder) / "film.mp4", fps=trajectory.fps)
        ended = synchronized_time(device)
        return ended - started, decoding, ended - decoded

    first_film, _, _ = make(min(2, steps))
    clock.clear()
    reset_peak_memory(device)
    seconds, decoding, mp4 = make(steps)
    transformer = clock.seconds()
    peak = peak_gpu_gib(device) or peak_process_gib()
    used = speed_of_film(pipe, ModelInfo.of(pipe), trajectory, steps, film["guidance_scale"]).describe()
    used = (
        f"diffusers, {'compiled blocks' if row == 'stock-compiled' else 'eager'}" if row.startswith("stock") else used
    )
    rounded = [round(value, 3) for value in (seconds, transformer, seconds - transformer, decoding)]
    cost = FilmCost(
        row, used, *rounded, None if mp4 is None else round(mp4, 3), round(first_film, 3), round(peak, 3), None
    )
    return cost, last["latents"].float().cpu()


class _TransformerClock:
    """The time in the transformers of a pipeline. On a GPU it is read from events, for which nothing waits."""

    def __init__(self, pipe: Any, device: torch.device) -> None:
        self.is_cuda = device.type == "cuda"
        self.marks: list[Any] = []  # before and after each call
        for model in experts(pipe).values():
            model.register_forward_pre_hook(self._mark)
            model.register_forward_hook(self._mark)

    def _mark(self, *_: Any) -> None:
        if not self.is_cuda:
            self.marks.append(time.perf_counter())
            return
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        self.marks.append(event)

    def clear(self) -> None:
        self.marks.clear()

    def since_the_last(self) -> float:
        """Seconds since the last call ended, when the device has finished its work."""
        self._mark()
        now = self.marks.pop()
        if not self.is_cuda:
            return float(now - self.marks[-1])
        now.synchronize()
        return float(self.marks[-1].elapsed_time(now)) / 1000

    def seconds(self) -> float:
        pairs = zip(self.marks[::2], self.marks[1::2], strict=True)
        if self.is_cuda:
            return sum(before.elapsed_time(after) for before, after in pairs) / 1000
        return sum(after - before for before, after in pairs)


def _off(latents: dict[str, Tensor], row: str) -> float | None:
    """None until the row without a fast path has run."""
    base = latents.get("stock" if row.startswith("stock") else "exact")
    if base is None:
        return None
    return round(float((latents[row] - base).square().mean().sqrt() / base.square().mean().sqrt()), 5)


def _write(costs: list[FilmCost], settings: dict[str, Any], output: Path) -> None:
    """After every row, so that a run that is stopped keeps what it has."""
    document = {**settings, "rows": [asdict(cost) for cost in costs]}
    (output / "film.json").write_text(json.dumps(document, indent=1) + "\n")
    if not costs:
        return
    video = " x ".join(map(str, settings["video"][1:] + settings["video"][:1]))
    title = f"{settings['model']}, {settings['layers']} layers, {video}, {settings['steps']} steps"
    panels = [BarPanel(f"{title}: the film", [(cost.row, cost.seconds) for cost in costs])]
    panels.append(BarPanel("outside the transformer", [(cost.row, cost.rest) for cost in costs]))
    draw_bars(
        panels, output / "film.png", "seconds", {"stock": "#8a8f98", "stock-compiled": "#8a8f98"}, reference="stock"
    )


if __name__ == "__main__":
    tyro.cli(main)
