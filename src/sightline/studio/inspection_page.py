"""The inspection as pictures: a strip of maps for each term, a figure to keep, and one static HTML page of everything."""

from __future__ import annotations

import base64
import html
import io
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image, ImageDraw

from sightline.files import write_atomic
from sightline.studio.inspector import LayersView, TokenView

_CELL = 112  # pixels of a frame in a strip
_GAP = 4
_MAX_COLUMNS = 9  # frames in a row: more would be too small to be read beside the 3D view
_FINER = 4  # times as fine as a strip, for a line to be drawn with smooth edges
_LINE, _HALO, _MARK = (17, 20, 24, 255), (255, 255, 255, 190), (209, 96, 61)


def strips(view: TokenView) -> dict[str, np.ndarray]:
    """A picture [h, w, 3] of each term over all latent frames, row by row, with the epipolar lines on top.

    The first one shows the frames themselves, with a ring around the token.
    """
    found = {"frames": _strip(list(view.pictures), view)}
    for name, values in {**view.terms, "attention": view.attention}.items():
        largest = float(np.abs(values).max()) or 1.0
        signed = name != "attention"
        colours = _colours(values / largest / 2 + 0.5, "RdBu_r") if signed else _colours(values / largest, "viridis")
        found[name] = _strip(list(colours), view)
    return found


def _colours(values: np.ndarray, name: str) -> np.ndarray:  # [t, rows, columns] in 0..1 -> [..., 3] uint8
    import matplotlib

    return (matplotlib.colormaps[name](values)[..., :3] * 255).round().astype(np.uint8)


def _strip(cells: list[np.ndarray], view: TokenView) -> np.ndarray:
    height, width = view.pictures.shape[1:3]
    down = max(1, round(_CELL * height / width))
    rows = -(-len(cells) // _MAX_COLUMNS)
    columns = -(-len(cells) // rows)  # rows of nearly the same length
    strip = Image.new("RGB", (columns * (_CELL + _GAP) - _GAP, rows * (down + _GAP) - _GAP), "white")
    draw = ImageDraw.Draw(strip)
    for frame, cell in enumerate(cells):
        left, top = frame % columns * (_CELL + _GAP), frame // columns * (down + _GAP)
        nearest = Image.Resampling.NEAREST if cell.shape[1] < width else Image.Resampling.LANCZOS
        strip.paste(Image.fromarray(cell).resize((_CELL, down), nearest), (left, top))
        if frame == view.query[0]:
            x, y = left + view.query[1] * _CELL, top + view.query[2] * down
            draw.ellipse([x - 8, y - 8, x + 8, y + 8], outline="white", width=2)  # to be seen on any picture
            draw.ellipse([x - 6, y - 6, x + 6, y + 6], outline=_MARK, width=3)
            continue
        overlay = _lines(view.lines[frame] * (_CELL / width), _CELL, down)
        strip.paste(overlay, (left, top), overlay)
    return np.asarray(strip)


def _lines(line: np.ndarray, width: int, height: int) -> Image.Image:
    """An epipolar line on a transparent picture, so that it does not run into its neighbours."""
    overlay = Image.new("RGBA", (_FINER * width, _FINER * height), (0, 0, 0, 0))
    draw = ImageDraw.Draw(overlay)
    if len(line) and np.ptp(line, axis=0).max() < 1:  # a camera that only turned sees the ray as a point
        x, y = _FINER * line[0]
        for colour, radius in ((_HALO, 3.5 * _FINER), (_LINE, 2.5 * _FINER)):
            draw.ellipse([x - radius, y - radius, x + radius, y + radius], fill=colour)
    elif len(line):
        for colour, thickness in ((_HALO, 5), (_LINE, 2)):  # to be seen on dark and on light maps
            draw.line([tuple(_FINER * point) for point in line], fill=colour, width=_FINER * thickness)
    return overlay.resize((width, height), Image.Resampling.BOX)


def write_figure(view: TokenView, path: Path, title: str) -> None:
    """The view of one token as a figure: .png, .svg or .pdf."""
    from sightline.figures import draw_score_terms

    terms = {**view.terms, "attention": view.attention}
    draw_score_terms(view.pictures, terms, view.query, path, title, lines=view.lines)


def strengths_picture(layers: LayersView) -> np.ndarray | None:
    """A picture [h, w, 3] of the alphas and gates of all layers; None for an encoding without them."""
    from sightline.figures import draw_layer_strengths

    if layers.alpha is None:
        return None
    alpha, title = layers.alpha, f"{layers.encoding}: alpha and gate of each layer"
    return _drawn(lambda file: draw_layer_strengths(alpha, layers.magnitudes, layers.gate, file, title))


def form_picture(layers: LayersView, layer: int) -> np.ndarray | None:
    """A picture [h, w, 3] of M of each head of a layer; None for an encoding without it."""
    from sightline.figures import draw_layer_form

    if layers.matrix is None or layers.reciprocal is None or layers.scale is None or layers.distance is None:
        return None
    parts = (layers.matrix[layer], layers.reciprocal, layers.scale[layer], layers.distance[layer])
    title = f"layer {layer}: M of each head, and its distance from the reciprocal form"
    return _drawn(lambda file: draw_layer_form(*parts, file, title))


def _drawn(draw: Callable[[Path], object]) -> np.ndarray:
    with tempfile.TemporaryDirectory(prefix="sightline-inspect-") as folder:
        file = Path(folder) / "figure.png"
        draw(file)
        return np.asarray(Image.open(file).convert("RGB"))


def write_page(path: Path, title: str, view: TokenView, layers: LayersView) -> None:
    """One HTML file with every picture inside it: the terms of the token, and what each layer has learned."""
    parts = [f"<h1>{html.escape(title)}</h1>", "<h2>Score terms of one token</h2>"]
    words = "The ring marks the token. The line is its epipolar line: whatever the token shows lies on it."
    parts.append(f"<p>{words}</p>")
    parts += [_figure(name, picture) for name, picture in strips(view).items()]
    parts.append("<h2>What the layers have learned</h2>")
    parts += [f"<p>{html.escape(layers.note)}</p>"] if layers.note else []
    pictures = [("alpha and gate", strengths_picture(layers))]
    pictures += [(f"M of layer {layer}", form_picture(layers, layer)) for layer in range(layers.layers)]
    parts += [_figure(name, picture) for name, picture in pictures if picture is not None]
    style = (
        "body{font:14px sans-serif;color:#22262b;max-width:75em;margin:2em auto}img{max-width:100%}figure{margin:1em 0}"
    )
    head = f'<meta charset="utf-8"><title>{html.escape(title)}</title><style>{style}</style>'
    write_atomic(path, f"<!doctype html><html><head>{head}</head><body>{''.join(parts)}</body></html>\n")


def _figure(name: str, picture: np.ndarray) -> str:
    buffer = io.BytesIO()
    Image.fromarray(picture).save(buffer, "PNG", optimize=True)
    address = f"data:image/png;base64,{base64.b64encode(buffer.getvalue()).decode()}"
    return (
        f'<figure><figcaption>{html.escape(name)}</figcaption><img src="{address}" alt="{html.escape(name)}"></figure>'
    )
