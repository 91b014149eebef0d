"""Probes engines for identity, health and load, and publishes the result as events."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

import msgspec

from poise.core.chance import Chance
from poise.core.event import AdaptersChanged, Measured
from poise.core.spec import ReplicaSpec
from poise.live.gateway.fleet import DRAINING, SERVING, Engine, EngineAt
from poise.live.http.call import Failure
from poise.live.telemetry.health import Eject, Health, Outcome, Restore, Transition
from poise.live.telemetry.metrics import Reading, read
from poise.live.telemetry.poll import FAILURES, Every, Poll, PollResult

if TYPE_CHECKING:
    from poise.live.gateway.api import Api
    from poise.live.gateway.caches import Caches
    from poise.live.gateway.world import World

log = logging.getLogger("poise.gateway")

OUTCOMES: Final[dict[str, Outcome]] = {
    "": Outcome.OK,
    "status": Outcome.ERROR,
    **{str(kind): outcome for kind, outcome in FAILURES.items()},
}
"""What a request's end says of its engine."""
LONGEST: Final = 200
"""Letters of a model's name."""
MODELS: Final = 10_000
"""Models of one engine, adapters included."""
MOST_TOKENS: Final = 64_000_000
"""Largest KV cache size accepted from an engine: the prefixes remembered for it take the gateway's own memory."""
NAMES_EVERY: Final = 10
"""Periods of a probe between two looks at an engine's models, for adapters that were loaded or unloaded since."""
GONE: Final = ("refused", "dns", "reset")
"""Probe failures that mean that no server is there; the others may be slowness."""


Adapters = tuple[int, tuple[int, ...], tuple[int, ...]]
"""Slots, and the numbers of the adapters that run and that wait."""


class Probe:
    """State of the probes of one engine.

    failed: consecutive probes that found no server.  metrics: whether it has a metrics page.  limit: its longest
    request in tokens, 0 for unknown.  reading: its last metrics.  adapters: the last that was published of them.
    """

    __slots__ = ("adapters", "engine", "failed", "limit", "looks", "metrics", "models", "names", "reading")

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.failed = 0
        self.limit = 0
        self.metrics = True
        self.reading: Reading | None = None
        self.models: Poll | None = None
        self.looks: Poll | None = None
        self.names: Poll | None = None
        self.adapters: Adapters | None = None


