"""Inspect how a model uses rays: the bilinear form of each head, and the four terms of its attention scores."""

from __future__ import annotations

from pathlib import Path

import torch
import tyro
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

import sightline as sl
from sightline.backbones.tiny import tiny_transformer


def main(output: Path = Path("outputs/reading")) -> None:
    torch.manual_seed(0)
    model = sl.CameraWanTransformer3DModel.from_transformer(tiny_transformer("ti2v-5b"), sl.Scope(alpha=1.0))
    form = sl.inspect.ray_form(model)
    print(f"distance from the reciprocal form, layers x heads:\n{form.distance}")  # 0, since nothing is trained yet

    # The query is one token in the middle of the last frame; the terms are shown over the tokens of the frame before.
    rows, columns = 12, 16
    trajectory = sl.moves.orbit(degrees=40, frames=9, width=256, height=192)
    camera_tokens = sl.CameraTokens.from_trajectory(trajectory, grid=(3, rows, columns))
    token = (2 * rows + rows // 2) * columns + columns // 2
    terms = sl.inspect.score_terms(
        model,
        [token],
        layer=0,
        hidden_states=torch.randn(1, 48, 3, 2 * rows, 2 * columns),
        timestep=torch.tensor([500.0]),
        encoder_hidden_states=torch.randn(1, 7, 32),
        attention_kwargs={"camera": camera_tokens},
    )
    named = {
        "A content": terms.content,
        "B content to ray": terms.content_to_ray,
        "C ray to content": terms.ray_to_content,
        "D ray to ray": terms.ray_to_ray,
    }
    figure = Figure(figsize=(12, 2.6), layout="constrained")
    FigureCanvasAgg(figure)
    for axis, (title, term) in zip(figure.subplots(1, 4), named.items(), strict=True):
        over_frame_1 = term[0, 0, 0].unflatten(0, (3, rows, columns))[1]
        axis.imshow(over_frame_1, cmap="RdBu_r")
        axis.set_title(title)
        axis.set_axis_off()
    output.mkdir(parents=True, exist_ok=True)
    figure.savefig(output / "score_terms.png", dpi=120)
    print(f"wrote {output / 'score_terms.png'}")


if __name__ == "__main__":
    tyro.cli(main)
