"""Pieces of HTML for the page. Everything that comes from a visitor, a file or a model is escaped here."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sightline.cameras.lens import FULL_FRAME_MM
from sightline.cameras.statistics import trajectory_statistics
from sightline.cameras.trajectory import Trajectory

_BOX = "margin:0.3em 0.6em;font-size:0.85em;line-height:1.35;overflow-wrap:anywhere"
_COLOURS = {"note": "#5c6470", "warning": "#9a5b00", "error": "#b3261e", "good": "#2b7a4b"}


# Arguments of the package, as errors name them, and what the page calls them.
_LABELS = {
    "focal_mm": "Lens (mm)",
    "from_mm": "the first lens",
    "to_mm": "the last lens",
    "target_depth": "Distance",
    "num_frames": "Frames",
    "num_inference_steps": "Steps",
    "guidance_scale": "Guidance",
    "camera_guidance_scale": "Camera guidance",
    "camera_to_world": "the camera",
}
_ARGUMENT = re.compile(rf"(?<![\w-])({'|'.join(_LABELS)})\b(?!\[)")  # camera_to_world[3] is a place in a file
# Elsewhere these are plain words, and "distance is 2, but the subject ..." is that of a move.
_SUBJECT = re.compile(r"^(frames|size|depth|easing|format|style|seed|distance)(?= is [^,]*:)")


def page_words(error: str) -> str:
    """The sentence of an error, with the arguments of the package called as the page calls them."""
    words = _ARGUMENT.sub(lambda match: _LABELS[match[1]], _SUBJECT.sub(lambda match: match[1].capitalize(), error))
    return words if words[:1] == error[:1] else words[0].upper() + words[1:]


def counted(number: int, thing: str) -> str:
    """1 file, 2 files."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def sentence(text: str, kind: str = "note") -> str:
    """One sentence in the colour of its kind; nothing for no text."""
    text = page_words(text) if kind == "error" else text
    return (
        f'<div class="sightline-{kind}" style="{_BOX};color:{_COLOURS[kind]}">{html.escape(text)}</div>' if text else ""
    )


def sentences(texts: Iterable[str], kind: str = "note") -> str:
    return "".join(sentence(text, kind) for text in texts)


def table(rows: Sequence[tuple[str, str]]) -> str:
    """Names and values."""
    name_style = "color:#7b828c;padding-right:1em;white-space:nowrap;vertical-align:top"
    cells = "".join(
        f'<tr><td style="{name_style}">{html.escape(name)}</td><td>{html.escape(value)}</td></tr>'
        for name, value in rows
    )
    return f'<table style="{_BOX}">{cells}</table>'


def path_table(trajectory: Trajectory, frame: int) -> str:
    """Distance, rotation and lens of the whole path, and of one frame."""
    whole = trajectory_statistics(trajectory, (2, 2))
    unit = unit_name(trajectory.unit)
    x, y, z = (float(value) for value in trajectory.anchored().positions[frame])
    focal = float(trajectory.intrinsics[frame, 0, 0]) * FULL_FRAME_MM / trajectory.width
    lens = " to ".join(dict.fromkeys(f"{mm:.1f}" for mm in whole.focal_mm))
    rows = [
        ("path", f"{whole.path_length:,.2f} {unit} long, at most {whole.extent:,.2f} from its start"),
        ("rotation", f"{whole.total_turn:.1f} degrees in all, {whole.net_turn:.1f} from first to last"),
        ("lens", f"{lens} mm"),
        (
            "film",
            f"{counted(len(trajectory), 'frame')} of {trajectory.width}x{trajectory.height}, {whole.seconds:.2f} s",
        ),
        (f"frame {frame}", f"{_place(x, y, z)} {unit}; {focal:.1f} mm"),
    ]
    return table(rows)


def _place(x: float, y: float, z: float) -> str:
    """Where a camera is, seen from the first one, without minus signs."""
    words = (("left", "right"), ("up", "down"), ("back", "forward"))
    parts = []
    for value, (negative, positive) in zip((x, y, z), words, strict=True):
        parts.append(
            f"{negative if value < -0.005 else positive} {abs(value):,.2f}"
        )  # what is rounded to 0 has no side
    return ", ".join(parts)


def unit_name(unit: str) -> str:
    """The unit of a trajectory, after a number."""
    return {"scene": "units", "metre": "m"}.get(unit, unit)


def videos(films: Sequence[tuple[str, Path]]) -> str:
    """Videos side by side, each with its name; they start together and repeat."""
    cells = []
    for name, file in films:
        address = f"data:video/mp4;base64,{base64.b64encode(file.read_bytes()).decode()}"
        cells.append(
            f'<figure style="margin:0.3em;flex:1 1 0"><video src="{address}" autoplay loop muted playsinline controls '
            f'style="width:100%;image-rendering:auto"></video><figcaption style="font-size:0.8em;color:#5c6470;'
            f'overflow-wrap:anywhere">{html.escape(name)}</figcaption></figure>'
        )
    return f'<div style="display:flex;align-items:flex-start">{"".join(cells)}</div>'


def drop_area(accept: str) -> str:
    """A sentence, and what lets a file be dropped anywhere on the page: it goes to the upload button of this type.

    viser's upload buttons know no drop, and its pages run no scripts of ours; but a picture tells when it is loaded.
    """
    pixel = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEKAAEALAAAAAABAAEAAAICTAEAOw=="
    script = (
        "window.ondragover = event => event.preventDefault();"
        "window.ondrop = event => {"
        " event.preventDefault();"
        f" const input = document.querySelector('input[type=file][accept=&quot;{accept}&quot;]');"
        " if (!input || !event.dataTransfer.files.length) return;"
        " input.files = event.dataTransfer.files;"
        " input.dispatchEvent(new Event('change', {bubbles: true}));"
        "}"
    )
    return sentence("Or drop one anywhere on the page.") + f'<img hidden alt="" src="{pixel}" onload="{script}">'


def code(title: str, text: str) -> str:
    """Code with a button that copies it. The button reads the text from the page, so nothing of it is run.

    A page from another host without TLS has no clipboard: there the text is copied from a field that is not seen.
    """
    copy = (
        "const text = this.parentElement.nextElementSibling.textContent;"
        "if (navigator.clipboard) navigator.clipboard.writeText(text);"
        "else {"
        " const field = document.createElement('textarea');"
        " field.value = text; field.style.position = 'fixed'; field.style.opacity = 0;"
        " document.body.append(field); field.select(); document.execCommand('copy'); field.remove();"
        "}"
    )
    button = f'<button style="float:right;font-size:0.9em" onclick="{copy}">Copy</button>'
    return (
        f'<div style="{_BOX}"><div><b>{html.escape(title)}</b>{button}</div><pre style="white-space:pre-wrap;background:#f4f5f7;'
        f'color:#22262b;padding:0.6em;border-radius:4px;font-size:0.9em">{html.escape(text)}</pre></div>'
    )
