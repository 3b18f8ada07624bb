"""One progress bar: ours."""

from __future__ import annotations

import warnings

# Of the libraries to each other: torch's norm under autocast on a CPU, and diffusers' call of huggingface_hub.
_NOT_FOR_USERS = ("Mismatch dtype between input and weight", "The `local_dir_use_symlinks` argument is deprecated")


def one_progress_bar() -> None:
    """Hide the progress bars and warnings that the libraries show while they load, so that only ours remains."""
    import diffusers
    import huggingface_hub
    import transformers

    huggingface_hub.logging.set_verbosity_error()
    for library in (diffusers, transformers):
        library.utils.logging.disable_progress_bar()
        library.utils.logging.set_verbosity_error()
    for message in _NOT_FOR_USERS:
        warnings.filterwarnings("ignore", message=message)
