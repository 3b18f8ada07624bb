"""The tab Generate: the settings of a film, what it will cost, its progress, and how to make it again."""

from __future__ import annotations

import base64
import io
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from sightline.errors import SightlineError
from sightline.parsing import parse_size
from sightline.studio.command import python_code, shell_line
from sightline.studio.inspector import pack
from sightline.studio.library import Film
from sightline.studio.page_text import code, sentence, table, videos
from sightline.studio.worker import ENDS, Event, Ticket

if TYPE_CHECKING:
    from sightline.studio.visit import Visit


class GenerateTab:
    def __init__(self, visit: Visit) -> None:
        self.visit = visit
        self.ticket: Ticket | None = None
        self.suggested = ""
        gui, own = visit.gui, visit.session.info.defaults
        self.prompt = gui.add_text("Prompt", "", multiline=True)
        self.negative = gui.add_text("Negative prompt", "")
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
        self.stop = gui.add_button(
            "Cancel", icon="x", visible=False, hint="Closing or reloading the page cancels the film too."
        )
        self.bar = gui.add_progress_bar(0.0, visible=False)
        self.state = gui.add_html("")
        self.latents = gui.add_image(np.full((8, 8, 3), 255, np.uint8), label="latents", visible=False)
        self.result = gui.add_html("")
        self.measure = gui.add_button("Estimate the path of the film", icon="ruler-measure", visible=False)
        self.errors = gui.add_html("")
        self.commands = gui.add_html("")
        guarded = visit.guarded
        self.start.on_click(guarded(lambda _: self.generate()))
        self.stop.on_click(guarded(lambda _: self.cancel()))
        self.measure.on_click(guarded(lambda _: self.estimate()))
        for handle in (self.frames, self.size):
            handle.on_update(lambda event: None if event.client is None else guarded(lambda: self.set_size())())
        for handle in (self.steps, self.camera):
            handle.on_update(guarded(lambda _: self.show_estimate()))

    # -- settings -------------------------------------------------------------------------------------------------

    def sampling(self) -> dict[str, Any]:
        """The settings as a job takes them."""
        return {
            "prompt": self.prompt.value,
            "negative_prompt": self.negative.value or None,
            "seed": int(self.seed.value),
            "num_inference_steps": int(self.steps.value),
            "guidance_scale": float(self.guidance.value),
            "camera_guidance_scale": float(self.camera.value),
        }

    def suggest_prompt(self) -> None:
        """The caption of the picture, unless the visitor has typed something."""
        caption = self.visit.session.caption
        if self.prompt.value in ("", self.suggested):
            self.prompt.value = caption
        self.suggested = caption

    def set_size(self) -> None:
        session = self.visit.session
        try:
            session.set_size(int(self.frames.value), *parse_size(self.size.value))
        except SightlineError as error:
            self.cost.content = sentence(str(error), "error")
            return
        self.visit.path_changed(picture=True)

    def fill_size(self) -> None:
        session = self.visit.session
        self.frames.value, self.size.value = session.num_frames, f"{session.width}x{session.height}"

    def fill(self, settings: dict[str, Any]) -> None:
        """Show the settings of a film that was reopened."""
        self.fill_size()
        self.prompt.value, self.negative.value = settings["prompt"] or "", settings["negative_prompt"] or ""
        self.seed.value, self.steps.value = settings["seed"], settings["num_inference_steps"]
        self.guidance.value, self.camera.value = settings["guidance_scale"], settings["camera_guidance_scale"]

    def show_estimate(self) -> None:
        """What the film will cost, as far as it is known."""
        session = self.visit.session
        shape = (session.num_frames, session.width, session.height)
        memory = self.visit.studio.memory(shape, self.camera.value != 1.0)
        passes = int(self.steps.value) * (2 if self.camera.value != 1.0 else 1)
        seconds = self.visit.studio.seconds_per_pass(shape)
        time = "known after the first film of this size" if seconds is None else f"about {seconds * passes:.0f} s"
        self.cost.content = table([("memory", memory), ("time", time)])

    # -- the film -------------------------------------------------------------------------------------------------

    def generate(self) -> None:
        if self.ticket is not None and not self.ticket.ended.is_set():
            raise SightlineError("a film is being generated: expected it to end, or to be cancelled.")
        studio = self.visit.studio
        folder = studio.reserve(self.name.value)
        try:
            job = self.visit.session.job(folder, **self.sampling())
        except SightlineError:
            studio.release(folder.name)
            raise
        self.result.content = self.commands.content = self.errors.content = ""
        self.measure.visible = False
        arguments = {**job.settings(), "output": str(job.output)}
        show = self.visit.guarded(self.told)

        def told(event: Event) -> None:
            if event["event"] in ENDS:  # also where nobody looks any more
                studio.release(folder.name)
            show(event)

        self.ticket = studio.worker.submit("generate", arguments, told)

    def cancel(self) -> None:
        if self.ticket is not None and not self.ticket.ended.is_set():
            self.visit.studio.worker.cancel(self.ticket)
            self.state.content = sentence("Cancelling after this step ...")

    def leave(self) -> None:
        """The visitor has left: nobody waits for the film."""
        if self.ticket is not None:
            self.visit.studio.worker.cancel(self.ticket)

    def told(self, event: Event) -> None:
        """Progress of the film; called from the worker's thread."""
        kind = event["event"]
        running = kind in ("queued", "progress")
        self.stop.visible = self.bar.visible = running
        self.start.disabled = running
        self.latents.visible = running and bool(event.get("picture"))
        if kind == "queued":
            ahead = event.get("ahead", 0)
            self.bar.value = 0.0
            self.state.content = sentence(f"Waiting for {_tasks(ahead)}." if ahead else "Starting ...")
        elif kind == "progress":
            self._progress(event)
        elif kind == "failed":
            self.state.content = sentence(event["sentence"], "error")
        elif kind == "cancelled":
            self.state.content = sentence("Cancelled; nothing was kept.")
        else:
            self._done(event["result"])

    def _progress(self, event: Event) -> None:
        step, steps = event["step"], event["steps"]
        self.bar.value = 100.0 * step / (steps + 1)  # the decoding comes after the last step
        words = f"Step {step} of {steps}" if step < steps else "Decoding the film"
        self.state.content = sentence(f"{words if step else 'Loading the model'} ...")
        if picture := event.get("picture"):
            content = base64.b64decode(picture.split(",", 1)[1])
            self.latents.image = np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))

    def _done(self, result: dict[str, Any]) -> None:
        psnr = result.get("psnr", {}).get("mean")
        true = "" if psnr is None else f" PSNR to the true view: {psnr:.1f} dB."
        self.state.content = sentence(f"{result['name']} took {result['seconds']:.0f} s.{true}", "good")
        self.visit.studio.films_changed()
        film = self.visit.studio.library.film(result["name"])
        self.show_film(film)
        self.show_estimate()
        self.visit.show_film(film)

    def show_film(self, film: Film) -> None:
        """The film itself, and how to make it again."""
        self.result.content = videos([(film.name, film.folder / "video.mp4")])
        self.commands.content = code("Copy as command", shell_line(film)) + code("Python", python_code(film))
        self.measure.visible = self.visit.session.depth_source in ("world", "file", "model")

    # -- the path of the film ---------------------------------------------------------------------------------------

    def estimate(self) -> None:
        """Ask the worker where the camera of the film really went."""
        if not self.visit.film_name:
            raise SightlineError("the film does not follow this path any more: expected the path it was made along.")
        depth = self.visit.session.depth().numpy()
        folder = self.visit.studio.library.film(self.visit.film_name).folder
        self.errors.content = sentence("Estimating the path ...")
        arguments = {"folder": str(folder), "depth": pack(depth)}
        self.visit.studio.worker.submit("estimate", arguments, self.visit.guarded(self.estimated))

    def estimated(self, event: Event) -> None:
        if event["event"] == "failed":
            self.errors.content = sentence(event["sentence"], "error")
        elif event["event"] == "done":
            found = event["result"]
            self.visit.view.draw_estimate(np.array(found["poses"]))
            unit = {"metre": "m"}.get(found["unit"], "units")
            degrees = np.degrees(found["rotation"])
            self.errors.content = sentence(
                f"The green path is the one that the film follows. On average it is off by {degrees:.2f} degrees and "
                f"{found['translation']:.3f} {unit}; {found['confidence']:.0%} of the pixels agree with it."
            )


def _tasks(count: int) -> str:
    return "another task" if count == 1 else f"{count} other tasks"
