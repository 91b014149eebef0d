"""The log of one request's events: the material of a story."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from poise.core.action import Action, Dispatch, Hedge, Move, Refuse, Wake
from poise.core.event import Arrived, Cancelled, Event, FirstToken, MoveFailed, Refused, Reported
from poise.core.view import REPORTED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from poise.core.action import Decision
    from poise.core.chance import Chance
    from poise.core.control.control import Control
    from poise.core.engine.replica import Replica
    from poise.core.policy import Router
    from poise.core.request import RequestView
    from poise.core.view import ClusterView

COUNTED = ("requests", *REPORTED)
"""Columns of a router's view that a log keeps, besides `cached_tokens`."""


class LogEntry(NamedTuple):
    """One event, at `at` (picoseconds) and at `replica` (-1: the gateway), and its details.

    arrived, came_back: prompt_tokens, attempt.  decided: see `LogWriter`.  sent: to, decode, resume.
    refused, left: reason.  turned_down: reason, by the engine.
    queued: waiting (requests before it), tokens (of prompts before its own), running, produced, source (of its KV).
    admitted: computed (tokens that are there), need, ideal (that a cache which never evicts would have), swapped.
    computed: tokens, before (those computed earlier), took; own, miss, again: see `Account`; whole: to the step's end.
    first_token.  decodes: produced.  pulling: tokens, source.  pulled: waited (for the link), took.
    preempted: tokens, swapped.  moves: to.  stayed: to, reason.  stands: produced.  moved: source, stood.
    lost.  again: from its first token.  copied: to.  goes_on: as its copy, at the replica of the happening.
    """

    at: int
    what: str
    replica: int
    details: dict[str, Any]


class RequestLog:
    """The log of request `row`. It gets events and actions as a `Trace` does, and the rest from `Detailed`.

    happenings: in their order.  replicas: those of the world.  now: what time it is.
    """

    def __init__(self, row: int) -> None:
        self.row = row
        self.happenings: list[LogEntry] = []
        self.replicas: list[Replica] = []
        self.measured: dict[int, int] = {}
        self.now = 0

    def of(self, row: int) -> RequestLog | None:
        """The log of a request; None where it has none."""
        return self if row == self.row else None

    def watch(self, controls: list[Control], replicas: list[Replica]) -> None:
        """Be called when a router decides on the request."""
        self.replicas = replicas
        for number, control in enumerate(controls):
            control.router = LogWriter(control.router, self, number)

    def note(self, at: int, what: str, replica: int = -1, **details: Any) -> None:
        """Log one entry."""
        self.happenings.append(LogEntry(at, what, replica, details))

    def add(self, item: Event | Action, gateway: int = 0) -> None:
        """Log the part of a gateway's event or action that concerns the request."""
        if isinstance(item, Dispatch | Refuse | Move | Hedge):
            if item.request == self.row:
                self._act(item)
        elif isinstance(item, Reported):
            self.now, self.measured[gateway] = item.at, item.measured_at
        elif isinstance(item, Arrived):
            self.now = item.at
            if item.request.id == self.row:
                what = "came_back" if item.attempt else "arrived"
                self.note(item.at, what, prompt_tokens=item.request.prompt_tokens, attempt=item.attempt)
        elif not isinstance(item, Wake):  # whose instant is yet to come
            self.now = getattr(item, "at", self.now)
            if getattr(item, "request", -1) == self.row:
                self._hear(item)

    def _act(self, action: Dispatch | Refuse | Move | Hedge) -> None:
        if isinstance(action, Dispatch):
            self.note(self.now, "sent", to=action.replica, decode=action.decode, resume=action.resume)
        elif isinstance(action, Refuse):
            self.note(self.now, "refused", reason=action.reason)
        elif isinstance(action, Hedge):
            self.note(self.now, "copied", to=action.replica)
        else:
            self.note(self.now, "moves", action.source, to=action.target)

    def _hear(self, event: Event | Action) -> None:
        if isinstance(event, FirstToken):
            self.note(event.at, "first_token", event.replica)
        elif isinstance(event, Refused):
            self.note(event.at, "turned_down", event.replica, reason=event.reason)
        elif isinstance(event, MoveFailed):
            self.note(event.at, "stayed", event.source, to=event.target, reason=event.reason)
        elif isinstance(event, Cancelled):
            self.note(event.at, "left", reason=event.reason)


class RequestLogs:
    """The logs of several requests, kept in one run; each is what it would be alone."""

    def __init__(self, rows: Iterable[int]) -> None:
        self.logs = {row: RequestLog(row) for row in rows}
        self.now = 0

    def of(self, row: int) -> RequestLog | None:
        """The log of a request; None where it has none."""
        return self.logs.get(row)

    def watch(self, controls: list[Control], replicas: list[Replica]) -> None:
        """Be called when a router decides on one of the requests."""
        for book in self.logs.values():
            book.replicas = replicas
        for number, control in enumerate(controls):
            control.router = LogWriter(control.router, self, number)

    def add(self, item: Event | Action, gateway: int = 0) -> None:
        """Give an event or an action of a gateway to the request that it concerns, a report to all."""
        if isinstance(item, Wake):
            return  # its instant is yet to come
        self.now = getattr(item, "at", self.now)
        if isinstance(item, Reported):
            for book in self.logs.values():
                book.add(item, gateway)
            return
        row = item.request.id if isinstance(item, Arrived) else getattr(item, "request", -1)
        concerned = self.logs.get(row)
        if concerned is not None:
            concerned.now = self.now
            concerned.add(item, gateway)


class LogWriter:
    """A router that decides as `router` does, and logs its view of the request.

    able: the replicas to choose from.  saw: the columns that it reads, at those replicas.  age: of the reports in them,
    picoseconds (None: it reads none).  decision: its answer.  stage: `decode` where half of a P/D pair was chosen.
    """

    def __init__(self, router: Router, diary: RequestLog | RequestLogs, gateway: int) -> None:
        self.router = router
        self.diary = diary
        self.gateway = gateway

    @property
    def needs(self) -> tuple[str, ...]:
        """The columns of the router."""
        return tuple(getattr(self.router, "needs", ()))

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Decision:
        """The router's decision."""
        diary = self.diary.of(request.id)
        if diary is None:
            return self.router.route(request, cluster, chance)
        able, saw = list(cluster.able(request)), {}
        for name in self.needs:
            if name in COUNTED:
                column = getattr(cluster, name)
                saw[name] = [column[replica] for replica in able]
            elif name == "cached_tokens":
                cached = cluster.cached_tokens(request)
                saw[name] = [cached[replica] for replica in able]
        measured = diary.measured.get(self.gateway)
        age = cluster.now - measured if measured is not None and set(saw) & set(REPORTED) else None
        decision = self.router.route(request, cluster, chance)
        diary.note(
            cluster.now, "decided", router=type(self.router).__name__, decision=decision, able=able, saw=saw, age=age,
            stage=cluster.stage, gateway=self.gateway,
        )  # fmt: skip
        return decision
