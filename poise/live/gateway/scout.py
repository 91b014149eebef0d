"""Goes ahead to the engines: finds out what they are, whether they are well, and how loaded; and tells the world."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import msgspec

from poise.core.event import Measured
from poise.core.spec import ReplicaSpec
from poise.core.units import SECOND
from poise.live.gateway.fleet import DRAINING, SERVING, STARTING, Engine, EngineAt
from poise.live.know.health import Eject, Health, Outcome, Restore, Transition
from poise.live.know.metrics import Reading, read
from poise.live.wire.call import Call, Failure

if TYPE_CHECKING:
    from poise.live.gateway.desk import Desk
    from poise.live.gateway.world import World

log = logging.getLogger("poise.gateway")

OUTCOMES: Final = {
    "": Outcome.OK,
    "refused": Outcome.REFUSED,
    "dns": Outcome.REFUSED,
    "reset": Outcome.RESET,
    "cut": Outcome.RESET,
    "timeout": Outcome.TIMEOUT,
    "garbage": Outcome.GARBAGE,
    "status": Outcome.ERROR,
}
"""What a request's end says of its engine."""
LARGEST: Final = 4 << 20
"""Bytes of an engine's page that are read."""


class Page:
    """Hears of one page that was asked for, and hands it on: status and bytes, or 0 and why there is none."""

    __slots__ = ("_body", "_done", "_status")

    def __init__(self, done: Callable[[int, bytes], None]) -> None:
        self._done = done
        self._status = 0
        self._body: list[bytes] = []

    def head(self, status: int, headers: list[tuple[bytes, bytes]]) -> None:
        """It began."""
        self._status = status

    def data(self, data: bytes) -> None:
        """A part of it."""
        if len(self._body) < LARGEST >> 12:
            self._body.append(data)

    def end(self) -> None:
        """It is complete."""
        self._done(self._status, b"".join(self._body))

    def failed(self, why: Failure) -> None:
        """There is none."""
        self._done(0, why.kind.encode())


class Visit:
    """One engine as the scout goes round: what is asked for just now, and what was learned.

    asked_at: when a page was asked for, picoseconds; 0 for none.  told_at: when the last one that came was.  failed: visits in a row without an answer.
    metrics: whether it has a page of metrics.  limit: its longest request in tokens, 0 for unknown.
    """

    __slots__ = ("asked_at", "call", "engine", "failed", "limit", "metrics", "reading", "told_at")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.call: Call | None = None
        self.asked_at = self.told_at = 0
        self.failed = 0
        self.metrics = True
        self.limit = 0
        self.reading: Reading | None = None


