"""The keyframes of the tab Shoot: choose a key, drag it, set its lens, seconds and easing, insert, delete, undo, redo."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import torch
from torch import Tensor

from sightline.cameras import se3
from sightline.cameras.moves import Easing
from sightline.errors import SightlineError
from sightline.studio.fields import index_in, number_in, vector_in
from sightline.studio.keyframes import Key, Keyframes, keys_along
from sightline.studio.page_text import counted, sentence

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_FAR = 1000.0  # units: what can be typed as the position of a key


class KeysFolder:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.chosen = 0
        self.dragged: Keyframes | None = None  # what the gizmo shows while it is held
        gui = visit.gui
        self.start = gui.add_button("Make keys from the path", icon="route")
        self.insert = gui.add_button("Insert a key from this view", icon="plus", hint=(
            "Turn the 3D view until it shows what the camera should see; the key comes after the chosen one."))  # fmt: skip
        self.actions = gui.add_button_group("Edit", ("Delete", "Undo", "Redo"))
        self.key = gui.add_slider("Key", 0, 1, 1, 0, hint="The key that is edited. A key can also be clicked.")
        self.place = gui.add_vector3(
            "Position", (0.0, 0.0, 0.0), min=(-_FAR,) * 3, max=(_FAR,) * 3, step=0.01, hint="Right, down, forward"
        )
        self.lens = gui.add_number("Key lens (mm)", 28.0, min=8.0, max=400.0, step=0.5)
        self.seconds = gui.add_number("Seconds to next", 1.0, min=0.05, max=60.0, step=0.05)
        self.easing = gui.add_dropdown("Easing to next", get_args(Easing))
        self.loop = gui.add_checkbox(
            "Loop", False, hint="Return to the picture's camera over the seconds of the last key."
        )
        self.fit = gui.add_button("Fit the film to the seconds", visible=False)
        self.note = gui.add_html("")
        visit.on_click(self.start, lambda: self.use(keys_along(visit.session.trajectory), 1))
        visit.on_click(self.insert, self.insert_view)
        visit.on_click(self.actions, lambda: self.act(self.actions.value))
        visit.on_edit(self.key, lambda: self.choose(index_in(self.key)))
        for handle in (self.place, self.lens, self.seconds, self.easing):
            visit.on_edit(handle, self.change)
        visit.on_edit(self.loop, self.set_loop)
        visit.on_click(self.fit, self.fit_film)

    @property
    def keyframes(self) -> Keyframes:
        """What is edited: where the path is not made of keys, the picture's camera alone."""
        session = self.visit.session
        return session.history.current if session.mode == "keys" else session.first_keys()

    def use(self, keyframes: Keyframes, chosen: int) -> None:
        """Make these the path."""
        self.visit.session.set_keys(keyframes)
        self.visit.shoot.lens.value = self.visit.session.focal_mm
        self.chosen = min(chosen, len(keyframes) - 1)
        self.visit.path_changed()

    def insert_view(self) -> None:
        """A key where the visitor's own view is, after the chosen one."""
        keyframes = self.keyframes
        chosen = min(self.chosen, len(keyframes) - 1)
        before = keyframes.keys[chosen]
        key = Key(_pose(self.visit.client.camera), before.focal_mm, before.seconds, before.easing)
        self.use(keyframes.insert(chosen + 1, key), chosen + 1)
        self.visit.view.step_back(key.camera_to_world)  # from within, the key would cover everything

    def act(self, word: str) -> None:
        session = self.visit.session
        if word == "Delete":
            if session.mode != "keys":
                raise SightlineError(
                    "the path is not made of keys: expected a key to delete; Undo brings the keys back."
                )
            if self.chosen == 0:
                raise SightlineError("key 0 is the camera of the picture: expected another key to delete.")
            self.use(self.keyframes.delete(self.chosen), self.chosen)
            return
        if (session.undo if word == "Undo" else session.redo)():
            self.chosen = min(self.chosen, len(self.keyframes) - 1)
            self.visit.shoot.lens.value = session.focal_mm
            self.visit.path_changed()

    def choose(self, number: int) -> None:
        self.chosen = min(number, len(self.keyframes) - 1)
        self.draw()

    def change(self) -> None:
        """What is typed into the fields of the chosen key."""
        if self.visit.session.mode != "keys":
            return
        try:
            changes: dict[str, Any] = {"seconds": number_in(self.seconds), "easing": self.easing.value}
            if self.chosen > 0:
                pose, typed = self.keyframes.keys[self.chosen].camera_to_world.clone(), vector_in(self.place)
                if typed != _shown_place(pose):  # the field shows fewer digits than a key has
                    pose[:3, 3] = torch.tensor(typed, dtype=torch.float64)
                changes |= {"camera_to_world": pose, "focal_mm": number_in(self.lens)}
            self.use(self.keyframes.change(self.chosen, **changes), self.chosen)
        except SightlineError as error:
            self.visit.refuse([self.key, self.place, self.lens, self.seconds, self.easing], error, self.draw)

    def set_loop(self) -> None:
        self.use(Keyframes(self.keyframes.keys, bool(self.loop.value)), self.chosen)

    def fit_film(self) -> None:
        """As many frames as the seconds of the keys ask for."""
        session = self.visit.session
        frames = session.info.stride.nearest_num_frames(round(self.keyframes.seconds * session.trajectory.fps) + 1)
        session.set_size(max(frames, 1 + session.info.stride.frames), session.width, session.height)
        self.visit.generate.fill_size()
        self.visit.path_changed()

    def moved(self, event: Any) -> None:
        """The gizmo is dragged: the path follows; the change is kept, as one step of the history, when it is let go."""
        session = self.visit.session
        changed = self.keyframes.change(self.chosen, camera_to_world=_pose(event.target))
        if event.phase == "end":
            self.use(changed, self.chosen)
        else:
            self.visit.view.draw_path(changed.trajectory(session.num_frames, session.width, session.height), False)

    def draw(self) -> None:
        """The keys in the 3D view, and the fields of the chosen one."""
        session, view = self.visit.session, self.visit.view
        is_used = session.mode == "keys"
        self.actions.visible = is_used or session.history.has_path  # Undo brings back keys that a move has replaced
        for handle in (self.key, self.place, self.lens, self.seconds, self.easing, self.loop):
            handle.visible = is_used
        self.fit.visible = False
        if not is_used:
            view.draw_keys(None, 1.0, 0, self.choose)
            view.draw_gizmo(None, lambda _: None)
            self.note.content = ""
            return
        keys = self.keyframes.keys
        self.chosen = min(self.chosen, len(keys) - 1)
        key = keys[self.chosen]
        aspect = session.width / session.height
        view.draw_keys(self.keyframes, aspect, self.chosen, self.visit.guarded(self.choose))
        view.draw_gizmo(key.camera_to_world if self.chosen else None, self.visit.guarded(self.moved))
        self.key.max = max(len(keys) - 1, 1)
        self.key.value = self.chosen
        self.place.value = tuple(_shown_place(key.camera_to_world))
        self.lens.value, self.seconds.value, self.easing.value = key.focal_mm, key.seconds, key.easing
        self.loop.value = self.keyframes.loop
        self.place.disabled = self.lens.disabled = self.chosen == 0
        self._show_note(len(keys))

    def _show_note(self, count: int) -> None:
        session = self.visit.session
        length = (session.num_frames - 1) / session.trajectory.fps
        stretched = abs(self.keyframes.seconds - length) > 0.5 / session.trajectory.fps
        self.fit.visible = stretched and count > 1
        note = f"{counted(count, 'key')}. Key 0 is the camera of the picture."
        if stretched and count > 1:
            note += (
                f" The transitions take {self.keyframes.seconds:.2f} s and are stretched to the film's {length:.2f} s."
            )
        self.note.content = sentence(note)


def _shown_place(pose: Tensor) -> list[float]:  # [4, 4]
    """The position of a key, as its field shows it."""
    return [round(float(value), 4) for value in pose[:3, 3]]


def _pose(placed: Any) -> Tensor:  # -> [4, 4]
    """Where the visitor's view or a handle of the 3D view is."""
    rotation = se3.quaternion_to_rotation(torch.tensor(np.array(placed.wxyz), dtype=torch.float64))
    return se3.from_parts(rotation, torch.tensor(np.array(placed.position), dtype=torch.float64))
