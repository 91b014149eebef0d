"""Where the user's own modules are found, wherever something is named as `package.module:name`."""

from __future__ import annotations

import sys
from pathlib import Path


def reach(*folders: Path) -> None:
    """Let such names be of modules in these folders, behind all that is installed."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)
