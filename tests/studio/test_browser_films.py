"""Finished films on the page, in Chromium, with a worker without a model: reopening one, and estimating its path;
and films that do not get that far."""

from __future__ import annotations

import os
import signal

import pytest

from sightline.studio.session import Session
from tests.studio.browser import CHROMIUM, Driver, fill, short_film, tab, wait_for
from tests.studio.films import write_film
from tests.studio.stand_in import stand_in_worker

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed (apt install chromium).")
pytest.importorskip("playwright", reason="playwright is not installed (pip install playwright).")


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = Driver(tmp_path_factory.mktemp("films"), stand_in_worker())
    yield driver
    driver.close()


def reopen(page, visit, name):
    tab(page, "Gallery")
    wait_for(page, lambda: name in visit.gallery.film.options)
    visit.gallery.choose(name)
    page.get_by_role("button", name="Reopen").click()
    page.get_by_text(f"{name} is open in Shoot").first.wait_for()
    wait_for(page, lambda: visit.film_name == name)


def test_a_film_is_reopened_with_its_depth_and_distance(driver, page_and_visit):
    page, visit = page_and_visit
    session = Session(driver.studio.info)
    session.set_depth("box room", 1.35)
    write_film(driver.studio, session, "room")
    reopen(page, visit, "room")
    assert (visit.session.depth_source, visit.session.distance) == ("box room", 1.35)
    assert (visit.shoot.depth.source.value, visit.shoot.depth.distance.value) == ("box room", 1.35)
    assert not visit.generate.film_view.measure.visible  # a room is no depth to measure a film by


def test_an_estimate_shows_its_progress_and_can_be_cancelled(driver, page_and_visit):
    page, visit = page_and_visit
    session = Session(driver.studio.info)
    session.set_world(3, "orbit")
    write_film(driver.studio, session, "world")
    reopen(page, visit, "world")
    view = visit.generate.film_view
    tab(page, "Generate")
    page.get_by_role("button", name="Estimate the path").click()
    page.get_by_text("Estimating the path: 50%").wait_for()
    assert view.bar.visible and view.bar.value == 50.0 and view.measure.disabled
    fill(page, "Frame", 2)  # the page goes on meanwhile
    visit.player.stop()
    page.get_by_role("button", name="Cancel the estimate").click()
    page.get_by_text("The estimate was cancelled.").wait_for()
    assert not view.bar.visible and not view.stop.visible and not view.measure.disabled

    page.get_by_role("button", name="Estimate the path").click()
    page.get_by_text("Estimating the path: 50%").wait_for()
    task = view.task
    tab(page, "Shoot")
    fill(page, "Moves", "pan:9")  # another path: nobody waits for the estimate, and it is not drawn
    assert task.wait(60)["event"] == "cancelled"
    wait_for(page, lambda: not view.measure.visible and not view.bar.visible)
    tab(page, "Generate")
    page.get_by_text("has changed since this film").wait_for()


def test_an_estimate_ends_with_its_page(driver):
    page, visit = driver.visit()
    if "world" not in driver.studio.library.names():
        session = Session(driver.studio.info)
        session.set_world(3, "orbit")
        write_film(driver.studio, session, "world")
    reopen(page, visit, "world")
    tab(page, "Generate")
    page.get_by_role("button", name="Estimate the path").click()
    wait_for(page, lambda: visit.generate.film_view.task is not None)
    page.close()
    assert visit.generate.film_view.task.wait(60)["event"] == "cancelled"


def test_inspect_asks_about_the_film_that_is_open_and_puts_it_away_when_it_is_deleted(driver, page_and_visit):
    page, visit = page_and_visit
    for name in ("one", "two"):
        write_film(driver.studio, Session(driver.studio.info), name)
    inspect = visit.inspect
    tab(page, "Inspect")
    wait_for(page, lambda: "one" in inspect.film.options)
    inspect.film.value = "one"
    page.get_by_role("button", name="Open the film").click()
    page.get_by_text("it did not work").wait_for()  # the weights, which the stand-in does not have
    inspect.film.value = "two"  # chosen, but not opened
    fill(page, "Noise level", 99)
    wait_for(page, lambda: inspect.task is not None)
    assert inspect.task.arguments["folder"].endswith("one") and inspect.task.arguments["sigma"] == 1.0
    driver.studio.library.delete("one")
    driver.studio.films_changed()
    page.get_by_text("one was deleted. Open another film.").wait_for()
    wait_for(page, lambda: not inspect.picture.node.visible)
    fill(page, "Frame", 3)
    wait_for(page, lambda: visit.player.frame == 3)


def test_a_cancelled_and_a_killed_job_leave_the_page_working(driver, page_and_visit):
    page, visit = page_and_visit
    films = driver.studio.library.names()
    short_film(page, visit)
    fill(page, "Prompt", "hang")  # until the film is cancelled, or its process killed
    wait_for(page, lambda: visit.generate.prompt.value.strip() == "hang")
    page.get_by_role("button", name="Generate the film").click()
    page.get_by_text("step 1 of 2").first.wait_for()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("nothing was kept").wait_for()
    page.get_by_role("button", name="Generate the film").click()
    page.get_by_text("step 1 of 2").first.wait_for()
    os.kill(driver.studio.worker._process.pid, signal.SIGKILL)
    page.get_by_text("the process with the model ended").first.wait_for()
    assert driver.studio.library.names() == films
    assert not list(driver.studio.library.folder.glob(".*"))
    tab(page, "Shoot")
    fill(page, "Moves", "roll:4")
    wait_for(page, lambda: visit.session.move == "roll:4" and not visit.generate.start.disabled)


def test_keys_survive_a_reload_of_the_page(driver, page_and_visit):
    page, visit = page_and_visit
    page.get_by_role("button", name="Make keys from the path").click()
    wait_for(page, lambda: visit.session.mode == "keys")
    made = visit.session
    visit = driver.visit_of(page, page.reload)
    page.get_by_role("button", name="Continue where the closed page left off").click()
    wait_for(page, lambda: visit.session is made)
    page.get_by_role("button", name="Continue where the closed page left off").wait_for(state="hidden")
