"""sightline inspect: look inside a trained model, and at what it made.

matrix reads the learned form M of each head of SCoPE; scores splits the attention of a video into its four terms;
gallery shows frames beside the frusta of their cameras. docs/method.md explains M and the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.cli._console import print_line, print_table
from sightline.errors import SightlineError
from sightline.generation.model import Model
from sightline.generation.model_options import ModelOptions
from sightline.option_types import OptionalFile, OptionalInt, OptionalName, OptionalSize
from sightline.parsing import parse_size
from sightline.quiet import one_progress_bar


def main(arguments: Sequence[str]) -> None:
    """Torch is imported by `run`, so that the help is fast."""
    commands: dict[str, Any] = {"matrix": Matrix, "scores": Scores, "gallery": Gallery}
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline inspect", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    command.run()


@dataclass
class Matrix:
    """The learned form M = E_q^T E_k of every head of SCoPE: how far it is from the reciprocal product of two lines of sight."""

    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("outputs/matrix")
    """Folder to write: a figure and the numbers of each expert."""

    def run(self) -> None:
        import json

        from sightline.backbones.inspect import ray_form
        from sightline.backbones.stock import experts
        from sightline.figures import draw_ray_form
        from sightline.files import require_folder_name, write_atomic

        require_folder_name(self.output)
        one_progress_bar()
        model = Model(self.options)
        model.require_camera()
        for name, expert in experts(model.pipe).items():
            form = ray_form(expert)
            matrix, scale, distance = (values.cpu() for values in (form.matrix, form.scale, form.distance))
            rows = [
                (str(layer), f"{one.mean():.3f}", f"{one.min():.3f}", f"{one.max():.3f}", f"{scale[layer].mean():.4g}")
                for layer, one in enumerate(distance)
            ]
            head = ("layer", "mean distance", "least", "largest", "mean scale")
            print_table(f"{name}: M over its heads; distance 0 is the reciprocal product", head, rows)
            content = {"matrix": matrix.tolist(), "scale": scale.tolist(), "distance": distance.tolist()}
            write_atomic(self.output / f"{name}.json", json.dumps(content) + "\n")
            figure = self.output / f"{name}.png"
            draw_ray_form(matrix.numpy(), scale.numpy(), distance.numpy(), figure, f"{name}: M = E_q^T E_k")
            print_line(f"wrote {figure} and {figure.with_suffix('.json').name}")


@dataclass
class Scores:
    """The four terms of attention scores from one token of a video to all its tokens, as maps over the frames."""

    video: Annotated[Positional[Path], arg(metavar="VIDEO")]
    """A video, or a folder of generate. Its trajectory lies beside it, as trajectory.json or under the video's name."""
    options: Annotated[ModelOptions, arg(name="")] = field(default_factory=ModelOptions)
    trajectory: OptionalFile = None
    """The video's trajectory, if it is elsewhere; in any known format."""
    prompt: str = "a video"
    """The text that describes the video."""
    layer: OptionalInt = None
    """The layer to read; default: the middle one."""
    head: OptionalInt = None
    """One head; default: the mean over all."""
    frame: OptionalInt = None
    """The latent frame of the query token; default: the last one."""
    at: Annotated[str, arg(metavar="X,Y")] = "0.5,0.5"
    """Where the query token is in its picture, as fractions of width and height."""
    sigma: float = 0.5
    """Noise level of the video, from 0 to 1."""
    component: OptionalName = None
    """The expert to read, transformer or transformer_2; default: of two, the one that denoises at the noise level."""
    start: int = 0
    """First frame of the video to use."""
    num_frames: OptionalInt = None
    """Frames to use, 4 n + 1; default: the model's own number, or as many as the video has."""
    size: OptionalSize = None
    """Size of the frames; default: the model's own."""
    seed: int = 0
    """Seed of the noise."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="FILE")] = Path("outputs/scores.png")
    """The figure to write: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.backbones.models import blocks_of
        from sightline.backbones.stock import expert_at, experts
        from sightline.cameras.trajectory import Trajectory
        from sightline.figures import check_figure_path, draw_score_terms
        from sightline.generation.video_files import find_video, read_clip
        from sightline.generation.video_scores import video_score_terms

        check_figure_path(self.output)
        video, cameras = find_video(self.video, self.trajectory)
        one_progress_bar()
        model = Model(self.options)
        model.require_camera()
        info = model.info
        width, height = parse_size(self.size) if self.size else (info.defaults.width, info.defaults.height)
        available = (len(Trajectory.load(cameras)) - self.start - 1) // info.stride.frames * info.stride.frames + 1
        num_frames = self.num_frames or min(info.defaults.num_frames, max(available, 1))
        info.require_num_frames(num_frames)
        info.require_size(width, height)
        clip = read_clip(video, cameras, num_frames, width, height, self.prompt, self.start)
        pipe = model.pipe
        component = self.component or expert_at(pipe, self.sigma)
        expert = experts(pipe).get(component)
        layer = self.layer if self.layer is not None else (0 if expert is None else len(blocks_of(expert)) // 2)
        frame = self.frame if self.frame is not None else (num_frames - 1) // info.stride.frames
        found = video_score_terms(
            pipe, clip, layer=layer, frame=frame, at=_fractions(self.at), sigma=self.sigma, head=self.head,
            component=component, seed=self.seed,
        )  # fmt: skip
        which = "mean over heads" if self.head is None else f"head {self.head}"
        where = f"{component}, layer {layer}" if len(experts(pipe)) > 1 else f"layer {layer}"
        title = f"attention scores of {video.name}: {where}, {which}, noise level {self.sigma:g}"
        draw_score_terms(found.pictures, found.terms, found.query, self.output, title)
        spreads = [(name, f"{values.std():.4g}", f"{abs(values).max():.4g}") for name, values in found.terms.items()]
        print_table("terms over all tokens of the video", ("term", "standard deviation", "largest"), spreads)
        print_line(f"wrote {self.output}")


@dataclass
class Gallery:
    """Frames of videos beside the frusta of their cameras: commanded, and estimated where a run has estimated them."""

    videos: Annotated[Positional[tuple[Path, ...]], arg(metavar="VIDEO ...", help_behavior_hint="")] = ()
    """Videos with a trajectory beside them, folders of generate, or runs of evaluate."""
    clips: int = 4
    """Clips of each run of evaluate."""
    columns: int = 5
    """Frames of each video, from first to last."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="FILE")] = Path("outputs/gallery.png")
    """The figure to write: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.checks import whole_number
        from sightline.evaluation.gallery import gallery_rows
        from sightline.figures import check_figure_path, draw_gallery

        check_figure_path(self.output)
        rows = gallery_rows(self.videos, self.clips)
        draw_gallery(rows, self.output, whole_number("columns", self.columns))
        print_line(f"wrote {self.output}: {len(rows)} video{'s' * (len(rows) > 1)}")


def _fractions(text: str) -> tuple[float, float]:
    try:
        x, y = (float(part) for part in text.split(","))
    except ValueError:
        raise SightlineError(f"at is {text!r}: expected X,Y as fractions of the picture, such as 0.5,0.5.") from None
    return x, y
