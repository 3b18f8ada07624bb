"""One studio and one browser for the tests of a file, and a page for each test."""

from __future__ import annotations

import pytest

from tests.studio.browser import Driver
from tests.studio.plain_page import plain_visit


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


@pytest.fixture
def visit(tmp_path, monkeypatch):
    """One without a browser."""
    pytest.importorskip("viser", reason="viser is not installed.")
    visit = plain_visit(tmp_path, monkeypatch)
    yield visit
    visit.close()
