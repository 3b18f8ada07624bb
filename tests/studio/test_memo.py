"""A memo makes its value again exactly where an input has changed."""

from __future__ import annotations

import numpy as np
from PIL import Image

from sightline.studio.memo import Memo


def test_equal_plain_values_and_the_same_objects_keep_the_value():
    memo, made, array = Memo(), [], np.zeros(3)

    def make():
        made.append(len(made))
        return made[-1]

    assert memo.get(("a", 1.0, array), make) == 0
    assert memo.get(("a", 1.0, array), make) == 0
    for inputs in (("b", 1.0, array), ("b", 1, array), ("b", 1, array.copy()), ("b", 1, None), ("b", 1)):
        assert memo.get(inputs, make) == made[-1] == len(made) - 1
    assert len(made) == 6


def test_a_new_picture_is_never_mistaken_for_one_that_is_gone():
    """The address of an object that is gone is often that of the next one."""
    memo = Memo()
    for colour in range(20):
        picture = Image.new("L", (1, 1), colour)
        assert memo.get((picture,), lambda picture=picture: picture.getpixel((0, 0))) == colour
        del picture
