"""When a run ends, what is kept of it and its callbacks: settings apart from what is simulated."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from poise.core.records.records import Run
    from poise.core.records.request_log import RequestLog, RequestLogs
    from poise.core.records.trace import Trace
    from poise.sim.world import World


@dataclass(frozen=True, slots=True)
class Stopping:
    """When a run ends.

    until_s: seconds after which there are no arrivals, None for never.  drain: what has arrived by then is finished,
    else the run stops there.  enough: called now and then with the run so far and the instant (ps); true ends the run
    there, marked as interrupted.
    """

    until_s: float | None = None
    drain: bool = True
    enough: Callable[[Run, int], bool] | None = None


@dataclass(frozen=True, slots=True)
class Saving:
    """What is kept besides the records of requests.

    sample_s: the period of a timeline of the replicas, 0 for none.  slices: a timeline of their batches.
    trace: takes events and actions.  blame: charge the time of every request to its parts, for `Run.blame`.
    diary: of some requests, with blame, instead of a trace.
    """

    sample_s: float = 0.0
    slices: bool = False
    trace: Trace | None = None
    blame: bool = False
    diary: RequestLog | RequestLogs | None = None


@dataclass(frozen=True, slots=True)
class Watching:
    """Callbacks. progress: called now and then with (requests ended, requests).  after_event: after each event."""

    progress: Callable[[int, int], None] | None = None
    after_event: Callable[[World], None] | None = None


TO_THE_END = Stopping()
NOTHING = Saving()
UNSEEN = Watching()
