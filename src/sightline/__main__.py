"""`python -m sightline`, for launchers that start modules."""

import sys

from sightline.cli import main

sys.exit(main())
