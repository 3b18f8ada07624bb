"""sightline data: look at sources of video with cameras, measure them, and cache their latents.

A SOURCE is KIND:PLACE?option=value&option=value, with KIND one of re10k, dl3dv, panshot, omniworld and worlds:
re10k:/data/re10k?split=test, dl3dv:/data/dl3dv?images=images_8, worlds:walkthrough?clips=500. Every kind takes eta
and name; docs/data.md lists the layouts and the other options.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import tyro
from tyro.conf import FlagCreatePairsOff, Positional, arg

from sightline.checks import parsed_size
from sightline.cli._console import bar, print_line, print_table
from sightline.errors import SightlineError

if TYPE_CHECKING:
    from sightline.data.clip_spec import ClipSpec
    from sightline.data.stats import SourceStatistics, Spread

_Sources = Annotated[Positional[tuple[str, ...]], arg(metavar="SOURCE ...", help_behavior_hint="")]
_Whole = Annotated[int | None, arg(metavar="N", help_behavior_hint="")]


def main(arguments: Sequence[str]) -> None:
    """Torch is loaded by `run`, not by the help."""
    commands: dict[str, Any] = {"preview": Preview, "stats": Stats, "cache": Cache}
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline data", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    command.run()


@dataclass
class _ClipOptions:
    """How shots become clips."""

    num_frames: int = 81
    """Frames of a clip, 4 k + 1."""
    stride: int = 1
    """Take every N-th frame of a shot."""
    hop: _Whole = None
    """Frames between the starts of two windows of a shot; without it they do not overlap."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = "832x480"
    """Pictures are scaled to cover this and cropped in the middle; the lens follows."""
    near_depth: bool = False
    """Divide positions by a clip's near depth, where the source knows it."""
    keep_world: bool = False
    """Keep the source's world instead of making the first camera of each clip the identity."""
    strict: bool = False
    """Stop at the first broken clip instead of reporting and skipping it."""

    def spec(self, **more: Any) -> ClipSpec:
        from sightline.data.clip_spec import ClipSpec

        width, height = parsed_size(self.size)
        return ClipSpec(
            self.num_frames, self.stride, self.hop, width, height, self.near_depth, anchor=not self.keep_world, **more
        )


@dataclass
class Preview(_ClipOptions):
    """Write a contact sheet of a few clips, and a video of each with the camera path beside it."""

    sources: _Sources = ()
    """Where clips come from."""
    style: Annotated[str | None, arg(metavar="STYLE", help_behavior_hint="")] = None
    """A style of the procedural worlds, with a map of the place: walkthrough, orbit, panorama or openworld."""
    clips: int = 4
    """How many clips of each source."""
    num_frames: int = 33
    """Frames of a clip, 4 k + 1."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = "416x240"
    """Pictures are scaled to cover this and cropped in the middle; the lens follows."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("preview")
    """Folder to write to."""

    def run(self) -> None:
        from sightline.figures.preview import write_clip_preview, write_world_preview

        spec = self.spec()
        if self.style is not None:
            for name in ("stride", "hop", "near_depth", "keep_world", "strict"):
                if not self.sources and getattr(self, name) != getattr(Preview(), name):
                    raise SightlineError(f"{name} says nothing to a style: expected it with a source.")
            size = parsed_size(self.size)
            for path in write_world_preview(self.style, 0, self.output, self.clips, self.num_frames, size):
                print_line(f"wrote {path}")
        if self.sources or self.style is None:
            for source in _opened(self.sources):
                for path in write_clip_preview(source, spec, self.clips, self.output, self.strict):
                    print_line(f"wrote {path}")


