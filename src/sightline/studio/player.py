"""The player of one visitor: the preview, the true view and the film of one frame side by side, scrubbed or played together."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, ImageDraw

from sightline.studio.fields import by_visitor, index_in

_MIN_SIDE = 384  # pixels: smaller pictures are shown larger
_GAP = 6
_LABEL, _LETTERS = 17, 13  # heights on a sheet of _MIN_SIDE, since the page shows sheets of any size equally wide


def side_by_side(pictures: dict[str, np.ndarray]) -> np.ndarray:
    """Labelled pictures of one size, two in a row, as large as they need to be to be looked at."""
    height, width = next(iter(pictures.values())).shape[:2]
    scale = max(1, -(-_MIN_SIDE // width))
    width, height = width * scale, height * scale
    columns = min(len(pictures), 2)
    rows = -(-len(pictures) // columns)
    shrunk = columns * width / _MIN_SIDE  # by the page
    label_height = round(_LABEL * shrunk)
    sheet = Image.new("RGB", (columns * (width + _GAP) - _GAP, rows * (height + label_height)), "white")
    draw = ImageDraw.Draw(sheet)
    for number, (label, picture) in enumerate(pictures.items()):
        left, top = number % columns * (width + _GAP), number // columns * (height + label_height)
        sheet.paste(Image.fromarray(picture).resize((width, height), Image.Resampling.BICUBIC), (left, top))
        draw.text((left + 2, top + height + 2), label, fill=(34, 38, 43), font_size=_LETTERS * shrunk)
    return np.asarray(sheet)


class Player:
    """The panel with the picture, the slider and the buttons. show: draws a frame; called under the visitor's lock."""

    def __init__(self, gui: Any, show: Callable[[int], None], frames: int, fps: Callable[[], float]) -> None:
        self.show, self.fps = show, fps
        self.picture = gui.add_image(np.full((_MIN_SIDE + _LABEL, _MIN_SIDE, 3), 255, np.uint8), format="jpeg")
        self.slider = gui.add_slider("Frame", 0, frames - 1, 1, 0)
        self.button = gui.add_button("Play", icon="player-play")
        self._playing = threading.Event()
        self.slider.on_update(by_visitor(lambda _: self._scrubbed()))
        self.button.on_click(lambda _: self.stop() if self._playing.is_set() else self.play())

    @property
    def frame(self) -> int:
        return index_in(self.slider)

    def _scrubbed(self) -> None:
        if self.slider.value != self.frame:
            self.slider.value = self.frame  # what was typed beside the slider is not a frame of the path
        self.show(self.frame)

    def set_frames(self, frames: int) -> None:
        """The length of the path; the frame stays where it is, if the path still has it."""
        if self.slider.max != frames - 1:
            self.slider.value = min(self.frame, frames - 1)
            self.slider.max = frames - 1

    def play(self) -> None:
        """Run through the frames again and again, at the path's speed or as fast as they can be drawn."""
        self._playing.clear()  # ends a thread that plays already
        self._playing = playing = threading.Event()
        playing.set()
        self.button.label, self.button.icon = "Stop", "player-stop"
        threading.Thread(target=self._run, args=(playing,), name="studio player", daemon=True).start()

    def stop(self) -> None:
        self._playing.clear()
        self.button.label, self.button.icon = "Play", "player-play"

    def close(self) -> None:
        """Stop, and send nothing to a page that is closed."""
        self._playing.clear()

    def _run(self, playing: threading.Event) -> None:
        started, first = time.monotonic(), self.frame
        shown = -1
        while playing.is_set():
            count = int(self.slider.max) + 1
            frame = (first + int((time.monotonic() - started) * self.fps())) % count
            if frame != shown:
                shown = frame
                self.slider.value = frame
                self.show(frame)
            time.sleep(0.5 / self.fps())
