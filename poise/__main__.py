"""`python -m poise`."""

from __future__ import annotations

import sys

from poise.cli import main

if __name__ == "__main__":
    sys.exit(main())
