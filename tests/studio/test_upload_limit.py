"""A file that is too large is refused when it is announced, and nothing of it is kept."""

from __future__ import annotations

import pytest

from sightline.studio.upload_limit import UploadLimit, limit_uploads

viser = pytest.importorskip("viser", reason="viser is not installed.")
from viser import _messages  # noqa: E402

MIB = 2**20


def test_a_file_within_the_limit_is_accepted_part_by_part():
    limit = UploadLimit()
    assert limit.refusal("a", "room.png", 3 * MIB, 3) is None
    assert [limit.accepts("a", MIB) for _ in range(4)] == [True, True, True, False]


@pytest.mark.parametrize("size, parts", [(41 * MIB, 82), (2**60, 1), (-1, 1), (10, 11), (10, -1)])
def test_a_file_that_is_too_large_or_makes_no_sense_is_refused(size, parts):
    limit = UploadLimit()
    assert "expected at most 40 MiB" in limit.refusal("a", "x\n" * 300, size, parts)
    assert not limit.accepts("a", 1)


def test_more_bytes_than_announced_are_not_kept():
    limit = UploadLimit()
    assert limit.refusal("a", "x", 10, 2) is None
    assert limit.accepts("a", 9) and not limit.accepts("a", 9) and not limit.accepts("a", 1)


def test_few_files_at_a_time():
    limit = UploadLimit()
    assert [limit.refusal(name, name, 10, 1) is None for name in "abcde"] == [True] * 4 + [False]
    assert limit.accepts("a", 10) and limit.refusal("e", "e", 10, 1) is None


class _Connection:
    """The part of viser's connection that uploads use."""

    def __init__(self):
        self.handlers, self.sent = {}, []

    def register_handler(self, kind, handler):
        self.handlers.setdefault(kind, []).append(handler)

    def unregister_handler(self, kind, handler):
        self.handlers[kind].remove(handler)

    def queue_message(self, message):
        self.sent.append(message)

    def receive(self, message):
        for handler in self.handlers[type(message)]:
            handler(0, message)


class _Client:
    """A client with viser's own handlers of uploads."""

    def __init__(self):
        self.gui = gui = object.__new__(viser.GuiApi)
        gui._websock_interface, gui._current_file_upload_states = _Connection(), {}
        gui._gui_input_handle_from_uuid = {"button": None}
        gui._websock_interface.register_handler(_messages.FileTransferStartUpload, gui._handle_file_transfer_start)
        gui._websock_interface.register_handler(_messages.FileTransferPart, gui._handle_file_transfer_part)


def test_viser_keeps_nothing_of_a_refused_file():
    client, refused = _Client(), []
    limit_uploads(client, refused.append)
    receive, kept = client.gui._websock_interface.receive, client.gui._current_file_upload_states
    receive(_messages.FileTransferStartUpload("button", "large", "film.raw", "", 600, 300 * MIB))
    receive(_messages.FileTransferPart("button", "large", 0, b"x" * 1000))
    assert refused == ["film.raw has 300 MiB: expected at most 40 MiB."] and kept == {}
    acknowledged = client.gui._websock_interface.sent[0]
    assert acknowledged.transferred_bytes == acknowledged.total_bytes == 300 * MIB  # the page stops to wait
    receive(_messages.FileTransferStartUpload("button", "liar", "room.png", "", 3, 10))
    receive(_messages.FileTransferPart("button", "liar", 0, b"x" * 8))
    assert set(kept) == {"liar"}
    receive(_messages.FileTransferPart("button", "liar", 1, b"x" * 8))
    assert kept == {}
