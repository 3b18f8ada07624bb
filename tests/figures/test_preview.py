"""The preview: a contact sheet and a video beside a map."""

from __future__ import annotations

import av
import pytest
import torch
from PIL import Image

from sightline.errors import SightlineError
from sightline.figures.panels import map_window
from sightline.figures.preview import write_world_preview


@pytest.mark.parametrize("style", ["walkthrough", "openworld"])
def test_a_preview_is_a_sheet_and_a_video(style, tmp_path):
    sheet, video = write_world_preview(style, 3, tmp_path / "new", clips=2, num_frames=5, size=(48, 32))
    with Image.open(sheet) as picture:
        assert picture.width > 5 * 48 and picture.height > 2 * 32
    with av.open(str(video)) as container:
        frames = list(container.decode(video=0))
    assert len(frames) == 10
    assert frames[0].height >= 256 and frames[0].width > frames[0].height


def test_bad_arguments_of_a_preview_are_one_sentence(tmp_path):
    with pytest.raises(SightlineError, match="clips is 0"):
        write_world_preview("orbit", 0, tmp_path, clips=0)
    with pytest.raises(SightlineError, match="style is 'x'"):
        write_world_preview("x", 0, tmp_path)


def test_the_map_of_an_open_world_is_zoomed_to_the_way_and_that_of_a_room_shows_it_all():
    way = torch.tensor([[0.0, 1.0], [0.5, 3.0]])
    middle, reach = map_window(torch.tensor([-200.0, -200.0]), torch.tensor([200.0, 200.0]), way)
    assert middle.tolist() == [0.25, 2.0] and reach == 4.0
    assert map_window(torch.tensor([-200.0, -200.0]), torch.tensor([200.0, 200.0]), way[:1])[1] == 2.0
    assert map_window(torch.tensor([-2.0, -3.0]), torch.tensor([2.0, 3.0]), way)[1] > 3.0
