"""One progress bar: ours."""

from __future__ import annotations


def one_progress_bar() -> None:
    """Hide the progress bars and warnings that the libraries show while they load, so that only ours remains."""
    import diffusers
    import huggingface_hub
    import transformers

    huggingface_hub.logging.set_verbosity_error()
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()
