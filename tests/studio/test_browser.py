"""From a picture to a film and back, as a visitor does it, in Chromium, with the model that ships."""

from __future__ import annotations

import pytest
import torch

from sightline.errors import SightlineError
from sightline.generation.model_options import ModelOptions
from sightline.studio.app import Studio
from tests.studio.browser import (
    CHROMIUM,
    fill,
    on_screen,
    picture,
    short_film,
    tab,
    upload,
    wait_for,
)
from tests.studio.stand_in import stand_in_worker

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium).")
pytest.importorskip("playwright", reason="playwright is not installed (pip install playwright).")


def test_from_a_picture_over_keys_to_a_film_that_is_reopened(driver, page_and_visit):
    page, visit = page_and_visit
    session = visit.session
    upload(page, "Open a picture", "room.png", picture())
    wait_for(page, lambda: session.picture is not None)

    fill(page, "Moves", "orbit:thirty")
    page.locator(".sightline-error").first.wait_for()
    fill(page, "Moves", "truck:0.4")
    wait_for(page, lambda: session.move == "truck:0.4")
    wait_for(page, lambda: page.locator(".sightline-error").count() == 0)

    page.get_by_role("button", name="Make keys from the path").click()
    wait_for(page, lambda: session.mode == "keys" and visit.view._gizmo is not None)
    drag_key(page, visit, 1)

    fill(page, "Frame", 20)
    wait_for(page, lambda: visit.player.frame == 20)

    short_film(page, visit)
    fill(page, "Name of the film", "../my film")
    commanded = session.trajectory.camera_to_world
    page.get_by_role("button", name="Generate the film").click()
    page.get_by_text("my_film took").wait_for()
    assert driver.studio.library.names() == ["my_film"]
    film = driver.studio.library.film("my_film")
    assert torch.equal(film.trajectory.camera_to_world, commanded)
    page.locator("video").first.wait_for()
    page.locator("pre").get_by_text("sightline generate").first.wait_for()
    wait_for(page, lambda: visit.film is not None)

    tab(page, "Shoot")
    fill(page, "Moves", "static")
    wait_for(page, lambda: session.mode == "move")
    tab(page, "Gallery")
    page.get_by_role("button", name="Reopen").click()
    wait_for(page, lambda: visit.session.mode == "keys")
    assert torch.equal(visit.session.trajectory.camera_to_world, commanded)

    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Keep it").click()
    assert driver.studio.library.names() == ["my_film"]


def test_a_film_survives_a_reload_and_is_put_away_when_it_is_deleted(driver, page_and_visit):
    page, before = page_and_visit
    other, undisturbed = driver.visit()
    library = driver.studio.library
    fill(other, "Moves", "tilt:5")
    short_film(page, before, steps=12)
    fill(page, "Name of the film", "kept")
    page.get_by_role("button", name="Generate the film").click()
    wait_for(page, lambda: before.generate.job is not None)
    job = before.generate.job
    with pytest.raises(SightlineError, match="is not in"):  # while it is made
        library.delete("kept")
    visit = driver.visit_of(page, page.reload)
    wait_for(page, lambda: before.is_closed and job.has_ended)
    assert job.last_event["event"] == "done" and "kept" in library.names()
    tab(page, "Gallery")
    page.get_by_text(job.state, exact=True).first.wait_for()
    wait_for(page, lambda: "kept" in visit.gallery.film.options)
    visit.gallery.film.value = "kept"
    wait_for(other, lambda: "kept" in undisturbed.gallery.film.options)
    assert undisturbed.session.move == "tilt:5" and undisturbed.film is None
    other.close()

    page.get_by_role("button", name="Reopen").click()
    wait_for(page, lambda: visit.film_name == "kept" and visit.player._playing.is_set())
    page.get_by_role("button", name="Delete").click()
    page.get_by_role("button", name="Delete it").click()
    wait_for(page, lambda: "kept" not in visit.gallery.film.options and visit.generate.film_view.video.content == "")
    assert visit.film is None and "kept" not in library.names()
    tab(page, "Shoot")
    fill(page, "Moves", "pan:7")
    wait_for(page, lambda: visit.session.move == "pan:7")


