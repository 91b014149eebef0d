"""What the gateway counts, cheaply as requests end, and tells Prometheus when asked."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from poise.core.scaling import Scaling
from poise.live.gateway.fleet import DRAINING, EJECTED, SERVING, STARTING
from poise.live.gateway.trip import Trip
from poise.live.gateway.world import World
from poise.live.wire.server import Server

BOUNDS: Final = (
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0, 80.0,
)  # fmt: skip
"""Upper bounds of the buckets in seconds: vLLM's for the time to first token, with a longer tail."""
NOT_SENT: Final = (-1, 0)
MANY: Final = 4000
"""Rows; tenants that come later are counted together as "other"."""


class Histogram:
    """How many values fell into each bucket, and their sum; in seconds."""

    __slots__ = ("counts", "sum")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self.counts[bisect_left(BOUNDS, value)] += 1
        self.sum += value

    def merge(self, other: Histogram) -> None:
        """Count what another has counted."""
        self.counts = [mine + its for mine, its in zip(self.counts, other.counts, strict=True)]
        self.sum += other.sum

    @property
    def count(self) -> int:
        """Values counted."""
        return sum(self.counts)

    def buckets(self) -> list[tuple[str, float]]:
        """Prometheus' cumulative buckets."""
        total, rows = 0, []
        for bound, count in zip((*map(str, BOUNDS), "+Inf"), self.counts, strict=True):
            total += count
            rows.append((bound, float(total)))
        return rows

    def quantile(self, part: float) -> float:
        """The upper bound of the bucket in which this part of the values ends; 0 if there are none."""
        left = part * self.count
        for bound, count in zip((*BOUNDS, BOUNDS[-1]), self.counts, strict=True):
            left -= count
            if left <= 0 and count:
                return bound
        return 0.0


