"""What verbs that load models share: processes of a launcher, a tidy end, one progress bar."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accelerate import PartialState


def launched() -> PartialState | None:
    """The processes of accelerate launch or torchrun, where there are several."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    import torch
    from accelerate import PartialState

    # Without cpu=True, processes of a machine that has no GPU do not find each other. The last one may be hours behind.
    return PartialState(cpu=not torch.cuda.is_available(), timeout=timedelta(days=14))


@contextmanager
def tidy_when_ended() -> Iterator[None]:
    """SIGTERM, which launchers send, ends as Ctrl-C does: nothing half-written is left."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def one_progress_bar() -> None:
    """That of the film: what the libraries show while they load, and their remarks, is left out."""
    import diffusers
    import huggingface_hub
    import transformers

    huggingface_hub.logging.set_verbosity_error()
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()
