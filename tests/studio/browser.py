"""Driving the studio in Chromium: where the browser is, one studio with its own films, and pages with their visits."""

from __future__ import annotations

import base64
import io
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from sightline.cameras import se3
from sightline.generation.model_options import ModelOptions
from sightline.studio.app import Studio
from sightline.studio.worker import Worker

CHROMIUM = shutil.which("chromium")
TIMEOUT = 240_000  # milliseconds after which a test that hangs is stopped


class Driver:
    """A studio and a browser. visit(): a new page and its Visit."""

    def __init__(self, output: Path, worker: Worker | None = None) -> None:
        from playwright.sync_api import sync_playwright

        self.studio = Studio(ModelOptions(), output, port=0, worker=worker)
        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=CHROMIUM)

    def visit(self) -> tuple[Any, Any]:
        page = self.browser.new_page(viewport={"width": 1280, "height": 800})
        page.set_default_timeout(TIMEOUT)
        return page, self.visit_of(page, lambda: page.goto(self.studio.address))

    def visit_of(self, page: Any, load: Callable[[], Any]) -> Any:
        """The visit of a page that is loaded, or loaded again."""
        known = set(self.studio.visits)
        load()
        page.get_by_text("Open a picture").wait_for()
        wait_for(page, lambda: set(self.studio.visits) - known)
        return self.studio.visits[(set(self.studio.visits) - known).pop()]

    def close(self) -> None:
        self.browser.close()
        self.playwright.stop()
        self.studio.close()


def wait_for(page: Any, condition: Callable[[], Any]) -> Any:
    """Poll, since animation frames of a headless browser stall."""
    for _ in range(TIMEOUT // 50):
        if found := condition():
            return found
        page.wait_for_timeout(50)
    raise TimeoutError("the page did not get there")


def tab(page: Any, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def field(page: Any, label: str) -> Any:
    """The input after a label; viser does not tie every label to its input."""
    return page.locator(
        f"xpath=//label[text()='{label}']/following::*[(self::input and not(@type='hidden')) or self::textarea][1]"
    ).first


def fill(page: Any, label: str, value: Any) -> None:
    field(page, label).fill(str(value))
    field(page, label).press("Enter")


def upload(page: Any, button: str, name: str, content: bytes) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name=button).click()
    chooser.value.set_files({"name": name, "mimeType": "application/octet-stream", "buffer": content})


def drop(page: Any, name: str, content: bytes) -> None:
    """Drop a file on the 3D view."""
    script = """([name, content]) => {
        const bytes = Uint8Array.from(atob(content), letter => letter.charCodeAt(0));
        const files = new DataTransfer();
        files.items.add(new File([bytes], name));
        const event = new DragEvent("drop", {bubbles: true, cancelable: true, dataTransfer: files});
        document.querySelector("canvas").dispatchEvent(event);
    }"""
    page.evaluate(script, [name, base64.b64encode(content).decode()])


def on_screen(page: Any, visit: Any, point: Any) -> tuple[float, float]:
    """Where a point of the 3D view is on the page, in pixels."""
    box = page.locator("canvas").first.bounding_box()
    camera = visit.client.camera
    rotation = se3.quaternion_to_rotation(torch.tensor(np.array(camera.wxyz), dtype=torch.float64)).numpy()
    x, y, z = rotation.T @ (np.asarray(point, float) - np.array(camera.position))
    focal = box["height"] / 2 / np.tan(camera.fov / 2)
    return box["x"] + box["width"] / 2 + focal * x / z, box["y"] + box["height"] / 2 + focal * y / z


def picture(side: int = 160) -> bytes:
    """A PNG file of noise."""
    buffer = io.BytesIO()
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (side, side, 3), np.uint8)).save(buffer, "PNG")
    return buffer.getvalue()


def short_film(page: Any, visit: Any, steps: int = 1) -> None:
    """Choose the smallest film, so that the test is quick.

    Every value has arrived before the next is typed: of several at once, viser may send only the last.
    """
    tab(page, "Generate")
    page.get_by_text("Settings", exact=True).click()
    fill(page, "Steps", steps)
    wait_for(page, lambda: visit.generate.steps.value == steps)
    fill(page, "Frames", 5)
    wait_for(page, lambda: visit.session.num_frames == 5)
