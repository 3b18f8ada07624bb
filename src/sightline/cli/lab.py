"""sightline lab: train and measure the small model that ships with the package. See docs/lab.md."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.errors import SightlineError
from sightline.option_types import check_options
from sightline.quiet import one_progress_bar
from sightline.speed_levels import DEFAULT_SPEED, Speed


def main(arguments: Sequence[str]) -> None:
    commands: dict[str, Any] = {
        "vae": Vae, "text": Text, "assemble": Assemble, "pack": Pack, "unpack": Unpack, "measure": Measure,
    }  # fmt: skip
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, args=list(arguments), prog="sightline lab", description=__doc__, config=(FlagCreatePairsOff,)
    )
    check_options(command)
    one_progress_bar()
    command.run()


@dataclass
class Vae:
    """Train the video autoencoder on procedural worlds."""

    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/vae")
    """Folder for the VAE, in diffusers' layout, and for measured.json."""
    seconds: float = 400.0
    """Training time; the learning rate decays to 0 over this time."""
    clips: int = 8_000
    """Clips to render first, over all styles. They stay in the memory of the device."""
    batch_size: int = 8
    held_out: int = 64
    """Number of held-out clips to measure on."""
    seed: int = 0

    def run(self) -> None:
        from sightline.files import require_folder_name
        from sightline.lab.vae_training import train_vae

        train_vae(
            require_folder_name(self.output),
            seconds=self.seconds,
            clips=self.clips,
            batch_size=self.batch_size,
            held_out=self.held_out,
            seed=self.seed,
        )


@dataclass
class Text:
    """Train the tokenizer and the text encoder on the captions of the worlds."""

    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/text")
    """Folder for tokenizer, text_encoder and measured.json."""
    captions: int = 6_000
    max_steps: int = 1_000
    seed: int = 0

    def run(self) -> None:
        from sightline.files import require_folder_name
        from sightline.lab.text_training import train_text

        output = require_folder_name(self.output)
        train_text(output, captions=self.captions, max_steps=self.max_steps, seed=self.seed)


@dataclass
class Assemble:
    """Assemble a complete pipeline from its components, in diffusers' layout and bfloat16."""

    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/start")
    vae: Path = Path("outputs/lab/vae")
    """The folder of a VAE. The word lab is the one that ships."""
    text: Path = Path("outputs/lab/text")
    """The folder of a tokenizer and a text_encoder. The word lab is the ones that ship."""
    transformer: Path | None = None
    """A trained transformer. Default: an untrained one, to start training from."""
    layers: int = 7
    """Layers of an untrained transformer."""
    heads: int = 5
    """Its attention heads, of 64 channels each."""
    ffn: int = 1024
    """The width of its feed-forward layers."""
    seed: int = 0
    """Of its initialization."""

    def run(self) -> None:
        from sightline.backbones import shipped
        from sightline.lab.models import assemble, lab_transformer

        vae = shipped.part("vae") if self.vae == Path("lab") else self.vae
        text = shipped.base() if self.text == Path("lab") else self.text
        transformer = self.transformer or lab_transformer(self.layers, self.heads, self.ffn, self.seed)
        print(f"wrote {assemble(self.output, vae, text, transformer)}")


