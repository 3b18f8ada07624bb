"""The studio without a browser: its server refuses what is too large, and every page hears of every film."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from sightline.generation.job import Job
from sightline.generation.model import Model, ModelOptions
from sightline.studio.app import Studio
from sightline.studio.closed_pages import ClosedPage
from sightline.studio.session import Session
from sightline.studio.upload_limit import MAX_MESSAGE_BYTES
from tests.studio.stand_in import stand_in_worker

viser = pytest.importorskip("viser", reason="viser is not installed.")
from websockets.exceptions import ConnectionClosed  # noqa: E402
from websockets.frames import CloseCode  # noqa: E402
from websockets.sync.client import connect  # noqa: E402


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    studio = Studio(ModelOptions(), tmp_path_factory.mktemp("films"), port=0, worker=stand_in_worker())
    yield studio
    studio.close()


def closing_code(page, message):
    """Send a message and read until the server ends the connection."""
    try:
        page.send(message)
        while True:
            page.recv(60)
    except ConnectionClosed as closed:
        return closed.rcvd.code


def test_a_message_that_is_too_large_ends_the_connection(studio):
    address, origin = studio.address.replace("http", "ws"), studio.address.rstrip("/")
    with connect(address, origin=origin, subprotocols=[f"viser-v{viser.__version__}"], max_size=None) as page:
        assert closing_code(page, b"\xc0" * (MAX_MESSAGE_BYTES + 1)) == CloseCode.MESSAGE_TOO_BIG


def test_a_studio_that_is_closed_gives_the_threads_back(tmp_path, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 6)
    threads = torch.get_num_threads()
    studio = Studio(ModelOptions(), tmp_path, port=0, worker=stand_in_worker())
    assert torch.get_num_threads() == 3
    studio.close()
    assert torch.get_num_threads() == threads


class _Page:
    """A visit that only remembers what it was told."""

    def __init__(self):
        self.heard = []
        self.films_changed = lambda: self.heard.append("films")
        self.jobs_changed = lambda: self.heard.append("jobs")

    def run_later(self, work):
        work()

    def show_end(self):
        self.heard.append("end")

    close = show_end

    def closed_page(self):
        return ClosedPage(Session(Model(ModelOptions()).info, mode="keys"), "film", None)

    def closed_pages_changed(self):
        self.heard.append("closed pages")


def test_every_page_hears_of_a_film_and_one_that_has_gone_does_not_stop_it(studio):
    here, gone = _Page(), _Page()
    studio.visits.update({-1: here, -2: gone})
    try:
        job = studio.jobs.start("film", lambda folder: Job(prompt="hang", output=folder), lambda event: None)
        studio._on_disconnect(SimpleNamespace(client_id=-2))
        assert gone.heard[-1] == "end" and not job.has_ended
        assert here.heard[-1] == "closed pages" and len(studio.closed_pages) == 1
        studio.jobs.cancel("film")
        assert job.task.wait(60)["event"] == "cancelled" and here.heard[-1] == "jobs"
        studio.jobs.start("film", lambda folder: Job(prompt="a room", output=folder), lambda event: None).task.wait(60)
        assert here.heard[-2:] == ["films", "jobs"]
    finally:
        studio.visits.clear()