@dataclass
class Stats(_ClipOptions):
    """Measure how far cameras move: a table, a plot, and the eta that would bring each source to the first one's scale."""

    sources: _Sources = ()
    """Where clips come from; the first one is the yardstick."""
    clips: int = 200
    """Shots measured per source, evenly spaced in its list."""
    plot: Annotated[Path, arg(metavar="FILE")] = Path("moments.png")
    """Picture to draw: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.data.stats import source_statistics, suggested_etas
        from sightline.figures import check_figure_path, draw_moments

        check_figure_path(self.plot)  # refused before anything is measured
        spec = self.spec()
        found = [
            source_statistics(source, spec, self.clips, strict=self.strict, progress=bar)
            for source in _opened(self.sources)
        ]
        _print_statistics(found, suggested_etas(found, self.near_depth))
        draw_moments(found, self.plot)
        print_line(f"drew {self.plot}")


@dataclass
class Cache(_ClipOptions):
    """Encode clips and captions into shards that training reads. Goes on where it was stopped; also under
    `accelerate launch -m sightline data cache ...`."""

    sources: _Sources = ()
    """Where clips come from."""
    model: Annotated[str, arg(metavar="M")] = tyro.MISSING
    """Hub id or folder of a Wan pipeline, whose VAE and text encoder are used."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = tyro.MISSING
    """Folder of the cache; one that was begun with other settings is refused."""
    part: Literal["all", "train", "held-out"] = "all"
    """Which scenes: the split goes by a hash of their names. Training splits a whole cache itself (data.held_out)."""
    held_out: float = 0.01
    """Share of the scenes that are held out."""
    caption: str = "a video"
    """For clips without one."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Of latents and text as stored."""
    shard_clips: int = 64
    """Clips per shard; what a kill can cost is one shard."""

    def run(self) -> None:
        import torch
        from accelerate import PartialState

        from sightline.data.cache import CacheWriter
        from sightline.data.clips import Clips
        from sightline.data.encode import load_encoder

        sources, spec = _opened(self.sources), self.spec(caption=self.caption)
        # Without cpu=True, processes of a machine that has no GPU do not find each other.
        state = PartialState(cpu=not torch.cuda.is_available())
        if not state.is_main_process:
            logging.getLogger("sightline").setLevel(logging.ERROR)  # one process speaks for all while they do the same
        show = bar if state.is_main_process else lambda shots, _: shots
        clips = Clips(sources, spec, part=self.part, held_out=self.held_out, strict=self.strict, progress=show)
        writer = CacheWriter(
            self.output,
            clips,
            load_encoder(self.model, state.device),
            self.model,
            dtype=self.dtype,
            shard_clips=self.shard_clips,
            rank=state.process_index,
            processes=state.num_processes,
        )
        if state.is_main_process:
            writer.prepare()
        state.wait_for_everyone()
        logging.getLogger("sightline").setLevel(logging.INFO)
        _write_with_bar(writer, shown=state.is_main_process)


def _write_with_bar(writer: Any, shown: bool) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as progress:
        total = sum(len(writer.clips_of(shard)) for shard in writer.missing())
        task = progress.add_task(
            "encoding clips" + (" (this process's share)" if writer.processes > 1 else ""), total=total
        )
        writer.write(on_clip=lambda: progress.advance(task))


def _opened(texts: Sequence[str]) -> list[Any]:
    from sightline.data.sources import open_sources

    return open_sources(texts)


def _print_statistics(found: Sequence[SourceStatistics], etas: Sequence[float]) -> None:
    motion = [
        (one.name, f"{one.clips} of {one.shots}", str(one.frames), f"{one.path_length:.4g}", f"{one.turn:.4g}")
        for one in found
    ]
    header = ["source", "shots measured", "frames", "path length", "turn (degrees)"]
    print_table("camera motion, medians over clips", header, motion)
    moments = [
        (
            one.name, _spread(one.raw), f"{one.eta:g}", _spread(one.scaled),
            _spread(one.normalised) if one.normalised else "unknown", f"{eta:.3g}",
        )
        for one, eta in zip(found, etas, strict=True)
    ]  # fmt: skip
    header = ["source", "|m|", "eta", "eta |m|", "eta |m| / z_n", "suggested eta"]
    print_table("|m| over rays: median, and 5 to 95 %", header, moments)
    print_line(f"suggested eta: gives each source the median of {found[0].name}, whose eta is {found[0].eta:g}")


def _spread(found: Spread) -> str:
    return f"{found.median:.3g}\n{found.percentile_5:.2g} to {found.percentile_95:.2g}"
