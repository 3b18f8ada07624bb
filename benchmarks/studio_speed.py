"""Seconds until the studio's page is ready, and milliseconds of a preview frame.

    python benchmarks/studio_speed.py              the page in Chromium, and previews of 128 x 128 and of 832 x 480
    python benchmarks/studio_speed.py --no-page    previews alone

The page is loaded several times in a fresh browser context. Ready means that its controls, the point cloud and the first preview
are there. Medians are printed.
"""

from __future__ import annotations

import os
import shutil
import statistics
import tempfile
import time
from pathlib import Path

import torch
import tyro

from sightline.cameras import moves
from sightline.generation.model_options import ModelOptions
from sightline.studio.preview import Preview
from sightline.worlds import render_clip, sample_clip

SIZES = ((128, 128), (832, 480))
MOVE = "orbit:30"


def main(page: bool = True, repeats: int = 5) -> None:
    """page: also load the page, which needs Chromium and playwright."""
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))  # as the studio does
    for width, height in SIZES:
        wall, busy = preview_seconds(width, height, repeats)
        print(f"preview frame of {width}x{height}: {1000 * wall:.0f} ms, {1000 * busy:.0f} ms of processor time")
    if page:
        seconds = page_seconds(repeats)
        print(f"page load: {statistics.median(seconds):.2f} s, the fastest {min(seconds):.2f} s")


def preview_seconds(width: int, height: int, repeats: int) -> tuple[float, float]:
    """Medians over the frames of an orbit around a world's first frame, of elapsed and of processor time."""
    clip = sample_clip("walkthrough", 16, 2, width, height)
    trajectory = moves.parse(MOVE, frames=9, width=width, height=height)
    camera = trajectory.replace(
        camera_to_world=clip.true_trajectory.camera_to_world[:1], intrinsics=trajectory.intrinsics[:1]
    )
    rendered = render_clip(clip.scene, camera)
    preview, seconds, busy = Preview(rendered.frames[0].numpy(), rendered.depth[0], trajectory), [], []
    for _ in range(repeats):
        for frame in range(len(trajectory)):
            started, started_busy = time.perf_counter(), time.process_time()
            preview.frame(trajectory, frame)
            seconds.append(time.perf_counter() - started)
            busy.append(time.process_time() - started_busy)
    return statistics.median(seconds), statistics.median(busy)


def page_seconds(repeats: int) -> list[float]:
    from playwright.sync_api import sync_playwright

    from sightline.studio.app import Studio

    seconds = []
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        studio = Studio(ModelOptions(), Path(folder), port=0)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"))
        try:
            for _ in range(repeats + 1):  # the first one is a warm-up
                context = browser.new_context(viewport={"width": 1400, "height": 900})
                page, known = context.new_page(), set(studio.visits)
                started = time.perf_counter()
                page.goto(studio.address)
                page.get_by_text("Open a picture").wait_for()
                page.locator("img").first.wait_for()
                while not set(studio.visits) - known:
                    page.wait_for_timeout(10)
                seconds.append(time.perf_counter() - started)
                context.close()
        finally:
            browser.close()
            studio.close()
    return seconds[1:]


if __name__ == "__main__":
    tyro.cli(main)
