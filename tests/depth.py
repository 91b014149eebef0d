"""How many examples costly properties draw: some of them in `make test`, all of them in `make test-slow`."""

import os
from typing import Final

DEEP: Final = os.environ.get("POISE_DEEP") == "1"


def examples(count: int) -> int:
    """All of `count` where POISE_DEEP is 1, as in `make test-slow`, otherwise the first eighth of them.

    The test must be marked `deep`, or nothing draws the others.
    """
    return count if DEEP else count // 8
