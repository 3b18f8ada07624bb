"""What a visitor types, opens or drops, and who may see the page, in Chromium."""

from __future__ import annotations

import io
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
        page.get_by_text("expected a number from 8 to 400").first.wait_for()
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
    wait_for(page, lambda: not visit.shoot.depth.run_model.disabled)


def test_the_frame_field_and_the_slider_are_one(page_and_visit):
    page, visit = page_and_visit
    fill(page, "Frame", 7)
    wait_for(page, lambda: visit.player.frame == 7 and "frame 7" in visit.table.content)
    fill(page, "Frame", -5)
    wait_for(page, lambda: "frame 0<" in visit.table.content and visit.player.slider.value == 0)
    assert field(page, "Frame").is_visible()


def test_numbers_beyond_the_keys_and_the_film_leave_the_page_as_it_was(page_and_visit):
    page, visit = page_and_visit
    page.get_by_role("button", name="Make keys from the path").click()
    wait_for(page, lambda: visit.session.mode == "keys")
    page.get_by_text("The path is made of the keyframes below").wait_for()
    fill(page, "Key", -5)
    wait_for(page, lambda: visit.shoot.keys.chosen == 0 and visit.shoot.keys.key.value == 0)
    tab(page, "Generate")
    page.get_by_text("Settings", exact=True).click()
    fill(page, "Frames", 1)  # fewer than there are keys
    page.locator(".sightline-error").get_by_text("expected at least 4, one for each key").wait_for()
    assert visit.session.num_frames == 33
    fill(page, "Frames", 33)
    wait_for(page, lambda: page.locator(".sightline-error").count() == 0)
    fill(page, "Seed of the noise", -1)
    page.locator(".sightline-error").get_by_text("Seed of the noise is -1: expected a number from 0").wait_for()
    assert page.locator(".mantine-Notification-root").get_by_text("please report it").count() == 0


def test_a_depth_at_quite_another_distance_is_looked_at_from_behind_again(page_and_visit):
    page, visit = page_and_visit
    field(page, "Depth").click()
    page.get_by_role("option", name="file", exact=True).click()
    page.get_by_text("Until there is a file, the depth stays plane.").wait_for()
    content = io.BytesIO()
    np.save(content, np.full((20, 20), 2000.0, np.float32))  # millimetres
    upload(page, "Open a depth file", "depth.npy", content.getvalue())
    page.get_by_text("The depth is that of depth.npy, 20x20 values.").wait_for()
    wait_for(page, lambda: visit.client.camera.position[2] < -1000)
