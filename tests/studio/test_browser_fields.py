"""What a visitor types, opens or drops, and who may see the page, in Chromium."""

from __future__ import annotations

import threading
import urllib.error
import urllib.request

import numpy as np
import pytest

from sightline.errors import SightlineError
from sightline.studio import depth, uploads
from sightline.studio.upload_limit import UploadLimit
from tests.studio.browser import (
    CHROMIUM,
    drop,
    field,
    fill,
    picture,
    tab,
    upload,
    wait_for,
)

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium).")
pytest.importorskip("playwright", reason="playwright is not installed (pip install playwright).")


def test_a_page_opens_with_the_view_from_behind(page_and_visit):
    page, visit = page_and_visit
    page.wait_for_timeout(300)  # the page tells where its view is
    assert np.allclose(visit.client.camera.up_direction, (0.0, -1.0, 0.0), atol=1e-3)
    assert visit.client.camera.position[2] < visit.client.camera.position[1] < 0.0


def test_a_refused_lens_is_not_shown(page_and_visit):
    page, visit = page_and_visit
    for refused in (0, 10_000):
        visit.shoot.lens.value = 28.0
        fill(page, "Lens (mm)", refused)
        page.get_by_text("expected a finite number of at least 8 and of at most 400").first.wait_for()
        wait_for(page, lambda: visit.shoot.lens.value == visit.session.focal_mm == 28.0)


def test_a_hostile_upload_is_refused_and_the_page_goes_on(page_and_visit):
    page, visit = page_and_visit
    before = visit.session.first_picture()
    upload(page, "Open a picture", "../../evil.png", b"<script>alert(1)</script>")
    page.get_by_text("is no picture of a known type").wait_for()
    assert np.array_equal(visit.session.first_picture(), before)
    fill(page, "Moves", "dolly:0.2")
    wait_for(page, lambda: visit.session.move == "dolly:0.2")


def test_a_picture_can_be_dropped_and_one_that_is_too_large_is_refused_at_once(page_and_visit, monkeypatch):
    page, visit = page_and_visit
    drop(page, "room.png", picture(40))
    wait_for(page, lambda: visit.session.picture is not None and visit.session.picture.size == (40, 40))
    monkeypatch.setattr(UploadLimit, "max_bytes", 20_000)
    monkeypatch.setattr(uploads, "read_picture", lambda *_: pytest.fail("it was kept"))
    drop(page, "large.png", picture(160))
    page.get_by_text("large.png has 0 MiB: expected at most 0 MiB").wait_for()
    monkeypatch.undo()
    upload(page, "Open a picture", "room.png", picture(50))
    wait_for(page, lambda: visit.session.picture.size == (50, 50))
    tab(page, "Generate")
    page.get_by_text("Say in a few words what your picture shows").wait_for()


@pytest.mark.parametrize(
    "headers, code", [({}, 200), ({"Host": "evil.example"}, 403), ({"Host": "evil.example:80"}, 403)]
)
def test_the_gate_stands_before_the_page(driver, headers, code):
    request = urllib.request.Request(driver.studio.address, headers=headers)
    try:
        found = urllib.request.urlopen(request).status
    except urllib.error.HTTPError as error:
        found = error.code
    assert found == code
    for path in ("../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "..%5c..%5cx"):
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(driver.studio.address + path)


def test_a_film_is_refused_while_its_size_cannot_be_used(driver, page_and_visit):
    page, visit = page_and_visit
    tab(page, "Generate")
    page.get_by_text("Settings", exact=True).click()
    fill(page, "Size", "127x128")
    page.locator(".sightline-error").first.wait_for()
    page.get_by_role("button", name="Generate the film").click()
    page.locator(".mantine-Notification-root").get_by_text("127").wait_for()
    assert visit.generate.job is None and driver.studio.jobs.active() == []


def test_a_depth_model_is_loaded_while_the_page_goes_on(page_and_visit, monkeypatch):
    page, visit = page_and_visit
    is_loaded = threading.Event()

    def load(model):
        assert model == "owner/name" and is_loaded.wait(60)
        raise SightlineError("depth model 'owner/name' cannot be loaded.")

    monkeypatch.setattr(depth, "_load", load)
    field(page, "Depth").click()
    page.get_by_role("option", name="model", exact=True).click()
    fill(page, "Depth model", "/etc")
    page.get_by_role("button", name="Estimate the depth").click()
    page.get_by_text("expected the id of a model on the hub").wait_for()
    fill(page, "Depth model", "owner/name")
    page.get_by_role("button", name="Estimate the depth").click()
    page.get_by_text("Loading the model and estimating").wait_for()
    fill(page, "Moves", "pan:9")
    wait_for(page, lambda: visit.session.move == "pan:9")
    is_loaded.set()
    page.get_by_text("'owner/name' cannot be loaded").wait_for()
    wait_for(page, lambda: not visit.shoot.run_model.disabled)


def test_the_frame_field_and_the_slider_are_one(page_and_visit):
    page, visit = page_and_visit
    fill(page, "Frame", 7)
    wait_for(page, lambda: visit.player.frame == 7)
    assert "frame 7" in visit.table.content
    assert field(page, "Frame").is_visible()
