"""The engines as the gateway sees them: address, health, and the replica number that policies use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from poise.core.event import Draining, Event, ReplicaJoined, ReplicaLeft, ReplicaLost, ReplicaUpdated
from poise.core.spec import ReplicaSpec, Role
from poise.live.discovery.address import Engine as Place
from poise.live.http.call import Call, ResponseHandler
from poise.live.http.exchange import Exchange
from poise.live.http.pool import Pool

FREE, STARTING, SERVING, EJECTED, DRAINING, DOWN = "free", "starting", "serving", "ejected", "draining", "down"
STATES = (STARTING, SERVING, EJECTED, DRAINING, DOWN)
"""The states of an engine: not yet probed, in use, paused, draining, dead."""
BUSY = frozenset({408, 425, 429})
"""Statuses of an engine that cannot answer now, which count as a failure of neither the engine nor the client."""


@dataclass(frozen=True, slots=True)
class EngineAt:
    """An engine's address and its configured properties.

    api_key: sent to it in place of the client's.  models: their names, empty to probe.  prefill_rate: prompt tokens
    per second, 0 for unknown.  kv_events, kv_replay: endpoints of its KV events, empty for none; kv_topic: their topic.
    hints: whether requests carry the time for which to keep the KV of their session.
    """

    place: Place
    role: Role = "mixed"
    models: tuple[str, ...] = ()
    api_key: str = field(default="", repr=False)
    prefill_rate: float = 0.0
    kv_events: str = ""
    kv_replay: str = ""
    kv_topic: str = ""
    hints: bool = False

    @property
    def name(self) -> str:
        """The URL as shown and recorded."""
        return self.place.name


Note = Callable[["Engine", str, bool, int], None]
"""Callback: the engine, the failure ("" for none), whether it succeeded, and when the request was sent."""


class Engine:
    """One engine. slot: its number among replicas.  sent: requests sent so far, `hedges` of them as second copies, of
    which `hedges_won` were answered here.  status: one of the words above.  down_at: when it was found dead, in
    picoseconds, -1 while it is not.  failures: requests that it did not answer, by kind.
    adapters: names of the adapters (LoRA) that it lists.
    """

    __slots__ = (
        "adapters", "at", "down_at", "failures", "hedges", "hedges_won", "models", "name", "note", "pool", "sent",
        "slot", "spec", "status",
    )  # fmt: skip

    def __init__(self, at: EngineAt, slot: int, pool: Pool, note: Note) -> None:
        self.at = at
        self.name = at.name
        self.slot = slot
        self.pool = pool
        self.status = STARTING
        self.models: tuple[str, ...] = at.models
        self.adapters: frozenset[str] = frozenset()
        self.spec = ReplicaSpec(role=at.role, prefill_rate=at.prefill_rate, up=False)
        self.sent = self.hedges = self.hedges_won = 0
        self.down_at = -1
        self.failures: dict[str, int] = {}
        self.note = note

    @property
    def absent(self) -> bool:
        """Whether it must be probed before it is sent anything: it is new, or was found dead."""
        return self.status in (STARTING, DOWN)

    def target(self, target: bytes) -> bytes:
        """The target of a client's request, as forwarded."""
        return self.at.place.path.encode() + target if self.at.place.path else target

    def headers(self, headers: Sequence[tuple[bytes, bytes]]) -> Sequence[tuple[bytes, bytes]]:
        """The headers of a client's request, as forwarded: with the engine's own key where it has one."""
        if not self.at.api_key:
            return headers
        kept = [each for each in headers if each[0] not in (b"authorization", b"x-api-key")]
        return [*kept, (b"authorization", b"Bearer " + self.at.api_key.encode())]

    def post(self, exchange: Exchange, body: bytes, handler: ResponseHandler, fresh: bool = False) -> Call:
        """Send a client's request with this body; `handler` receives the answer.  fresh: on a new connection."""
        target = self.target(exchange.target)
        headers = self.headers(exchange.headers) if self.at.api_key else exchange.lines()
        return self.pool.send(exchange.method.encode(), target, headers, body, handler, fresh)

    def well(self, sent_at: int) -> None:
        """It answered."""
        self.note(self, "", True, sent_at)

    def failed(self, kind: str, its_fault: bool, sent_at: int) -> None:
        """A request failed there; `its_fault`: whether the engine is to blame."""
        self.failures[kind] = self.failures.get(kind, 0) + 1
        if its_fault:
            self.note(self, kind, False, sent_at)

    def refused(self, status: int, sent_at: int) -> None:
        """The engine answered a request with an error; a client's own error (4xx) is not a failure of the engine."""
        if status >= 500:
            self.failed("status", True, sent_at)
        elif status in BUSY:
            self.failed("busy", False, sent_at)


