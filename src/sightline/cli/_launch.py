"""Shared by the verbs that load models: the processes of a launcher, and a clean exit."""

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
    """The processes of `accelerate launch` or `torchrun`; None if there is only one. Where there are more processes than GPUs,
    they share them: a small model does not fill a GPU, and much of the work around it is done by the CPU."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1:
        return None
    import torch
    from accelerate import PartialState

    gpus = torch.cuda.device_count()
    # Without cpu=True, processes without a GPU of their own would not connect. The timeout is long because one process may
    # finish hours after another.
    state = PartialState(cpu=gpus < int(os.environ.get("LOCAL_WORLD_SIZE", "1")), timeout=timedelta(days=14))
    if gpus and state.device.type == "cpu":
        state.device = torch.device("cuda", state.local_process_index % gpus)
        torch.cuda.set_device(state.device)
    return state


@contextmanager
def clean_exit() -> Iterator[None]:
    """Treat SIGTERM, which launchers send, like Ctrl-C, so that temporary files are removed."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL if before is None else before)  # None: set outside Python
