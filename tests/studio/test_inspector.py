"""What the weights of a model say without a film: alphas, gates, and M beside the reciprocal form."""

from __future__ import annotations

import json
from types import SimpleNamespace

import numpy as np
import pytest

from sightline.backbones.tiny import tiny_transformer
from sightline.errors import SightlineError
from sightline.studio.inspection_page import form_picture, strengths_picture
from sightline.studio.inspector import LayersView, read_layers
from tests.backbones.test_wan import retrofit
from tests.conftest import wake


def seen_by_the_page(transformer):
    model = SimpleNamespace(pipe=SimpleNamespace(transformer=transformer))
    return LayersView.unpacked(json.loads(json.dumps(read_layers(model).packed())))


def test_a_model_with_scope_shows_the_learned_m_of_each_layer_and_head():
    view = seen_by_the_page(retrofit())
    assert (view.encoding, view.layers, view.heads, view.note) == ("scope", 2, 2, "")
    assert view.matrix.shape[:2] == view.distance.shape == (2, 2) and view.alpha.shape == (2, 2)
    assert (
        np.allclose(view.matrix[..., :6, :6], view.reciprocal, atol=1e-6) and view.distance.max() < 1e-6
    )  # as it starts
    trained = seen_by_the_page(wake(retrofit()))
    assert trained.distance.min() > 1e-3 and not np.array_equal(trained.alpha, view.alpha)
    for layer in range(2):
        assert not np.array_equal(form_picture(trained, layer), form_picture(view, layer))
    assert strengths_picture(trained) is not None


def test_a_model_without_a_camera_is_refused():
    with pytest.raises(SightlineError, match="expected one with camera weights"):
        seen_by_the_page(tiny_transformer())
