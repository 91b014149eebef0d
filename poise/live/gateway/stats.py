"""Gateway counters, cheap to update as requests end, and their Prometheus page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from poise.core.control.scaling import Scaling
from poise.live.gateway.counts import CounterRow, CounterTable, count
from poise.live.gateway.exposition import Family, counter, gauge, histograms, labels, slices
from poise.live.gateway.fleet import SERVING, STATES, Engine
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.world import World
from poise.live.http.server import Server

NOT_SENT: Final = (-1, 0)
ENGINES: Final = 2_000
"""Most engines with rows of their own, including those that have left."""

_TIMES: Final = (
    ("ttft", "time_to_first_token_seconds", "Arrival to first byte of a stream"),
    ("wait", "queue_time_seconds", "Arrival to the last dispatch"),
    ("e2e", "e2e_request_latency_seconds", "Arrival to the end of the answer"),
)
_SUMS: Final = (
    ("prompt", "prompt_tokens", "Prompt tokens of answered requests"),
    ("output", "generation_tokens", "Output tokens passed on"),
    ("cached", "prompt_tokens_cached", "Prompt tokens that engines report as cached"),
)
_BELIEFS: Final = (
    ("predicted", "Prompt tokens believed cached at the engine chosen, of answers that tell what was"),
    ("hit", "Prompt tokens that the engine reports as cached, of the same answers"),
    ("agreed", "The lesser of both, summed request by request"),
)


class Stats:
    """Rows by engine ("" for requests that no engine had) and by tenant; a page for Prometheus."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server
        self._engines = CounterTable(ENGINES)
        self._tenants = CounterTable()
        self.ask_hits()

    def ask_hits(self) -> None:
        """Have the belief record its predicted cached tokens, where it has a prefix index."""
        state = self._world.control.state
        if state.prefix is not None and state.hits is None:
            state.hits = {}

    def ended(self, proxied: ProxiedRequest, status: int) -> None:
        """Count a request that ended with `status`."""
        row = self._engines.row("" if proxied.engine is None else proxied.engine.name)
        count((row, self._tenants.row(proxied.tenant)), proxied, status, self._world.clock())
        hits = self._world.control.state.hits
        if hits is not None and proxied.usage.cached >= 0 and proxied.engine is not None:
            slot, predicted = hits.get(proxied.view.id, NOT_SENT)
            if slot == proxied.engine.slot:  # of a pair, only the one that computed the prompt knows
                row.judge(proxied, predicted)

    @property
    def engines(self) -> dict[str, CounterRow]:
        """By engine."""
        return self._engines.rows

    @property
    def tenants(self) -> dict[str, CounterRow]:
        """By tenant: the busiest, and the others together as `counts.OTHERS`."""
        return self._tenants.rows

    def review(self) -> None:
        """Give rows to the busiest tenants; call it every few seconds."""
        self._tenants.review()
        there = {engine.name for engine in self._world.fleet}
        self._engines.review({name for name in self.engines if name not in there})

    def page(self) -> Iterator[bytes]:
        """Prometheus' text, in slices that are made when they are read."""
        return slices(self._families())

    # Families --------------------------------------------------------------------------------------------------------

    def _families(self) -> Iterator[Family]:
        """All metrics, each with its rows at the time it is written."""
        for by, label in ((self._engines, "engine"), (self._tenants, "tenant")):
            yield from _counters(label, by)
        if self._world.control.state.hits is not None:
            for name, text in _BELIEFS:
                rows = [(labels(("engine", engine)), getattr(row, name)) for engine, row in self.engines.items()]
                yield counter(f"poise_prefix_{name}_tokens", text, rows)
        yield from self._now()
        yield from self._fleet()
        if self._world.control.outbox is not None:
            yield from self._peers()
        if self._world.control.scaling is not None:
            yield from self._pools(self._world.control.scaling)

    def _now(self) -> Iterator[Family]:
        world, server = self._world, self._server
        yield gauge("poise_requests_held", "Requests waiting at the gateway", [("", len(world.control.held))])
        yield gauge("poise_requests_open", "Requests not ended", [("", len(world.proxied_requests))])
        yield gauge("poise_body_bytes", "Bytes of requests' bodies that are kept", [("", server.bodies.held)])
        causes = [(labels(("cause", cause)), number) for cause, number in server.causes.items()]
        yield counter("poise_clients_refused", "Clients refused unheard, by reason", causes)
        yield counter("poise_policy_errors", "Decisions that a policy failed to make", [("", world.policy_errors)])

    def _fleet(self) -> Iterator[Family]:
        """Current values of each engine."""
        world = self._world
        engines = [(labels(("engine", engine.name)), engine) for engine in world.fleet]
        requests, now = self._in_flight(), world.clock()
        states = ((tags, engine, word) for tags, engine in engines for word in STATES)
        yield gauge(
            "poise_engine_state", "1 for the state an engine is in",
            ((f'{tags},state="{word}"', engine.status == word) for tags, engine, word in states),
        )  # fmt: skip
        yield gauge(
            "poise_engine_requests_in_flight", "Requests of this gateway at an engine",
            [(tags, requests[engine.slot]) for tags, engine in engines],
        )  # fmt: skip
        yield gauge(
            "poise_engine_report_age_seconds", "Age of what is known of an engine, -1 for nothing",
            [(tags, self._age(engine, now)) for tags, engine in engines],
        )  # fmt: skip
        yield gauge(
            "poise_engine_down_seconds", "Time since an engine was found dead, 0 while it is not",
            [(tags, (now - each.down_at) * 1e-12 if each.down_at >= 0 else 0.0) for tags, each in engines],
        )  # fmt: skip
        hedges, won = ([(tags, getattr(each, name)) for tags, each in engines] for name in ("hedges", "hedges_won"))
        yield counter("poise_hedges", "Second copies of requests sent there", hedges)
        yield counter("poise_hedges_won", "Second copies that answered first", won)
        failed = [
            (f'{tags},kind="{kind}"', number) for tags, engine in engines for kind, number in engine.failures.items()
        ]
        yield counter("poise_engine_failures", "Requests that failed there", failed)

    def _in_flight(self) -> Counter[int]:
        """This gateway's own requests by slot: those of others are in their metrics."""
        return Counter(place for flight in self._world.control.flights.values() for place in flight.places)

    def _peers(self) -> Iterator[Family]:
        """Other gateways, where there are any."""
        yield gauge("poise_peers", "Other gateways that get this one's reports", [("", self._world.connected())])
        known = len(self._world.control.peers.known)
        yield gauge("poise_peer_requests_open", "Requests of other gateways that have not ended", [("", known)])

    def _age(self, engine: Engine, now: int) -> float:
        measured = self._world.control.state.measured_at[engine.slot]
        return (now - measured) * 1e-12 if measured else -1.0

    def _pools(self, scaling: Scaling) -> Iterator[Family]:
        """The target sizes of a scaler, for the external autoscaler that starts and stops engines."""
        replicas = self._world.control.state.replicas
        serving = [0] * len(scaling.pools)
        for engine in self._world.fleet:
            pool = replicas[engine.slot].pool
            if engine.status == SERVING and 0 <= pool < len(serving):
                serving[pool] += 1
        names = [labels(("pool", pool.name)) for pool in scaling.pools]
        wanted = [pool.wanted for pool in scaling.pools]
        yield gauge(
            "poise_desired_replicas", "Engines that a pool is to have, by the scaler", zip(names, wanted, strict=True)
        )
        yield gauge("poise_serving_replicas", "Engines of a pool that serve", zip(names, serving, strict=True))


def _counters(label: str, table: CounterTable) -> Iterator[Family]:
    """The counters of ended requests, by engine or by tenant."""
    by = "" if label == "engine" else f"{label}_"
    rows = [(labels((label, name)), row) for name, row in table.rows.items()]
    ended = ((tags, status, number) for tags, row in rows for status, number in list(row.statuses.items()))
    yield counter(
        f"poise_{by}requests", "Requests ended, by status",
        ((f'{tags},code="{status}"', number) for tags, status, number in ended),
    )  # fmt: skip
    for name, metric, text in _SUMS:
        yield counter(f"poise_{by}{metric}", text, [(tags, getattr(row, name)) for tags, row in rows])
    for name, metric, text in _TIMES:
        yield histograms(f"poise_{by}{metric}", text, [(tags, getattr(row, name)) for tags, row in rows])
