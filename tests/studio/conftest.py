"""One studio and one browser for the tests of a file, and a page for each test."""

from __future__ import annotations

import pytest

from tests.studio.browser import Driver


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    driver = Driver(tmp_path_factory.mktemp("films"))
    yield driver
    driver.close()


@pytest.fixture
def page_and_visit(driver):
    page, visit = driver.visit()
    yield page, visit
    page.close()