def test_the_page_says_when_the_studio_has_ended(driver, tmp_path):
    studio, worker = driver.studio, stand_in_worker()
    driver.studio = Studio(ModelOptions(), tmp_path, port=0, worker=worker)
    try:
        page, _ = driver.visit()
        driver.studio.close()
        page.get_by_text(f"The studio has ended. Finished films are in {tmp_path}").wait_for()
        page.get_by_text("reload this page").wait_for()  # which connects by itself only if the studio is back soon
        page.close()
    finally:
        driver.studio = studio


def drag_key(page, visit, number):
    """Drag the red arrow of the gizmo, which moves the key to its right."""
    before = visit.session.history.current.keys[number].camera_to_world.clone()
    steps = len(visit.session.history._past)
    start, end = (before[:3, 3] + before[:3, 0] * 1.6 * visit.view.size * far for far in (0.6, 1.4))

    def dragged():
        (x, y), (to_x, to_y) = (on_screen(page, visit, point.numpy()) for point in (start, end))
        page.mouse.move(x, y)
        page.wait_for_timeout(300)
        page.mouse.down()
        for part in range(1, 7):
            page.mouse.move(x + (to_x - x) * part / 6, y + (to_y - y) * part / 6)
            page.wait_for_timeout(60)
        page.mouse.up()
        page.wait_for_timeout(300)
        return len(visit.session.history._past) > steps

    wait_for(page, dragged)  # again, if the gizmo was not drawn yet
    after = visit.session.history.current.keys[number].camera_to_world
    moved = (after - before)[:3, 3]
    assert float(moved.norm()) > 0.02
    assert float(moved @ before[:3, 0]) == pytest.approx(float(moved.norm()), rel=0.05)
    assert visit.session.history.undo() and visit.session.history.redo()


def test_a_click_on_a_film_shows_the_terms_of_its_token(driver, page_and_visit):
    page, visit = page_and_visit
    if not driver.studio.library.names():
        short_film(page, visit)
        page.get_by_role("button", name="Generate the film").click()
        page.get_by_text("film took").wait_for()
    tab(page, "Inspect")
    page.get_by_role("button", name="Open the film").click()
    wait_for(page, lambda: visit.inspect.experts and visit.inspect.picture.node is not None)

    def clicked():
        before = on_screen(page, visit, (-0.5, 0.3, 0.0))
        page.wait_for_timeout(300)
        place = on_screen(page, visit, (-0.5, 0.3, 0.0))
        if place != pytest.approx(before, abs=0.5):  # the view is still on its way to the picture
            return False
        page.mouse.click(*place)
        page.wait_for_timeout(500)
        return visit.inspect.picture.at != (0.5, 0.5)

    wait_for(page, clicked)
    assert visit.inspect.picture.at == pytest.approx((0.25, 0.65), abs=0.02)
    wait_for(page, lambda: visit.inspect.token is not None)
    for name in ("A content", "B content to ray", "C ray to content", "D ray to ray", "attention"):
        page.get_by_text(name, exact=True).wait_for()
    with page.expect_download() as download:
        page.get_by_role("button", name="HTML page").click()
    content = download.value.path().read_text(encoding="utf-8")
    assert content.count("<img") >= 8 and "epipolar" in content
    page.get_by_role("button", name="Back to the path").click()
    wait_for(page, lambda: visit.client.camera.position[1] < -0.5)  # from above again


def test_two_visitors_do_not_disturb_each_other(driver):
    (one, first), (two, second) = driver.visit(), driver.visit()
    fill(one, "Moves", "pan:10")
    fill(two, "Moves", "tilt:5")
    wait_for(one, lambda: first.session.move == "pan:10" and second.session.move == "tilt:5")
    one.close()
    wait_for(two, lambda: len(driver.studio.visits) == 1 or first.client.client_id not in driver.studio.visits)
    fill(two, "Moves", "tilt:6")
    wait_for(two, lambda: second.session.move == "tilt:6")
    two.close()