class Scout:
    """Visits each engine every `period_s`, gives a visit up after `timeout_s`, and keeps the circuits.

    An engine joins once it has told its models (`/v1/models`); its metrics are then looked at on every visit, as
    `Measured` events with the instant at which they were asked for. What does not answer `lost` visits in a row is
    dead, and so is its cache.
    """

    def __init__(
        self, world: World, desk: Desk, *, period_s: float = 0.5, timeout_s: float = 2.0, lost: int = 2
    ) -> None:
        self._world = world
        self._desk = desk
        self._period, self._timeout = int(period_s * SECOND), int(timeout_s * SECOND)
        self._lost = lost
        self._next_at = 0
        self.health = Health()
        self.visits: dict[int, Visit] = {}

    def add(self, at: EngineAt) -> Engine | None:
        """Take up an engine; None where there is no slot left."""
        engine = self._world.fleet.add(at)
        if engine is None:
            log.error("no slot is left for engine %s: raise `slots`", at.name)
            return None
        self.visits[engine.slot] = Visit(engine)
        self.health.join(engine.slot, self._world.clock())
        self._ask_models(self.visits[engine.slot])
        return engine

    def remove(self, engine: Engine) -> None:
        """Let an engine go: it gets nothing more, and ends what it has."""
        visit = self.visits.pop(engine.slot, None)
        if visit is not None:
            self._stop(visit)
            self._act(self.health.leave(engine.slot, self._world.clock()))
        self._world.fleet.remove(engine)

    def note(self, engine: Engine, kind: str, well: bool) -> None:
        """A request ended at an engine."""
        if engine.slot in self.visits:
            now = self._world.clock()
            self._act(self.health.outcome(engine.slot, OUTCOMES[kind], now, now))

    def tick(self) -> None:
        """Time went on."""
        now = self._world.clock()
        self._act(self.health.tick(now))
        for visit in self.visits.values():
            if visit.asked_at and now - visit.asked_at > self._timeout:
                self._stop(visit)
                self._unanswered(visit, b"timeout")
        if now >= self._next_at:
            self._next_at = now + self._period
            for visit in list(self.visits.values()):
                if not visit.asked_at:
                    self._visit(visit)

    async def close(self) -> None:
        """Visit nobody any more."""
        for visit in self.visits.values():
            self._stop(visit)
        self.visits.clear()

    # Visits ----------------------------------------------------------------------------------------------------------

    def _visit(self, visit: Visit) -> None:
        if visit.engine.status == STARTING:
            self._ask_models(visit)
        elif visit.metrics:
            self._get(visit, b"/metrics", self._metrics)
        else:
            self._get(visit, b"/v1/models", self._alive)

    def _ask_models(self, visit: Visit) -> None:
        self._get(visit, b"/v1/models", self._models)

    def _get(self, visit: Visit, target: bytes, done: Callable[[Visit, int, bytes], None]) -> None:
        def came(status: int, body: bytes) -> None:
            visit.call, visit.told_at, visit.asked_at = None, visit.asked_at, 0
            if status:
                visit.failed = 0
                done(visit, status, body)
            else:
                self._unanswered(visit, body)

        visit.asked_at = self._world.clock()
        headers = [(b"accept", b"*/*"), *visit.engine.headers([])]
        visit.call = visit.engine.pool.send(b"GET", target, headers, b"", Page(came))

    def _stop(self, visit: Visit) -> None:
        if visit.call is not None:
            visit.call.cancel()
        visit.call, visit.asked_at = None, 0

    def _unanswered(self, visit: Visit, kind: bytes) -> None:
        visit.failed += 1
        engine, now = visit.engine, self._world.clock()
        if engine.slot in self.visits and engine.status != STARTING:
            self._act(self.health.checked(engine.slot, OUTCOMES.get(kind.decode(), Outcome.RESET), now))
        if visit.failed >= self._lost and engine.status not in (STARTING, DRAINING) and kind != b"timeout":
            log.warning("engine %s does not answer (%s): its cache is taken for lost", engine.name, kind.decode())
            for trip in self._world.on(engine.slot):
                if trip.call is not None:
                    trip.stop()
                    trip.failed(Failure("reset", "the engine is gone", False))
            self._world.fleet.lose(engine)

    # What they tell --------------------------------------------------------------------------------------------------

    def _models(self, visit: Visit, status: int, body: bytes) -> None:
        """The engine's models: it is ready."""
        engine = visit.engine
        if status >= 500:
            return
        rows = _rows(body) if status == 200 else []
        if not engine.at.models:
            engine.models = tuple(row["id"] for row in rows if not row.get("parent"))
        visit.limit = min((int(row.get("max_model_len") or 0) for row in rows), default=0)
        for row in rows:
            if row.get("parent"):
                self._desk.adopt(row["id"], str(row["parent"]))
        self._get(visit, b"/metrics", self._first_metrics)

    def _first_metrics(self, visit: Visit, status: int, body: bytes) -> None:
        """What the engine's metrics say of its cache, if it has any: then it joins."""
        reading = read(body) if status == 200 else "none"
        visit.metrics = isinstance(reading, Reading)
        visit.reading = reading if isinstance(reading, Reading) else None
        engine = visit.engine
        self._world.fleet.join(engine, self._spec(visit))
        log.info("engine %s joined: %s", engine.name, ", ".join(engine.models) or "any model")

    def _spec(self, visit: Visit) -> ReplicaSpec:
        at, reading, names = visit.engine.at, visit.reading, visit.engine.models
        blocks = reading.total_blocks if reading else 0
        tokens = blocks * reading.block_tokens if reading else 0
        return ReplicaSpec(
            model=self._desk.models.number(names[0]) if len(names) == 1 else -1,
            role=at.role,
            capacity_tokens=visit.limit or tokens or 1 << 40,
            cache_tokens=tokens or 1 << 40,
            up=False,
            blocks=blocks,
            prefill_rate=at.prefill_rate,
        )

    def _metrics(self, visit: Visit, status: int, body: bytes) -> None:
        now, engine = self._world.clock(), visit.engine
        reading = read(body) if status == 200 else None
        if isinstance(reading, Reading):
            visit.reading = reading
            self._world.turn(Measured(now, visit.told_at, engine.slot, reading.columns))
            self._alive(visit, status, body)

    def _alive(self, visit: Visit, status: int, body: bytes) -> None:
        """It answers: that closes a circuit, bit by bit."""
        engine, now = visit.engine, self._world.clock()
        if engine.status not in (STARTING, DRAINING):
            result = Outcome.OK if status < 500 else Outcome.ERROR
            self._act(self.health.checked(engine.slot, result, now))

    def _act(self, transitions: list[Transition]) -> None:
        for each in transitions:
            visit = self.visits.get(each.engine)
            if visit is None:
                continue
            engine = visit.engine
            if isinstance(each, Eject):
                log.warning("engine %s is ejected: %s", engine.name, each.reason)
                self._world.fleet.eject(engine)
            elif isinstance(each, Restore) and engine.status != SERVING:
                log.info("engine %s is back", engine.name)
                if engine.status != STARTING:
                    self._world.fleet.join(engine, engine.spec)


def _rows(body: bytes) -> list[dict[str, Any]]:
    """The models of a `/v1/models` page; none where it is something else."""
    try:
        page = msgspec.json.decode(body)
    except msgspec.DecodeError:
        return []
    rows = page.get("data") if isinstance(page, dict) else None
    return [row for row in rows or [] if isinstance(row, dict) and isinstance(row.get("id"), str)]
