"""Pictures of an inspection: strips with lines on top, a figure, and a page that needs nothing else."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from sightline.studio.inspection_page import form_picture, strengths_picture, strips, write_figure, write_page
from sightline.studio.inspector import LayersView, TokenView


@pytest.fixture
def token():
    random = np.random.default_rng(0)
    maps = random.normal(size=(5, 3, 4, 4)).astype(np.float32)
    names = ("A content", "B content to ray", "C ray to content", "D ray to ray", "sum")
    lines = [np.array([[0.0, 16.0], [32.0, 16.0]]), np.array([[5.0, 5.0], [5.0, 5.0]]), np.zeros((0, 2))]
    pictures = np.full((3, 32, 32, 3), 200, np.uint8)
    attention = np.full((3, 4, 4), 1 / 48, np.float32)
    return TokenView(dict(zip(names, maps, strict=True)), attention, pictures, lines, (2, 0.5, 0.5))


def layers(**changes):
    random = np.random.default_rng(1)
    fields = {
        "from_sigma": 0.0, "encoding": "scope", "layers": 2, "heads": 3, "alpha": random.normal(size=(2, 2)),
        "magnitudes": [0.1, 1.0], "gate": random.random((2, 2)), "matrix": random.normal(size=(2, 3, 7, 7)),
        "scale": random.normal(size=(2, 3)), "distance": random.random((2, 3)), "reciprocal": np.eye(6), "note": "",
    }  # fmt: skip
    return LayersView(**{**fields, **changes})


def test_views_survive_the_way_through_json(token):
    import json

    back = TokenView.unpacked(json.loads(json.dumps(token.packed())))
    assert np.array_equal(back.terms["sum"], token.terms["sum"]) and list(back.terms) == list(token.terms)
    assert [line.shape for line in back.lines] == [(2, 2), (2, 2), (0, 2)] and tuple(back.query) == token.query
    assert LayersView.unpacked(json.loads(json.dumps(layers(gate=None).packed()))).gate is None


def test_a_strip_has_a_cell_for_each_frame_with_the_line_and_the_ring(token):
    found = strips(token)
    assert list(found) == ["frames", *token.terms, "attention"]
    frames = found["frames"]
    cell = frames.shape[0]
    assert frames.shape[1] == 3 * cell + 8
    assert frames[cell // 2, cell // 2].tolist() == [17, 20, 24]  # the line runs through the middle of the first cell
    assert frames[cell // 4, cell // 2].tolist() == [200, 200, 200]
    last = frames[:, 2 * (cell + 4) :]
    assert (last == (209, 96, 61)).all(-1).any() and not (last == (17, 20, 24)).all(-1).any()


def test_a_slanting_line_has_smooth_edges(token):
    slanting = replace(token, lines=[np.array([[0.0, 10.0], [32.0, 14.0]]), *token.lines[1:]])
    cell = strips(slanting)["frames"][:, :112]
    assert (cell[:, 1:-1] == (17, 20, 24)).all(-1).any(0).all()  # unbroken
    assert len(np.unique(cell.reshape(-1, 3), axis=0)) > 10  # shades between the line, its halo and the picture


def test_a_long_film_has_several_rows_that_can_be_read(token):
    many = 21  # latent frames of 81
    long = replace(
        token,
        terms={name: np.resize(values, (many, 4, 4)) for name, values in token.terms.items()},
        attention=np.resize(token.attention, (many, 4, 4)),
        pictures=np.full((many, 32, 32, 3), 200, np.uint8),
        lines=[np.zeros((0, 2))] * many,
        query=(20, 0.5, 0.5),
    )
    for picture in strips(long).values():
        assert picture.shape[:2] == (3 * 112 + 2 * 4, 7 * 112 + 6 * 4)
    rings = np.argwhere((strips(long)["frames"] == (209, 96, 61)).all(-1))
    assert (rings > (232, 696)).all()  # in the last cell


def test_a_figure_and_a_page_are_written(token, tmp_path):
    write_figure(token, tmp_path / "scores.png", "a title")
    assert Image.open(tmp_path / "scores.png").width > 400
    write_page(tmp_path / "page.html", "<script>alert(1)</script>", token, layers())
    page = (tmp_path / "page.html").read_text()
    assert page.count("<img") == 7 + 1 + 2 and "<script" not in page  # seven strips, the alphas, and M of two layers
    assert not re.findall(r"(?:src|href)=\"(?!data:)", page)


def test_what_an_encoding_does_not_have_is_left_out():
    assert strengths_picture(layers()).shape[2] == form_picture(layers(), 1).shape[2] == 3
    assert strengths_picture(layers(gate=None)) is not None
    assert strengths_picture(layers(alpha=None)) is None and form_picture(layers(matrix=None), 0) is None


def test_the_title_above_few_heads_is_whole():
    one = layers(heads=1, matrix=np.zeros((12, 1, 7, 7)), scale=np.zeros((12, 1)), distance=np.zeros((12, 1)))
    assert (form_picture(one, 11)[:, -6:] == 255).all()  # it ends before the right edge
