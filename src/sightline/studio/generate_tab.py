"""The tab Generate: the settings of a film, what it will cost, and its progress."""

from __future__ import annotations

import base64
import io
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from sightline.errors import SightlineError
from sightline.parsing import parse_size
from sightline.studio.fields import number_in, whole_number_in
from sightline.studio.film_cost import FilmSettings
from sightline.studio.film_job import FilmInputs, film_job, keep_depth
from sightline.studio.film_view import FilmView
from sightline.studio.jobs import FilmJob
from sightline.studio.page_text import sentence, table
from sightline.studio.worker import Event

if TYPE_CHECKING:
    from sightline.studio.visit import Visit

_PROMPT_HINT = "Say in a few words what your picture shows, such as: a quiet kitchen with a wooden table."


class GenerateTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.job: FilmJob | None = None  # the last one that was started here
        self.made_from: FilmInputs | None = None
        self.suggested = ""
        gui, own = visit.gui, visit.session.info.defaults
        self.prompt = gui.add_text("Prompt", "", multiline=True, hint="What the picture shows, in plain words.")
        self.prompt_hint = gui.add_html("")
        self.negative = gui.add_text("Negative prompt", "", hint="What the film should not show.")
        self.name = gui.add_text("Name of the film", "film")
        with gui.add_folder("Settings", expand_by_default=False):
            self.seed = gui.add_number("Seed of the noise", 0, min=0, max=2**31, step=1)
            self.steps = gui.add_number("Steps", own.num_inference_steps, min=1, max=200, step=1)
            self.guidance = gui.add_number("Guidance", own.guidance_scale, min=0.0, max=30.0, step=0.1)
            self.camera = gui.add_number("Camera guidance", 1.0, min=0.0, max=10.0, step=0.1)
            self.frames = gui.add_number(
                "Frames", own.num_frames, min=1, max=1001, step=visit.session.info.stride.frames
            )
            self.size = gui.add_text("Size", f"{own.width}x{own.height}")
        self.cost = gui.add_html("")
        self.start = gui.add_button("Generate the film", icon="movie", color="blue")
        self.stop = gui.add_button("Cancel", icon="x", visible=False)
        self.bar = gui.add_progress_bar(0.0, visible=False)
        self.state = gui.add_html("")
        self.latents = gui.add_image(np.full((8, 8, 3), 255, np.uint8), label="latents", visible=False)
        self.film_view = FilmView(visit)
        visit.on_click(self.start, self.generate)
        visit.on_click(self.stop, self.cancel)
        visit.on_edit(self.prompt, self.show_prompt_hint)
        for handle in (self.frames, self.size):
            visit.on_edit(handle, self.set_size)
        for handle in (self.seed, self.steps, self.guidance, self.camera):
            visit.on_edit(handle, self.show_cost)

    # -- settings -------------------------------------------------------------------------------------------------

    def sampling(self) -> dict[str, Any]:
        """The settings as a job takes them."""
        return {
            "prompt": self.prompt.value.strip(),  # a text field of several lines also takes an Enter
            "negative_prompt": self.negative.value or None,
            "seed": whole_number_in(self.seed),
            "num_inference_steps": whole_number_in(self.steps),
            "guidance_scale": number_in(self.guidance),
            "camera_guidance_scale": number_in(self.camera),
        }

    def suggest_prompt(self) -> None:
        """The caption of the picture, unless the visitor has typed something."""
        caption = self.visit.session.caption
        if self.prompt.value in ("", self.suggested):
            self.prompt.value = caption
        self.suggested = caption
        self.show_prompt_hint()

    def show_prompt_hint(self) -> None:
        """A picture of the visitor has no caption, so the prompt is theirs to write. Another picture has one, which is offered
        where the prompt is that of an earlier picture."""
        typed, caption = self.prompt.value.strip(), self.visit.session.caption
        if caption:
            self.prompt_hint.content = sentence("" if typed == caption else f"What this picture shows: {caption}.")
        else:
            self.prompt_hint.content = sentence("" if typed else _PROMPT_HINT)

    def set_size(self) -> None:
        try:
            self._take_size()
        except SightlineError as error:
            # The fields keep what is typed until something else changes: every letter arrives on its own, so a field that were
            # filled again at "128x12" could not be edited.
            self.cost.content = sentence(str(error), "error")
            return
        self.visit.path_changed(picture=True)

    def _take_size(self) -> None:
        self.visit.session.set_size(whole_number_in(self.frames), *parse_size(self.size.value))

    def fill_size(self) -> None:
        """Show the length and size that are used, unless the fields show them already."""
        session = self.visit.session
        self.frames.value = session.num_frames
        with suppress(SightlineError):
            if parse_size(self.size.value) == (session.width, session.height):
                return
        self.size.value = f"{session.width}x{session.height}"

    def fill(self, name: str, settings: dict[str, Any], owner: str) -> None:
        """Show the name and the settings of a film. owner: whose they are, such as "the closed page"."""
        self.fill_size()
        self.name.value = name
        if self.job is None or self.job.has_ended:
            self.state.content = sentence(f"The settings are those of {owner}.")
        self.prompt.value, self.negative.value = settings["prompt"] or "", settings["negative_prompt"] or ""
        self.seed.value, self.steps.value = settings["seed"], settings["num_inference_steps"]
        self.guidance.value, self.camera.value = settings["guidance_scale"], settings["camera_guidance_scale"]
        self.show_prompt_hint()
        self.show_cost()

    def show_cost(self) -> None:
        """What the film will cost, as far as it is known."""
        session, costs = self.visit.session, self.visit.studio.costs
        try:
            whole_number_in(self.seed)  # it costs nothing, but a bad one is told here too
            guidance, camera = number_in(self.guidance) > 1.0, number_in(self.camera) != 1.0
            settings = FilmSettings(
                session.num_frames, session.width, session.height, whole_number_in(self.steps), guidance, camera
            )
        except SightlineError as error:
            self.cost.content = sentence(str(error), "error")
            return
        self.cost.content = table([("memory", costs.memory(settings)), ("time", costs.time(settings))])

    # -- the film -------------------------------------------------------------------------------------------------

    def generate(self) -> None:
        if self.job is not None and not self.job.has_ended:
            raise SightlineError("a film is being generated: expected it to end, or to be cancelled.")
        session, library, sampling = self.visit.session, self.visit.studio.library, self.sampling()
        before = session.num_frames, session.width, session.height
        try:
            self._take_size()  # refuses a length or size that is shown but could not be used
        except SightlineError:
            self.fill_size()
            raise
        if before != (session.num_frames, session.width, session.height):
            self.visit.path_changed(picture=True)
        self.job = self.visit.studio.jobs.start(
            self.name.value,
            lambda folder: film_job(session, library, folder, **sampling),
            self.visit.on_event(self.show_progress),
            depth=keep_depth(session, library),
        )
        self.made_from = FilmInputs.of(session)
        self.film_view.clear()

    def show_others(self) -> None:
        """On a page that has not started a film, or that was opened again: which films are on their way."""
        if self.job is None:
            names = [job.name for job in self.visit.studio.jobs.active()]
            self.state.content = sentence(f"Being generated: {', '.join(names)} (see Gallery)." if names else "")

    def cancel(self) -> None:
        if self.job is not None and not self.job.has_ended:
            self.visit.studio.jobs.cancel(self.job.name)
            self.state.content = sentence("Cancelling after this step ...")

    def show_progress(self, event: Event) -> None:
        """An event of the film that was started here."""
        job, kind = self.job, event["event"]
        if job is None:
            return
        is_running = kind in ("queued", "progress")
        self.bar.visible = is_running
        self.stop.visible = job.can_be_cancelled
        self.start.disabled = is_running
        self.latents.visible = is_running and bool(event.get("picture"))
        if kind == "done":
            self._show_result(event["result"])
            return
        self.bar.value = 100.0 * job.fraction
        words = event["sentence"] if kind == "failed" else f"{job.name}: {job.state}{' ...' if is_running else '.'}"
        self.state.content = sentence(words, "error" if kind == "failed" else "note")
        if picture := event.get("picture"):
            content = base64.b64decode(picture.split(",", 1)[1])
            self.latents.image = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    def _show_result(self, result: dict[str, Any]) -> None:
        psnr = result.get("psnr", {}).get("mean")
        true = "" if psnr is None else f" PSNR to the true view: {psnr:.1f} dB."
        self.state.content = sentence(f"{result['name']} took {result['seconds']:.0f} s.{true}", "good")
        film = self.visit.studio.library.film(result["name"])
        if self.made_from is not None and self.made_from.is_same(FilmInputs.of(self.visit.session)):
            self.visit.show_film(film)
        self.film_view.show(film)
        self.visit.gallery.choose(film.name)
        self.visit.inspect.suggest(film.name)
