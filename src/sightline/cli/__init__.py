"""The `sightline` command: one module per verb, imported only when the verb is called."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from sightline import __version__
from sightline.errors import SightlineError

# Each verb is the module of the same name in this package, with a function `main(arguments)`.
VERBS = {
    "generate": "generate a video from an image, a prompt and a camera trajectory",
    "trajectory": "make, show, convert and compare camera trajectories",
    "data": "list and measure datasets of video with cameras, and cache their latents",
    "train": "train a model from a recipe, resume a run, export its weights",
    "evaluate": "measure camera control, consistency and quality with the paper's protocols",
    "inspect": "look inside a model: the learned form of each head, score terms of a video; and galleries",
    "bench": "time one step of every method and of the stock model",
    "study": "train and measure many rows and seeds alike: the tables of the paper",
    "studio": "open a page to draw a camera path, preview it, generate the film and inspect the model",
    "lab": "train and measure the small model that ships with the package",
}

FAULT, INTERRUPTED, BROKEN_PIPE = 2, 130, 141  # exit codes


def command() -> int:
    """The entry point of the shell command: runs `main` and cleans up before the process ends."""
    # Before torch is imported: by default, its CPU threads spin while they wait for each other. Where other programs use the
    # cores too, generation then takes several times as long.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    try:
        try:
            code = main()
        finally:  # help ends in SystemExit
            if sys.stdout is not None:  # closed, as by >&-
                sys.stdout.flush()
    except BrokenPipeError:  # whatever reads the output, such as head, has read enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what is flushed when the interpreter ends
        return BROKEN_PIPE
    distributed = sys.modules.get("torch.distributed")  # only where a verb has imported it: that takes seconds
    if code == 0 and distributed is not None and distributed.is_available() and distributed.is_initialized():
        distributed.destroy_process_group()  # its threads can crash an interpreter that exits before them
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
        print("sightline: interrupted.", file=sys.stderr)
        return INTERRUPTED
    return 0


def _help() -> str:
    verbs = "\n".join(f"  {name:<12} {summary}" for name, summary in VERBS.items())
    return (
        "usage: sightline VERB ...\n\n"
        "Camera control for video diffusion transformers.\n\n"
        f"verbs:\n{verbs}\n\n"
        "sightline VERB --help describes one verb; sightline --version prints the version."
    )


class _NotesHandler(logging.Handler):
    """Writes to the current sys.stderr, which a progress bar may have replaced, so that notes appear above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        print(self.format(record), file=sys.stderr)


@contextmanager
def _notes_on_stderr() -> Iterator[None]:
    """While a verb runs, print the log messages and warnings of the package as lines `note: ...`."""
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
