"""`python -m sightline`, and `accelerate launch -m sightline`."""

from __future__ import annotations

import sys

from sightline.cli import command

if __name__ == "__main__":
    sys.exit(command())
