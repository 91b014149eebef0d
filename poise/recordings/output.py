"""Where a command prints its text: standard error where its JSON goes to standard output."""

from __future__ import annotations

import sys
from typing import TextIO


def spoken(json: str | None) -> TextIO:
    """Standard output; standard error if the JSON goes there (`-`)."""
    return sys.stderr if json == "-" else sys.stdout
