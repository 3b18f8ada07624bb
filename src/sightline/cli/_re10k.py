"""Commands of `sightline data` that prepare RealEstate10K: cut its shots out of whole videos, and caption them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import tyro
from tyro.conf import Positional, arg

from sightline.cli._console import bar, print_line


@dataclass
class Cut:
    """Cut the shots of RealEstate10K out of downloaded YouTube videos, one frame per pose. Videos that are missing are listed."""

    root: Annotated[Positional[Path], arg(metavar="ROOT")]
    """Folder of RealEstate10K, as its archive unpacks."""
    videos: Annotated[Path, arg(metavar="DIR")] = tyro.MISSING
    """Folder of whole videos, each named by its id: yt-dlp -o "%(id)s.%(ext)s"."""
    split: str = "train"
    """train or test."""
    height: int = 480
    """Height that the pictures are scaled to."""
    workers: int = 1
    """Processes that decode and encode."""
    missing: Annotated[Path, arg(metavar="FILE")] = Path("missing.txt")
    """List of the URLs of missing videos, for yt-dlp -a FILE."""

    def run(self) -> None:
        from sightline.data.cut import cut_shots
        from sightline.files import write_atomic

        cuts = cut_shots(
            self.root, self.videos, split=self.split, height=self.height, workers=self.workers, progress=bar
        )
        print_line(f"cut {cuts.written} shots, {cuts.existing} were cut before, skipped {len(cuts.skips)}")
        if cuts.urls:
            write_atomic(self.missing, "".join(f"{url}\n" for url in cuts.urls))
            print_line(f"wrote the URLs of {len(cuts.urls)} missing videos to {self.missing}")


@dataclass
class Caption:
    """Caption the shots of RealEstate10K with a vision-language model of transformers. Captions that exist are kept."""

    root: Annotated[Positional[Path], arg(metavar="ROOT")]
    """Folder of RealEstate10K, with its shots cut."""
    captioner: Annotated[str, arg(metavar="M")] = tyro.MISSING
    """Hub id or folder of a chat model that takes images (image-text-to-text), such as Qwen/Qwen2.5-VL-7B-Instruct."""
    split: str = "train"
    """train or test."""
    device: str | None = None
    """Device of the captioner; by default the GPU where there is one."""

    def run(self) -> None:
        from sightline.data.captioning import caption_shots, load_captioner
        from sightline.devices import as_device

        captioner = load_captioner(self.captioner, as_device(self.device))
        path, new, skips = caption_shots(self.root, captioner, split=self.split, progress=bar)
        print_line(f"captioned {new} shots in {path}, skipped {len(skips)}")
