"""Refuses a file that is too large when a page announces it, before its bytes are kept.

viser collects all parts of an upload, whatever its size, and only then calls us. So its two handlers of uploads are replaced by
ones that ask first. What a page announces may be wrong, so the parts are counted too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sightline.errors import SightlineError
from sightline.studio.uploads import MAX_FILE_BYTES, shown_name

MAX_MESSAGE_BYTES = 2 * 2**20  # of one message of a page, which sends a file in parts of 512 KiB
_MAX_TRANSFERS = 4  # of one page at the same time


class UploadLimit:
    """The uploads of one page."""

    max_bytes = MAX_FILE_BYTES  # of one file

    def __init__(self) -> None:
        self._missing: dict[str, int] = {}  # bytes that are still to come, by the id of the transfer

    def refusal(self, transfer: str, name: str, size: int, parts: int) -> str | None:
        """Why a file that is announced is not accepted, in a sentence; None where it is."""
        if not 0 <= parts <= size <= self.max_bytes:
            return f"{shown_name(name)} has {size / 2**20:.0f} MiB: expected at most {self.max_bytes >> 20} MiB."
        if len(self._missing) >= _MAX_TRANSFERS:
            return f"{shown_name(name)} comes while {_MAX_TRANSFERS} files are uploaded: expected fewer at a time."
        if parts:
            self._missing[transfer] = size
        return None

    def accepts(self, transfer: str, length: int) -> bool:
        """Whether a part is kept: not without an announcement, nor where more comes than was announced."""
        missing = self._missing.pop(transfer, 0) - length
        if missing > 0:
            self._missing[transfer] = missing
        return missing >= 0


def limit_uploads(client: Any, on_refusal: Callable[[str], None]) -> None:
    """Put a limit before the uploads of a viser client. on_refusal: gets the sentence; it must return at once."""
    from viser import _messages

    limit, gui = UploadLimit(), client.gui
    try:
        connection, start, part = (
            gui._websock_interface,
            gui._handle_file_transfer_start,
            gui._handle_file_transfer_part,
        )
        unfinished = gui._current_file_upload_states
        connection.unregister_handler(_messages.FileTransferStartUpload, start)
        connection.unregister_handler(_messages.FileTransferPart, part)
    except (AttributeError, AssertionError, ValueError):
        raise SightlineError("this version of viser receives uploads in another way: expected viser 1.1.") from None

    def on_start(client_id: Any, message: Any) -> None:
        sentence = limit.refusal(message.transfer_uuid, message.filename, message.size_bytes, message.part_count)
        if sentence is None:
            start(client_id, message)
            return
        # The page shows a bar, and blocks the button, until all bytes are acknowledged.
        connection.queue_message(
            _messages.FileTransferPartAck(
                message.source_component_uuid, message.transfer_uuid, message.size_bytes, message.size_bytes
            )
        )
        connection.queue_message(_messages.RemoveNotificationMessage(f"upload-{message.transfer_uuid}"))
        on_refusal(sentence)

    def on_part(client_id: Any, message: Any) -> None:
        if limit.accepts(message.transfer_uuid, len(message.content)):
            part(client_id, message)
        else:
            unfinished.pop(message.transfer_uuid, None)

    connection.register_handler(_messages.FileTransferStartUpload, on_start)
    connection.register_handler(_messages.FileTransferPart, on_part)
