"""The outcomes of a replica's turn, for each sequence that it concerns."""

from __future__ import annotations

from typing import Final

from poise.core.request import Sequence

FIRST_TOKEN: Final = 0
DONE: Final = 1
PREFILLED: Final = 2
PULL: Final = 3
PREEMPTED: Final = 4
PARKED: Final = 5
"""What a turn may report of a sequence: its first token is made, its output is complete, its prompt is ready to be
fetched by the decode replica, its KV is to be fetched from `source`, it was preempted, it is paused to be moved."""

Outcome = tuple[int, Sequence]