class Row:
    """What is counted of one tenant's requests at one engine, or of several such together."""

    __slots__ = (
        "agreed", "cached", "e2e", "hit", "known_prompt", "output", "predicted", "prompt", "statuses", "ttft", "wait",
    )  # fmt: skip

    def __init__(self) -> None:
        self.statuses: dict[int, int] = {}
        self.prompt = self.output = self.cached = self.known_prompt = 0
        self.predicted = self.hit = self.agreed = 0
        self.ttft, self.wait, self.e2e = Histogram(), Histogram(), Histogram()

    def add(self, trip: Trip, status: int, now: int) -> None:
        """A request has ended."""
        self.statuses[status] = self.statuses.get(status, 0) + 1
        view, usage = trip.view, trip.usage
        if trip.sent_at >= 0:
            self.wait.add((trip.sent_at - view.arrived_at) * 1e-12)
        if trip.first_at < 0:
            return
        if trip.stream:
            self.ttft.add((trip.first_at - view.arrived_at) * 1e-12)
        self.e2e.add((now - view.arrived_at) * 1e-12)
        self.prompt += usage.prompt if usage.prompt >= 0 else view.prompt_tokens
        self.output += usage.tokens
        if usage.cached >= 0:
            self.cached += usage.cached
            self.known_prompt += max(usage.prompt, 0)

    def judge(self, trip: Trip, predicted: int) -> None:
        """An engine told how much of a prompt it had cached; so many of the prompt's tokens were believed to be.

        Where the gateway guesses a prompt's tokens, the same share of those that the engine counted.
        """
        view, usage = trip.view, trip.usage
        if usage.prompt > 0 and usage.prompt != view.prompt_tokens:
            predicted = round(predicted * usage.prompt / view.prompt_tokens)
        self.predicted += predicted
        self.hit += usage.cached
        self.agreed += min(predicted, usage.cached)

    def merge(self, other: Row) -> None:
        """Count what another has counted."""
        for status, count in other.statuses.items():
            self.statuses[status] = self.statuses.get(status, 0) + count
        for name in ("prompt", "output", "cached", "known_prompt", "predicted", "hit", "agreed"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        for name in ("ttft", "wait", "e2e"):
            getattr(self, name).merge(getattr(other, name))


class Stats:
    """Rows by tenant and engine ("" for requests that no engine had); a collector for Prometheus."""

    def __init__(self, world: World, server: Server) -> None:
        self._world = world
        self._server = server
        self._rows: dict[tuple[str, str], Row] = {}
        state = world.control.state
        if state.prefix is not None:
            state.hits = {}
        self._hits = state.hits
        self._registry = CollectorRegistry()
        self._registry.register(self)

    def ended(self, trip: Trip, status: int) -> None:
        """Count a request that ended with `status`."""
        key = trip.tenant, "" if trip.engine is None else trip.engine.name
        row = self._rows.get(key)
        if row is None:
            if len(self._rows) >= MANY:
                key = "other", key[1]
            row = self._rows.setdefault(key, Row())
        row.add(trip, status, self._world.clock())
        if self._hits is not None and trip.usage.cached >= 0 and trip.engine is not None:
            slot, predicted = self._hits.get(trip.view.id, NOT_SENT)
            if slot == trip.engine.slot:  # of a pair, only the one that computed the prompt knows
                row.judge(trip, predicted)

    @property
    def engines(self) -> dict[str, Row]:
        """By engine."""
        return self._merged(1)

    @property
    def tenants(self) -> dict[str, Row]:
        """By tenant."""
        return self._merged(0)

    def _merged(self, place: int) -> dict[str, Row]:
        merged: dict[str, Row] = {}
        for key, row in self._rows.items():
            merged.setdefault(key[place], Row()).merge(row)
        return merged

    def page(self) -> bytes:
        """Prometheus' text."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Everything as metric families."""
        yield from self._counters("engine", self.engines)
        yield from self._counters("tenant", self.tenants)
        if self._hits is not None:
            yield from self._beliefs()
        yield from self._now()

    def _counters(self, label: str, rows: dict[str, Row]) -> Iterable[Metric]:
        by = "" if label == "engine" else f"{label}_"
        total = CounterMetricFamily(f"poise_{by}requests", "Requests ended, by status", labels=[label, "code"])
        prompt = CounterMetricFamily(f"poise_{by}prompt_tokens", "Prompt tokens of answered requests", labels=[label])
        output = CounterMetricFamily(f"poise_{by}generation_tokens", "Output tokens passed on", labels=[label])
        cached = CounterMetricFamily(
            f"poise_{by}prompt_tokens_cached", "Prompt tokens that engines said were cached", labels=[label]
        )
        families = [
            HistogramMetricFamily(f"poise_{by}{name}", text, labels=[label])
            for name, text in (
                ("time_to_first_token_seconds", "Arrival to first byte of a stream"),
                ("queue_time_seconds", "Arrival to the last dispatch"),
                ("e2e_request_latency_seconds", "Arrival to the end of the answer"),
            )
        ]
        for name, row in rows.items():
            for status, count in row.statuses.items():
                total.add_metric([name, str(status)], count)
            prompt.add_metric([name], row.prompt)
            output.add_metric([name], row.output)
            cached.add_metric([name], row.cached)
            for family, histogram in zip(families, (row.ttft, row.wait, row.e2e), strict=True):
                family.add_metric([name], histogram.buckets(), histogram.sum)
        return [total, prompt, output, cached, *families]

    def _beliefs(self) -> Iterator[Metric]:
        """How right the prefix index is: agreed of predicted is its precision, agreed of hit its recall."""
        for name, text in (
            ("predicted", "Prompt tokens believed cached at the engine chosen, of answers that tell what was"),
            ("hit", "Prompt tokens that the engine said were cached, of the same answers"),
            ("agreed", "The lesser of both, summed request by request"),
        ):
            family = CounterMetricFamily(f"poise_prefix_{name}_tokens", text, labels=["engine"])
            for engine, row in self.engines.items():
                family.add_metric([engine], getattr(row, name))
            yield family

    def _now(self) -> Iterator[Metric]:
        world = self._world
        yield GaugeMetricFamily("poise_requests_held", "Requests waiting at the gateway", value=len(world.control.held))
        yield GaugeMetricFamily("poise_requests_open", "Requests not ended", value=len(world.trips))
        bodies = self._server.bodies.held
        yield GaugeMetricFamily("poise_body_bytes", "Bytes of requests' bodies that are kept", value=bodies)
        refused = CounterMetricFamily("poise_clients_refused", "Clients refused unheard, by reason", labels=["cause"])
        for cause, count in self._server.causes.items():
            refused.add_metric([cause], count)
        yield refused
        errors = CounterMetricFamily("poise_policy_errors", "Decisions that a policy failed to make")
        errors.add_metric([], world.policy_errors)
        yield errors
        up = GaugeMetricFamily("poise_engine_state", "1 for the state an engine is in", labels=["engine", "state"])
        flying = GaugeMetricFamily("poise_engine_requests_in_flight", "Requests at an engine", labels=["engine"])
        age = GaugeMetricFamily(
            "poise_engine_report_age_seconds", "Age of what is known of an engine, -1 for nothing", labels=["engine"]
        )
        hedges = CounterMetricFamily("poise_hedges", "Second copies of requests sent there", labels=["engine"])
        won = CounterMetricFamily("poise_hedges_won", "Second copies that answered first", labels=["engine"])
        failed = CounterMetricFamily("poise_engine_failures", "Requests that failed there", labels=["engine", "kind"])
        state = world.control.state
        for engine in world.fleet:
            for status in (STARTING, SERVING, EJECTED, DRAINING):
                up.add_metric([engine.name, status], float(engine.status == status))
            flying.add_metric([engine.name], state.requests[engine.slot])
            measured = state.measured_at[engine.slot]
            age.add_metric([engine.name], (world.clock() - measured) * 1e-12 if measured else -1.0)
            hedges.add_metric([engine.name], engine.hedges)
            won.add_metric([engine.name], engine.hedges_won)
            for kind, count in engine.failures.items():
                failed.add_metric([engine.name, kind], count)
        yield from (up, flying, age, hedges, won, failed)
        if world.control.scaling is not None:
            yield from self._pools(world.control.scaling)

    def _pools(self, scaling: Scaling) -> Iterator[Metric]:
        """What a scaler wants, for whoever starts and stops engines."""
        wanted = GaugeMetricFamily(
            "poise_desired_replicas", "Engines that a pool is to have, by the scaler", labels=["pool"]
        )
        serving = GaugeMetricFamily("poise_serving_replicas", "Engines of a pool that serve", labels=["pool"])
        state = self._world.control.state
        for number, pool in enumerate(scaling.pools):
            up = sum(
                engine.status == SERVING and state.replicas[engine.slot].pool == number for engine in self._world.fleet
            )
            wanted.add_metric([pool.name], pool.wanted)
            serving.add_metric([pool.name], up)
        yield from (wanted, serving)
