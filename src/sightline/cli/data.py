"""sightline data: prepare sources of video with cameras, look at them, measure their camera motion, and cache their latents.

A SOURCE is KIND:PLACE?option=value&option=value, with KIND one of re10k, dl3dv, panshot, omniworld, folder and worlds:
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

from sightline.cli._console import bar, print_line
from sightline.cli._data_tables import print_statistics
from sightline.cli._launch import clean_exit
from sightline.cli._re10k import Caption, Cut
from sightline.errors import SightlineError
from sightline.option_types import OptionalInt, check_options
from sightline.parsing import parse_size
from sightline.quiet import one_progress_bar

if TYPE_CHECKING:
    from sightline.data.clip_spec import ClipSpec

_Sources = Annotated[Positional[tuple[str, ...]], arg(metavar="SOURCE ...", help_behavior_hint="")]


def main(arguments: Sequence[str]) -> None:
    """Torch is imported by `run`, so that the help is fast."""
    commands: dict[str, Any] = {
        "cut": Cut,
        "caption": Caption,
        "preview": Preview,
        "stats": Stats,
        "cache": Cache,
    }
    command: Any = tyro.extras.subcommand_cli_from_dict(
        commands, prog="sightline data", description=__doc__, args=arguments, config=(FlagCreatePairsOff,)
    )
    check_options(command)
    with clean_exit():
        command.run()


@dataclass
class _ClipOptions:
    """Options of all commands: how shots become clips."""

    num_frames: int = 81
    """Frames of a clip, 4 k + 1."""
    stride: int = 1
    """Take every N-th frame of a shot."""
    hop: OptionalInt = None
    """Frames of the shot between the starts of two windows; by default windows do not overlap."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = "832x480"
    """Frame size. Frames are scaled to cover it and cropped in the middle; intrinsics are adapted."""
    near_depth: bool = False
    """Divide positions by the clip's near depth where the source knows it."""
    keep_world: bool = False
    """Keep the source's world coordinates instead of making the first camera of each clip the identity."""
    strict: bool = False
    """Stop at the first broken clip instead of skipping it."""

    def spec(self, **more: Any) -> ClipSpec:
        from sightline.data.clip_spec import ClipSpec

        width, height = parse_size(self.size)
        return ClipSpec(
            self.num_frames, self.stride, self.hop, width, height, self.near_depth, anchor=not self.keep_world, **more
        )


@dataclass
class Preview(_ClipOptions):
    """Write a contact sheet of a few clips, and a video of each with its camera trajectory beside it."""

    sources: _Sources = ()
    """The sources of the clips."""
    style: Annotated[str | None, arg(metavar="STYLE", help_behavior_hint="")] = None
    """A style of the procedural worlds, with a map of the place: walkthrough, orbit, panorama or openworld."""
    clips: int = 4
    """Number of clips of each source."""
    num_frames: int = 33
    """Frames of a clip, 4 k + 1."""
    size: Annotated[str, arg(metavar="WIDTHxHEIGHT")] = "416x240"
    """Frame size. Frames are scaled to cover it and cropped in the middle; intrinsics are adapted."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = Path("preview")
    """Output folder."""

    def run(self) -> None:
        from sightline.figures.preview import write_preview, write_world_preview
        from sightline.files import require_folder_name

        require_folder_name(self.output)
        spec = self.spec()
        if self.style is not None:
            for name in ("stride", "hop", "near_depth", "keep_world", "strict"):
                if not self.sources and getattr(self, name) != getattr(Preview(), name):
                    raise SightlineError(f"{name} says nothing to a style: expected it with a source.")
            size = parse_size(self.size)
            for path in write_world_preview(self.style, 0, self.output, self.clips, self.num_frames, size):
                print_line(f"wrote {path}")
        if self.sources or self.style is None:
            for source in _open_sources(self.sources):
                for path in write_preview(source, spec, self.clips, self.output, strict=self.strict):
                    print_line(f"wrote {path}")


@dataclass
class Stats(_ClipOptions):
    """Measure camera motion: a table, a plot, and the eta that brings each source to the scale of the first one."""

    sources: _Sources = ()
    """The sources to measure; suggested etas refer to the first one."""
    clips: int = 200
    """Shots measured per source, evenly spaced in its list."""
    plot: Annotated[Path, arg(metavar="FILE")] = Path("moments.png")
    """File of the plot: .png, .svg or .pdf."""

    def run(self) -> None:
        from sightline.data.stats import source_statistics, suggested_etas
        from sightline.figures import check_figure_path, draw_moments

        check_figure_path(self.plot)  # a bad file name is an error before anything is measured
        spec = self.spec()
        statistics = [
            source_statistics(source, spec, self.clips, strict=self.strict, progress=bar)
            for source in _open_sources(self.sources)
        ]
        print_statistics(statistics, suggested_etas(statistics, self.near_depth))
        draw_moments(statistics, self.plot)
        print_line(f"drew {self.plot}")


@dataclass
class Cache(_ClipOptions):
    """Encode clips and captions into shards that training reads. Resumes where it was stopped. Runs on several processes
    under `accelerate launch -m sightline data cache ...`."""

    sources: _Sources = ()
    """The sources of the clips."""
    model: Annotated[str, arg(metavar="M")] = tyro.MISSING
    """Hub id or folder of the Wan pipeline whose VAE and text encoder are used."""
    output: Annotated[Path, arg(aliases=["-o"], metavar="DIR")] = tyro.MISSING
    """Folder of the cache. A folder with other settings is an error."""
    part: Literal["all", "train", "held-out"] = "all"
    """Part of the split, which is by a hash of scene names. Training splits a cache of all scenes itself."""
    held_out: float = 0.01
    """Fraction of the scenes that is held out."""
    caption: str = "a video"
    """Caption of clips without one."""
    dtype: Literal["bfloat16", "float32"] = "bfloat16"
    """Type of the stored latents and text."""
    shard_clips: int = 64
    """Clips per shard. A run that is killed loses at most one shard."""

    def run(self) -> None:
        from sightline.run_folder import locked

        with locked(self.output):
            failed = self._write()
        if failed:
            raise SightlineError(
                f"{failed} clips failed, for another reason than their data: expected none; the others are cached, and the same "
                "command tries them again."
            )

    def _write(self) -> int:
        """Write the cache; returns how many clips of this process failed."""
        import torch
        from accelerate import PartialState

        from sightline.data.cache import CacheWriter
        from sightline.data.clips import Clips
        from sightline.data.encode import load_encoder

        one_progress_bar()
        sources, spec = _open_sources(self.sources), self.spec(caption=self.caption)
        # Without cpu=True, processes on a machine without a GPU do not join one group.
        state = PartialState(cpu=not torch.cuda.is_available())
        if not state.is_main_process:
            logging.getLogger("sightline").setLevel(logging.ERROR)  # only the main process logs what all of them do
        progress = bar if state.is_main_process else lambda shots, _: shots
        clips = Clips(sources, spec, part=self.part, held_out=self.held_out, strict=self.strict, progress=progress)
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
        return writer.failed


def _write_with_bar(writer: Any, shown: bool) -> None:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal)) as progress:
        total = sum(len(writer.clips_of(shard)) for shard in writer.missing())
        task = progress.add_task(
            "encoding clips" + (" (this process's shards)" if writer.processes > 1 else ""), total=total
        )
        writer.write(on_clip=lambda: progress.advance(task))


def _open_sources(texts: Sequence[str]) -> list[Any]:
    from sightline.data.sources import open_sources

    return open_sources(texts)
