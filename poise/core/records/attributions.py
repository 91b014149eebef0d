"""Latency attribution of all running requests, driven by the simulator's events."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

from poise.core.estimate import Chunk, StepShape
from poise.core.records.attribution import Attribution, Clock
from poise.core.records.blame import Blame
from poise.core.records.detailed import LoggedAttribution
from poise.core.request import Phase, RequestView

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica
    from poise.core.records.request_log import RequestLog, RequestLogs
    from poise.core.request import Sequence as Running


REMEMBERED: Final = 1 << 16
"""Chunks whose time alone is cached."""


class Attributions:
    """Opens an attribution for each request that arrives, and closes it at the request's end.

    blame: the parts charged so far.  clock: the world's.  served: whether some replica could take a request now.
    ideal: prompt tokens of each request that a cache of infinite size would hold; None where nothing is shared.
    diary: the log of the requests with detailed attribution.
    """

    def __init__(
        self,
        rows: int,
        clock: Clock,
        served: Callable[[RequestView], bool],
        ideal: Sequence[int] | None = None,
        diary: RequestLog | RequestLogs | None = None,
    ) -> None:
        self.blame = Blame(rows)
        self.clock = clock
        self.served = served
        self._ideal = ideal
        self._diary = diary
        self._open: dict[int, Attribution] = {}
        self._known: dict[tuple[int, float, tuple[int, int, int, int]], int] = {}

    def arrive(self, request: RequestView) -> None:
        """A client sends a request for the first time."""
        diary = self._diary.of(request.id) if self._diary is not None else None
        if diary is None:
            self._open[request.id] = Attribution(request, self)
        else:
            self._open[request.id] = LoggedAttribution(request, self, diary)

    def leave(self, row: int) -> None:
        """A request is rejected, and its client will retry."""
        self._open[row].leave()

    def come_back(self, row: int) -> None:
        """Its client retries."""
        self._open[row].come_back()

    def queue(self, running: Running, replica: Replica) -> None:
        """A request joins the queue of a replica."""
        row = running.request.id
        self._open[row].queue(running, replica, 0 if self._ideal is None else self._ideal[row])

    def send(self, row: int, at: int) -> None:
        """The KV of a request gets onto the link at `at`."""
        self._open[row].wire_at = at

    def first_token(self, row: int) -> None:
        """The client of a request has its first token."""
        self._open[row].columns = self.blame.rest

    def go_over(self, running: Running, replica: Replica) -> None:
        """A request that moved while it decoded continues at another replica."""
        self._open[running.request.id].go_over(running, replica)

    def follow(self, running: Running, replica: Replica) -> None:
        """Of two copies of a request this one is left."""
        account = self._open.get(running.request.id)
        if account is not None:
            account.follow(running, replica)

    def lose(self, row: int, replica: Replica | None = None) -> None:
        """The replica of a request is lost, or its partner's; `replica`: only if the request is there itself."""
        account = self._open.get(row)
        if account is None or account.sequence is None:
            return  # its client left, or the loss is charged already
        if replica is None or account.replica is replica:
            account.lose()

    def start_again(self, row: int) -> None:
        """The tokens that a client had from a lost replica are made again."""
        self._open[row].start_again()

    def settle_held(self) -> None:
        """Replicas are about to join or leave: charge the waiting requests up to now."""
        for account in self._open.values():
            if account.phase == Phase.HELD:
                account.settle()

    def end(self, row: int) -> None:
        """A request has ended."""
        account = self._open.pop(row, None)
        if account is not None:
            if account.since != self.clock.now:
                account.cut(self.clock.now)
            if account.sequence is not None:
                account.detach()

    def close(self, now: int) -> None:
        """The run is over at `now`: charge the requests still running."""
        for account in self._open.values():
            account.cut(max(now, account.since))

    def alone(self, lane: LaneState, chunk: tuple[int, int, int, int]) -> int:
        """Picoseconds of one chunk alone on a lane, remembered: lengths repeat, and estimators take their time.

        chunk: the fields of a `Chunk`.
        """
        share = lane.spec.share
        key = id(lane.replica.estimator), share, chunk
        time = self._known.get(key)
        if time is None:
            if len(self._known) == REMEMBERED:
                self._known.clear()
            time = self._known[key] = lane.replica.estimator.step(StepShape(0, (Chunk(*chunk),), share)).base
        return time
