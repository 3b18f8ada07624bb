"""The `sightline` command: one verb per file, each loaded only when it is called."""

from __future__ import annotations

import importlib
import logging
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sightline import __version__
from sightline.errors import SightlineError

# Each verb is the module of its name in this folder, with a `main(arguments)`.
VERBS = {
    "generate": "film an image and a prompt along a camera path",
    "trajectory": "make, show, convert and compare camera paths",
    "data": "look at sources of video with cameras, measure them, and cache their latents",
    "train": "train a model by a recipe, resume it, export it",
    "evaluate": "measure camera control, consistency and quality by the paper's protocols",
    "bench": "time the steps of every method and of the stock model",
    "lab": "make and measure the tiny model that ships with the package",
}

FAULT, INTERRUPTED = 2, 130  # exit codes


def command() -> int:
    """`sightline` in a shell: `main`, in a process that ends with it."""
    code = main()
    distributed = sys.modules.get("torch.distributed")  # only where a verb has loaded it: torch takes seconds
    if code == 0 and distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()  # whose threads can crash an interpreter that ends before them
    return code


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one verb; returns the exit code. Bad input is one sentence on stderr, never a traceback."""
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help"):
        print(_help())
        return 0
    if verb == "--version":
        print(f"sightline {__version__}")
        return 0
    try:
        if verb not in VERBS:
            raise SightlineError(f"the verb is {verb!r}: expected one of {', '.join(VERBS)} (see sightline --help).")
        with _notes_on_stderr():
            importlib.import_module(f"sightline.cli.{verb}").main(rest)
    except SightlineError as error:
        print(f"sightline: {error}", file=sys.stderr)
        return FAULT
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _help() -> str:
    verbs = "\n".join(f"  {name:<12} {summary}" for name, summary in VERBS.items())
    return (
        "usage: sightline VERB ...\n\n"
        "Camera control for video diffusion transformers.\n\n"
        f"verbs:\n{verbs}\n\n"
        "sightline VERB --help tells more; sightline --version says which this is."
    )


class _NotesHandler(logging.Handler):
    """Writes to whatever stderr is at the moment, so that notes appear above a progress bar and not inside it."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


@contextmanager
def _notes_on_stderr() -> Iterator[None]:
    """What the package logs or warns of, as lines `note: ...` while a verb runs."""
    logger, handler = logging.getLogger("sightline"), _NotesHandler()
    handler.setFormatter(logging.Formatter("note: %(message)s"))
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: print(f"note: {message}", file=sys.stderr)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)