class EngineProber:
    """Probes each engine's models and metrics periodically, and keeps the circuit breakers.

    An engine joins when it has returned its models (`/v1/models`) and its metrics, if it has any; after that each probe
    of them is a `Measured` event. An engine that fails `lost` consecutive probes is dead, and its cache is dropped.
    """

    def __init__(
        self, world: World, api: Api, caches: Caches, *, every: Every | None = None, lost: int = 2, seed: int = 0
    ) -> None:
        self._world = world
        self._desk = api
        self._caches = caches
        self._every = every or Every(period_s=0.5)
        self._lost = lost
        self._seed = seed
        self.health = Health()
        self.visits: dict[int, Probe] = {}

    def add(self, at: EngineAt) -> Engine | None:
        """Add an engine; None where no slot is free."""
        engine = self._world.fleet.add(at)
        if engine is None:
            log.error("no slot is left for engine %s: raise `slots`", at.name)
            return None
        self._look_after(engine)
        return engine

    def _look_after(self, engine: Engine) -> None:
        visit = self.visits[engine.slot] = Probe(engine)
        self.health.join(engine.slot, self._world.clock())
        visit.models = self._poll(visit, b"/v1/models", self._models)
        self._caches.add(engine)

    def keep(self, engine: Engine) -> None:
        """Keep a draining engine that has not left."""
        self._world.fleet.stay(engine)
        if engine.slot not in self.visits:
            self._look_after(engine)

    def remove(self, engine: Engine) -> None:
        """Drain an engine: it gets no new requests and finishes its running ones."""
        visit = self.visits.pop(engine.slot, None)
        if visit is not None:
            _stop(visit)
            self._caches.remove(engine)
            self._act(self.health.leave(engine.slot, self._world.clock()))
        self._world.fleet.remove(engine)

    def note(self, engine: Engine, kind: str, well: bool, sent_at: int) -> None:
        """A request that was sent at `sent_at` ended at an engine."""
        if engine.slot in self.visits:
            self._act(self.health.outcome(engine.slot, OUTCOMES[kind], sent_at, self._world.clock()))

    def tick(self) -> None:
        """Called periodically: ends the pauses that are over."""
        self._act(self.health.tick(self._world.clock()))

    def report_again(self) -> None:
        """Publish each engine's last reading again, for policies that read other columns than those before."""
        world = self._world
        for slot, visit in self.visits.items():
            measured = world.control.state.measured_at[slot]
            if visit.reading is not None and measured and not visit.engine.absent:
                self._publish_adapters(visit, again=True)
                world.turn(Measured(world.clock(), measured, slot, visit.reading.columns))

    def close(self) -> None:
        """Stop probing."""
        for visit in self.visits.values():
            _stop(visit)
        self.visits.clear()

    # Probes ----------------------------------------------------------------------------------------------------------

    def _poll(self, visit: Probe, target: bytes, on_answer: Any, periods: int = 1) -> Poll:
        """Probe a page of an engine from now on, once in so many periods."""
        engine = visit.engine

        def hear(sent_at: int, answer: PollResult | Failure) -> None:
            if isinstance(answer, PollResult):
                visit.failed = 0
                on_answer(visit, sent_at, answer)
            else:
                self._unanswered(visit, answer)

        chance = Chance(self._seed, engine.slot)
        every = self._every._replace(period_s=self._every.period_s * periods)
        poll = Poll(engine.pool, engine.target(target), hear, chance, every, engine.headers([]))
        poll.start()
        return poll

    def _unanswered(self, visit: Probe, why: Failure) -> None:
        engine = visit.engine
        if engine.absent or engine.status == DRAINING:
            return
        self._act(self.health.checked(engine.slot, OUTCOMES[why.kind], self._world.clock()))
        visit.failed = visit.failed + 1 if why.kind in GONE else 0
        if visit.failed < self._lost:
            return
        log.warning("engine %s is gone (%s): its cache is taken for lost", engine.name, why.reason)
        self._world.lose(engine)
        self._caches.lost(engine)
        visit.adapters = None
        for poll in (visit.looks, visit.names):
            if poll is not None:
                poll.stop()
        visit.models = self._poll(visit, b"/v1/models", self._models)

    def _models(self, visit: Probe, sent_at: int, answer: PollResult) -> None:
        """A probe of the engine's models. It joins after one probe of its metrics."""
        if answer.status >= 500:
            return
        engine = visit.engine
        rows = _rows(answer.body) if answer.status == 200 else []
        engine.models = engine.at.models or tuple(row["id"] for row in rows if not row.get("parent"))
        visit.limit = min((_tokens(row.get("max_model_len")) for row in rows), default=0)
        self._adopt(engine, rows)
        if visit.models is not None:
            visit.models.stop()
        visit.looks = self._poll(visit, b"/metrics", self._looked)
        visit.names = self._poll(visit, b"/v1/models", self._named, NAMES_EVERY)

    def _named(self, visit: Probe, sent_at: int, answer: PollResult) -> None:
        """A further probe of the engine's models, which may have other adapters by now."""
        if answer.status == 200:
            self._adopt(visit.engine, _rows(answer.body))

    def _adopt(self, engine: Engine, rows: list[dict[str, Any]]) -> None:
        """Enter the adapters of an engine."""
        adapters = {row["id"]: str(row["parent"]) for row in rows if row.get("parent")}
        for name, model in adapters.items():
            self._desk.adopt(name, model)
        engine.adapters = frozenset(adapters)

    def _publish_adapters(self, visit: Probe, again: bool = False) -> None:
        """Publish which adapters run and wait at an engine, where that has changed or is asked for `again`."""
        reading, known = visit.reading, self._desk.adapters
        if reading is None or reading.adapters is None:
            return
        slots, *names = reading.adapters
        running, waiting = (tuple(known[name][1] for name in part if name in known) for part in names)
        if again or visit.adapters != (slots, running, waiting):
            visit.adapters = slots, running, waiting
            world = self._world
            world.turn(AdaptersChanged(world.clock(), visit.engine.slot, slots, running, waiting))

    def _looked(self, visit: Probe, sent_at: int, answer: PollResult) -> None:
        """A probe of the engine's metrics, which it may not have: any answer shows that it is alive."""
        engine, world = visit.engine, self._world
        reading = read(answer.body) if answer.status == 200 else None
        if isinstance(reading, Reading):
            visit.reading = reading
        visit.metrics = isinstance(reading, Reading)
        if engine.absent:
            world.fleet.join(engine, self._spec(visit))
            log.info("engine %s joined: %s", engine.name, ", ".join(engine.models) or "any model")
        elif engine.status != DRAINING:
            result = Outcome.OK if answer.status < 500 else Outcome.ERROR
            self._act(self.health.checked(engine.slot, result, world.clock()))
        if isinstance(reading, Reading):
            self._publish_adapters(visit)
            world.turn(Measured(world.clock(), sent_at, engine.slot, reading.columns))

    def _spec(self, visit: Probe) -> ReplicaSpec:
        at, reading, names = visit.engine.at, visit.reading, visit.engine.models
        blocks = reading.total_blocks if reading else 0
        tokens = blocks * reading.block_tokens if reading else 0
        pools, own = self._world.settings.pools, self._world.settings.prefix_tokens
        return ReplicaSpec(
            model=self._desk.models.number(names[0]) if len(names) == 1 else -1,
            role=at.role,
            capacity_tokens=visit.limit or tokens or 1 << 40,
            cache_tokens=min(tokens, MOST_TOKENS) or own,
            up=False,
            blocks=blocks,
            prefill_rate=at.prefill_rate,
            adapter_slots=reading.adapters.slots if reading and reading.adapters else 0,
            pool=pools.index(at.role) if at.role in pools else -1 if pools else 0,
        )

    def _act(self, transitions: list[Transition]) -> None:
        for each in transitions:
            visit = self.visits.get(each.engine)
            if visit is None:
                continue
            engine = visit.engine
            if isinstance(each, Eject):
                log.warning("engine %s is ejected: %s", engine.name, each.reason)
                self._world.fleet.eject(engine)
            elif isinstance(each, Restore) and engine.status != SERVING and not engine.absent:
                log.info("engine %s is back", engine.name)
                self._world.fleet.join(engine, engine.spec)


def _stop(visit: Probe) -> None:
    for poll in (visit.models, visit.looks, visit.names):
        if poll is not None:
            poll.stop()


def _rows(body: bytes) -> list[dict[str, Any]]:
    """The models of a `/v1/models` page; none where it is something else."""
    try:
        page = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    rows = page.get("data") if isinstance(page, dict) else None
    named = [row for row in rows if isinstance(row, dict)] if isinstance(rows, list) else []
    return [row for row in named if isinstance(row.get("id"), str) and 0 < len(row["id"]) <= LONGEST][:MODELS]


def _tokens(limit: object) -> int:
    """The longest request that an engine accepts; 0 where its page has no valid one."""
    return limit if isinstance(limit, int) and 0 < limit < 1 << 40 else 0
