"""Makes the screenshots of docs/studio.md in Chromium: `python docs/studio_images.py`.

It opens the studio, draws keyframes in a procedural world, generates the film with the model that ships, and looks into the
model, as a visitor would.
"""

from __future__ import annotations

import argparse
import io
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

HERE = Path(__file__).parent / "images"
SEED = 3
MOVE = "arc:25:10"
SIZE = {"width": 1400, "height": 860}


def main() -> None:
    from playwright.sync_api import sync_playwright

    from sightline.generation.model_options import ModelOptions
    from sightline.studio.app import Studio

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-o", "--output", type=Path, default=HERE, help="folder for the pictures")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as films, sync_playwright() as playwright:
        studio = Studio(ModelOptions(), Path(films), port=0)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        try:
            page = browser.new_page(viewport=SIZE)
            page.set_default_timeout(300_000)
            page.goto(studio.address)
            page.get_by_text("Open a picture").wait_for()
            wait(page, lambda: studio.visits)
            tour(page, next(iter(studio.visits.values())), asked.output)
        finally:
            browser.close()
            studio.close()


def tour(page: Any, visit: Any, folder: Path) -> None:
    """Shoot, Generate and Inspect, with a screenshot of each."""
    page.get_by_text("From a procedural world").click()
    fill(page, "Seed", SEED)
    page.get_by_role("button", name="Take this world").click()
    wait(page, lambda: visit.session.world is not None and visit.session.world.seed == SEED)
    page.get_by_text("From a procedural world").click()
    fill(page, "Moves", MOVE)
    wait(page, lambda: visit.session.move == MOVE)
    page.get_by_role("button", name="Make keys from the path").click()
    wait(page, lambda: visit.session.mode == "keys")
    fill(page, "Frame", 24)
    shoot(page, folder / "studio-shoot.webp")
    page.get_by_role("tab", name="Generate", exact=True).click()
    page.get_by_role("button", name="Generate the film").click()
    page.get_by_text("film took").wait_for()
    page.get_by_role("button", name="Estimate the path").click()
    page.get_by_text("The green path").wait_for()
    visit.player.stop()

    def at_frame_30() -> bool:
        fill(page, "Frame", 30)
        page.wait_for_timeout(1000)
        return visit.player.frame == 30

    wait(page, at_frame_30)  # again, if a frame that was being drawn came after it
    shoot(page, folder / "studio-generate.webp")
    page.get_by_role("tab", name="Inspect", exact=True).click()
    page.get_by_role("button", name="Open the film").click()
    wait(page, lambda: visit.inspect.experts)
    box = page.locator("canvas").first.bounding_box()

    def clicked() -> bool:
        page.mouse.click(box["x"] + 0.52 * box["width"], box["y"] + 0.56 * box["height"])
        page.wait_for_timeout(1000)
        return visit.inspect.task is not None or visit.inspect.token is not None

    wait(page, clicked)  # again only if the picture was not there yet: each click asks anew
    wait(page, lambda: visit.inspect.token is not None)
    shoot(page, folder / "studio-inspect.webp")


def fill(page: Any, label: str, value: object) -> None:
    """Type into the input after a label."""
    inputs = "*[(self::input and not(@type='hidden')) or self::textarea][1]"
    place = page.locator(f"xpath=//label[text()='{label}']/following::{inputs}").first
    place.fill(str(value))
    place.press("Enter")


def wait(page: Any, condition: Callable[[], object]) -> None:
    until = time.monotonic() + 300
    while not condition():
        if time.monotonic() > until:
            raise TimeoutError("the page did not get there")
        page.wait_for_timeout(50)


def shoot(page: Any, file: Path) -> None:
    """A screenshot without notifications, once the 3D view is drawn."""
    page.add_style_tag(content=".mantine-Notifications-root { display: none !important }")
    page.wait_for_timeout(4000)
    picture = Image.open(io.BytesIO(page.screenshot())).convert("RGB")
    picture.save(file, quality=82, method=6)
    print(f"wrote {file}")


if __name__ == "__main__":
    main()