class Fleet:
    """All engines by slot; the slot of a removed engine may be reused.

    connect: opens the connections to an engine.  clock: picoseconds.  turn: receives changes, as events.
    busy: whether a slot has requests in flight.  note: callback for the outcome of each request at an engine.
    shortest: the smallest length limit of the engines so far, in tokens.
    """

    def __init__(
        self,
        slots: int,
        connect: Callable[[EngineAt], Pool],
        clock: Callable[[], int],
        turn: Callable[[Event], None],
        busy: Callable[[int], bool],
        note: Note,
    ) -> None:
        self.slots: list[Engine | None] = [None] * slots
        self._connect = connect
        self._clock = clock
        self._turn = turn
        self._busy = busy
        self._note = note
        self._leaving: list[Pool] = []
        self.shortest = 1 << 40

    def __iter__(self) -> Iterator[Engine]:
        return iter([engine for engine in self.slots if engine is not None])

    def engine(self, slot: int) -> Engine:
        """The engine of a slot, which must have one."""
        engine = self.slots[slot]
        assert engine is not None, f"slot {slot} is empty"
        return engine

    @property
    def serving(self) -> list[Engine]:
        """Those that requests are sent to."""
        return [engine for engine in self.slots if engine is not None and engine.status == SERVING]

    def longest(self, model: int) -> int:
        """The longest request, in tokens, that an engine serving `model` takes now; 0 where there is none."""
        return max((each.spec.capacity_tokens for each in self.serving if each.spec.model in (-1, model)), default=0)

    def add(self, at: EngineAt) -> Engine | None:
        """Give an engine a slot; None where all are taken."""
        for slot, taken in enumerate(self.slots):
            if taken is None:
                engine = self.slots[slot] = Engine(at, slot, self._connect(at), self._note)
                return engine
        return None

    def join(self, engine: Engine, spec: ReplicaSpec) -> None:
        """An engine is ready; these are its properties."""
        if engine.status in (SERVING, DRAINING):
            return
        if spec != engine.spec or engine.absent:
            engine.spec = spec
            self.shortest = min(self.shortest, spec.capacity_tokens)
            self._turn(ReplicaUpdated(self._clock(), engine.slot, spec))
        engine.status, engine.down_at = SERVING, -1
        self._turn(ReplicaJoined(self._clock(), engine.slot))

    def eject(self, engine: Engine) -> None:
        """Pause an engine: no requests for a while."""
        if engine.status == SERVING:
            engine.status = EJECTED
            self._turn(Draining(self._clock(), engine.slot))

    def lose(self, engine: Engine) -> None:
        """Mark an engine as dead and drop its cache; its requests have been notified before."""
        if engine.status in (SERVING, EJECTED):
            engine.status, engine.down_at = DOWN, self._clock()
            self._turn(ReplicaLost(engine.down_at, engine.slot))

    def remove(self, engine: Engine) -> None:
        """Drain an engine: no new requests; it leaves when its running ones are done."""
        if engine.status != DRAINING:
            engine.status = DRAINING
            self._turn(Draining(self._clock(), engine.slot))
        self.leave_if_idle(engine)

    def stay(self, engine: Engine) -> None:
        """Return a draining engine to service."""
        if engine.status == DRAINING and self.slots[engine.slot] is engine:
            engine.status = SERVING
            self._turn(ReplicaJoined(self._clock(), engine.slot))

    def leave_if_idle(self, engine: Engine) -> None:
        """Remove a draining engine with nothing in flight."""
        if engine.status == DRAINING and not self._busy(engine.slot):
            self.slots[engine.slot] = None
            self._turn(ReplicaLeft(self._clock(), engine.slot))
            self._leaving.append(engine.pool)

    async def close(self) -> None:
        """Close all connections."""
        for pool in [*self._leaving, *(engine.pool for engine in self.slots if engine is not None)]:
            await pool.close()
        self._leaving.clear()
