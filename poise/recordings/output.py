"""Where a command's sentences go while its JSON goes to a file, or to standard output."""

from __future__ import annotations

import sys
from typing import TextIO


def spoken(json: str | None) -> TextIO:
    """Standard output; beside JSON there (`-`), standard error."""
    return sys.stderr if json == "-" else sys.stdout
