"""The module path for the user's own modules, for names such as `package.module:name`."""

from __future__ import annotations

import sys
from pathlib import Path


def reach(*folders: Path) -> None:
    """Add these folders to the path of such names, after all that is installed."""
    for folder in folders:
        place = str(folder.resolve())
        if place not in sys.path:
            sys.path.append(place)