@dataclass
class Pack:
    """Pack a trained pipeline into the form that ships: int8 weights in OUTPUT/base, and camera weights beside it.

    It is also the smallest form to continue training from: --model.base OUTPUT/base --model.camera OUTPUT/ENCODING.safetensors.
    """

    pipeline: Annotated[Positional[str], arg(metavar="PIPELINE")]
    """A pipeline in diffusers' layout, as sightline lab assemble writes it; lab is the one that ships."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/packed")
    camera: Path | None = None
    """Camera weights for it, a file that is copied; or an exported transformer, a folder that is split into base and camera."""

    def run(self) -> None:
        from sightline.lab.shipping import pack

        folder = pack(self.pipeline, self.output, self.camera)
        size = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        print(f"wrote {folder}, {size / 1e6:.1f} MB")


@dataclass
class Unpack:
    """Write the lab model without its camera as a plain folder in bfloat16, which stock diffusers loads."""

    pipeline: Annotated[Positional[str], arg(metavar="PIPELINE")] = "lab"
    """A pipeline whose weights may be packed; lab is the one that ships."""
    output: Annotated[Path, arg(aliases=["-o"])] = Path("outputs/lab/plain")

    def run(self) -> None:
        from sightline.lab.shipping import unpack

        print(f"wrote {unpack(self.output, self.pipeline)}")


@dataclass
class Measure:
    """PSNR to the true view on held-out scenes, with the true trajectory, with another clip's and with none; and of a camera
    that stands still, the last frame against the first."""

    model: str = "camera"
    """vae, base, camera (the camera weights that ship), or other camera weights for the lab model: a file or a folder."""
    clips: int = 16
    num_inference_steps: int = 12
    guidance_scale: float = 1.0
    camera_guidance_scale: float = 1.0
    conditions: tuple[Literal["true", "another", "none", "static"], ...] = ("true", "another", "none", "static")
    """Which trajectories the model gets; a base without a camera gets none."""
    seed: int = 0
    speed: Speed = DEFAULT_SPEED
    """Speed level of the generation (docs/performance.md), to measure what it costs in PSNR."""
    output: Annotated[Path | None, arg(aliases=["-o"])] = None
    """A json file for all measurements."""
    base: str = "lab"
    """The model without a camera."""

    def run(self) -> None:
        import json
        from dataclasses import asdict

        from sightline.backbones import shipped
        from sightline.backbones.pipelines import load_pipeline
        from sightline.backbones.speed import set_speed
        from sightline.checks import check_seed, number, whole_number
        from sightline.cli._console import bar, print_table
        from sightline.evaluation.held_out import held_out_clips
        from sightline.evaluation.lab_psnr import measure_psnr
        from sightline.files import require_writable, write_atomic

        number("guidance_scale", self.guidance_scale)
        number("camera_guidance_scale", self.camera_guidance_scale)
        whole_number("num_inference_steps", self.num_inference_steps)
        check_seed(self.seed)
        if self.output is not None:
            require_writable(self.output.parent)
        if self.model == "vae":
            self._measure_vae()
            return
        # Two clips of each style, since a clip is also generated with the trajectory of another one.
        if self.clips % 4 or self.clips < 8:
            raise SightlineError(f"clips is {self.clips}: expected a multiple of 4, from 8 on.")
        camera = None if self.model == "base" else shipped.camera() if self.model == "camera" else self.model
        pipe = set_speed(load_pipeline(self.base, camera), self.speed, num_videos=self.clips * len(self.conditions))
        clips = held_out_clips(self.clips, pipe.device)
        results = measure_psnr(
            pipe,
            clips,
            conditions=self.conditions,
            num_inference_steps=self.num_inference_steps,
            guidance_scale=self.guidance_scale,
            camera_guidance_scale=self.camera_guidance_scale,
            seed=self.seed,
            progress=lambda indices: bar(indices, "generating held-out scenes"),
        )
        rows = []
        styles = list(dict.fromkeys(clip.source for clip in clips))
        for name, mean in results.where_moved.items():
            by_style = results.by_style[name]
            rows.append((name, f"{mean:.2f}", *(f"{by_style[s]:.2f}" if s in by_style else "-" for s in styles)))
        title = f"{self.model}: PSNR where the view has moved (dB), {results.clips_with_motion} clips"
        print_table(title, ("", "all", *styles), rows)
        if results.static:
            values = [f"{value:.2f}" for value in results.static.values()]
            print_table(
                "standing still: PSNR of the last frame to the first (dB)", tuple(results.static), [tuple(values)]
            )
        if self.output is not None:
            write_atomic(self.output, json.dumps({"model": self.model, **asdict(results)}, indent=1))

    def _measure_vae(self) -> None:
        """PSNR of the VAE alone, an upper bound for every generated video."""
        import json

        import torch
        from diffusers import AutoencoderKLWan

        from sightline.backbones import shipped
        from sightline.backbones.packed_weights import load_component
        from sightline.cli._console import print_table
        from sightline.files import write_atomic
        from sightline.lab.models import NUM_FRAMES, SIZE
        from sightline.lab.vae_training import measure_vae

        folder = shipped.part("vae") if self.base == "lab" else Path(self.base) / "vae"
        device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        vae = load_component(AutoencoderKLWan, folder, torch.float32).to(device)
        results = measure_vae(vae, self.clips, NUM_FRAMES, SIZE, device)
        rows = [("all", f"{results['psnr']:.2f}"), *((k, f"{v:.2f}") for k, v in results["psnr_by_style"].items())]
        rows += [(f"frame {i}", f"{results['psnr_by_frame'][i]:.2f}") for i in (0, NUM_FRAMES // 2, NUM_FRAMES - 1)]
        print_table(f"vae: PSNR over {results['held_out_clips']} held-out clips", ("", "dB"), rows)
        if self.output is not None:
            write_atomic(self.output, json.dumps(results, indent=1))
