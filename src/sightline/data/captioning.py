"""Captions for RealEstate10K, which has none: a vision-language model of transformers describes the middle frame of each shot."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch
from PIL import Image

from sightline.data.clip import Skips
from sightline.data.sources.re10k import RealEstate10K
from sightline.documents import read_json
from sightline.errors import SightlineError
from sightline.files import reason, write_atomic

PROMPT = "Describe this place in one sentence: the room or scene, its furniture and materials, and the light."
_SAVE_EVERY = 100  # shots, after which the file is written again
_MAX_NEW_TOKENS = 80
_SIZE = (832, 480)  # of the picture that is described: the part that training sees

Captioner = Callable[[Image.Image], str]


def load_captioner(model: str, device: torch.device) -> Captioner:
    """A captioner from a chat model of transformers that takes images. model: a hub id or a folder."""
    import transformers

    try:
        pipeline: Any = transformers.pipeline(
            "image-text-to-text", model=model, device=device, dtype=torch.bfloat16 if device.type == "cuda" else None
        )
    except (OSError, ValueError, KeyError, ImportError) as error:
        raise SightlineError(
            f"captioner {model!r} cannot be loaded ({reason(error)}): expected an image-text-to-text model of transformers."
        ) from None

    def caption(image: Image.Image) -> str:
        content = [{"type": "image", "image": image}, {"type": "text", "text": PROMPT}]
        messages = [{"role": "user", "content": content}]
        answer = pipeline(text=messages, max_new_tokens=_MAX_NEW_TOKENS, return_full_text=False)
        return str(answer[0]["generated_text"])

    return caption


def caption_shots(
    root: Path,
    captioner: Captioner,
    *,
    split: str = "train",
    progress: Callable[[Sequence[str], str], Iterable[str]] = lambda shots, _: shots,
) -> tuple[Path, int, Skips]:
    """Caption the shots that have pictures and no caption; returns the file, how many are new, and what was skipped.

    The captions are in ROOT/captions/SPLIT.json by the name of the shot's video. Captions that are there are kept.
    """
    source = RealEstate10K(root, split=split)
    path = Path(root) / "captions" / f"{split}.json"
    captions: dict[str, Any] = read_json(path, "captions by name") if path.is_file() else {}
    shots = [shot for shot in source.shots() if source.caption(shot, ()) is None]
    skips, new = Skips(), 0
    for shot in progress(shots, "captioning shots"):
        try:
            middle = source.length(shot) // 2
            picture = source.frames(shot).read([middle], *_SIZE).frames[0]
        except SightlineError as error:
            skips.report(source.name, shot, error)
            continue
        captions[f"{shot}.mp4"] = [" ".join(captioner(Image.fromarray(picture)).split())]
        new += 1
        if new % _SAVE_EVERY == 0:
            write_atomic(path, json.dumps(captions, indent=1) + "\n")
    if new:
        write_atomic(path, json.dumps(captions, indent=1) + "\n")
    return path, new, skips
