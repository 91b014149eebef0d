"""The parts of each request's time: its life cut into parts that add up to the last picosecond."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Final

MEANING: Final = {
    "gateway": "held at the gateway: the router decided so, or others of its group were held first",
    "no_replica": "held because no replica could take it: starting, draining or gone",
    "retry": "rejected, until its client tried again",
    "lost": "lost with a replica, and recomputed",
    "queue": "in an engine's queue",
    "prefill": "its prompt, alone, less what a cache that never evicts would have held",
    "miss": "tokens of its prompt that a cache that never evicts would have held",
    "prefill_others": "what others added to its prompt's steps, their steps in between, and setups",
    "link_wait": "its KV waited for a link",
    "transfer": "its KV was on a link",
    "decode": "its output, alone",
    "decode_others": "what others added to its output's steps, their steps in between, and setups",
    "moving": "stood still while the last of its KV went to another replica",
    "idle": "admitted, while its engine ran no step",
    "preempted": "waited again, computed again or swapped after it gave way",
    "slow": "what a slow or lost device added to its steps and those in between",
}
"""The parts of a request's time, in about their usual order, and the meaning of each."""

PARTS: Final = tuple(MEANING)
"""Their names; the constants that follow are places in it."""

GATEWAY: Final = 0
NO_REPLICA: Final = 1
RETRY: Final = 2
LOST: Final = 3
QUEUE: Final = 4
PREFILL: Final = 5
MISS: Final = 6
PREFILL_OTHERS: Final = 7
LINK_WAIT: Final = 8
TRANSFER: Final = 9
DECODE: Final = 10
DECODE_OTHERS: Final = 11
MOVING: Final = 12
IDLE: Final = 13
PREEMPTED: Final = 14
SLOW: Final = 15

IN_ENGINE: Final = range(QUEUE, len(PARTS))
"""Parts that a request spends at a replica, which is what a loss throws away."""


def _columns(rows: int) -> list[array[int]]:
    return [array("q", bytes(8 * rows)) for _ in PARTS]


@dataclass(slots=True)
class Blame:
    """Columns over requests (index = request id), one for each of `PARTS`, in picoseconds; 256 bytes a row.

    ttft: up to the first token, or to the end where there never was one.  rest: from there to the end.
    A row of `ttft` adds up to the request's TTFT, and both together to its end (or that of the run) less its arrival.
    """

    rows: int
    ttft: list[array[int]] = field(init=False)
    rest: list[array[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.ttft, self.rest = _columns(self.rows), _columns(self.rows)
