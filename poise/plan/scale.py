"""The chosen fleet under a scaler: the whole traffic simulated while one pool grows and shrinks with the load.

The fleet was sized for the busiest stretch. Here its dearest pool may shrink to one replica and grow back, by each of
the scalers of AIBrix, Knative and Kubernetes, with starts that take time. What a replica has at most in flight, or
serves, in the constant fleet is where targets begin; they are lowered until the goal's share of all arrivals meets the
SLO.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from poise.core.records.records import Run
from poise.core.spec import Pool
from poise.core.units import SECOND, ps, seconds
from poise.plan.autoscale import Autoscale
from poise.plan.demand import Demand
from poise.plan.early_stop import SloFeasibility
from poise.plan.fleet import Fleet, unit_name
from poise.plan.start import Start
from poise.plan.trial import Bench
from poise.report.figures import Curves
from poise.report.latency import column
from poise.report.metrics import measure
from poise.report.scaling import POOL, pool_curves
from poise.report.spending import dollars, pools_by_replica, uptime
from poise.scenario.simulate import simulate
from poise.sim.terms import Stopping

SHARES = (1.4, 1.0, 0.7, 0.5, 0.35)
"""Targets as parts of the most that a replica of the constant fleet had, the thriftiest first."""

SCALERS = ("hpa", "kpa", "apa", "slo_optimizer")
"""Scalers that are tried."""

FIXED: dict[str, dict[str, Any]] = {"kpa": {"utilisation": 1.0}, "apa": {"metric": "requests"}}
"""Parameters besides the target: it is the whole aim, and it counts requests in flight."""

SAVES = 0.2
"""The share of replica-hours that scaling must be able to save, by the bound, to be simulated by default."""

ROWS = 30_000
"""Requests of the traffic up to which that is done by default: a minute of simulations or less."""

WINDOWS = 200
"""Windows of the demand chart."""


@dataclass(frozen=True, slots=True)
class ScaledPlan:
    """One simulation of the whole traffic; scaler is empty for the constant fleet.

    attainment: an upper bound where `cut` says that the run was ended early; then other figures are None.
    dollars: of the whole time, None without prices.  device_hours: start-ups included.  ups, downs: changes of the
    wanted number.  cold: requests that waited while no replica served.
    """

    scaler: str
    settings: Mapping[str, Any]
    attainment: float
    dollars: float | None = None
    device_hours: float | None = None
    ups: int = 0
    downs: int = 0
    cold: int = 0
    cut: bool = False

    @property
    def spent(self) -> float:
        """The objective: dollars, or device-hours where there are no prices."""
        return self.dollars or self.device_hours or float("inf")


@dataclass(frozen=True, slots=True)
class Scaled:
    """The result of scaling a fleet. pool: the index of the one that is scaled, and `start_s` how long its starts take.

    constant: the fleet as it was sized.  best: the cheapest that holds and saves; None where there is none.
    fleet: with the pool's bounds and start-up.  curves: over time, arrivals per second, and of the best one the
    replicas.  hours: from the first arrival to the end.  wall_s: of all simulations.
    """

    fleet: Fleet
    pool: int
    start_s: float
    constant: ScaledPlan
    tried: tuple[ScaledPlan, ...]
    best: ScaledPlan | None
    curves: Mapping[str, Curves]
    hours: float
    wall_s: float

    @property
    def saved(self) -> float:
        """The share of the constant fleet's price, or device-hours, that the best one saves."""
        return 0.0 if self.best is None else 1 - self.best.spent / self.constant.spent


def why_not(bound: Autoscale | None, demand: Demand, wanted: bool | None) -> str:
    """Why scalers are not simulated; empty where they are: on request, or where that saves much in little time."""
    if wanted is False:
        return "not asked for"
    if bound is None:
        return "the traffic is too short to follow, or follows its own answers"
    if bound.fixed < 2:
        return "one replica is the least there can be"
    if wanted is None and bound.saved < SAVES:
        return "it could save little"
    if wanted is None and len(demand.whole) > ROWS:
        return f"{len(demand.whole):,} requests take a while; --scale simulates it"
    return ""


def scale(fleet: Fleet, bench: Bench, start: Start, stopped: Callable[[], bool] = bool) -> Scaled | None:
    """Simulate scalers over the whole traffic; None where every pool has one replica, or where it was stopped at once.

    stopped: whether to end with what there is.
    """
    since = time.perf_counter()
    at = _dearest(fleet)
    if at is None or stopped():
        return None
    pool = fleet.pools[at]
    grows = replace(pool, min_replicas=1, max_replicas=pool.replicas, startup=start.of(pool))
    made = replace(fleet, pools=(*fleet.pools[:at], grows, *fleet.pools[at + 1 :]))
    stage = _Stage(made, at, bench)
    whole = stage.run(fleet, "", {})
    constant = stage.grown(fleet, whole, "", {})
    tried, kept = list[ScaledPlan](), whole
    for scaler in SCALERS:
        for settings in _settings(scaler, stage.most(whole), bench.demand):
            if stopped():
                break
            run = stage.run(made, scaler, settings)
            tried.append(stage.grown(made, run, scaler, settings))
            if not tried[-1].cut and tried[-1].attainment >= bench.goal.attainment:
                if tried[-1].spent < min((each.spent for each in tried[:-1] if _holds(each, bench)), default=np.inf):
                    kept = run
                break
    holding = [each for each in tried if _holds(each, bench) and each.spent < constant.spent]
    best = min(holding, key=lambda each: each.spent, default=None)
    curves = {"load": {"arrivals per second": _arrivals(bench.demand)}}
    if best is not None:
        curves["replicas"] = pool_curves(kept, [str(n) for n in range(len(made.pools))])[POOL + str(at)]
    start_s = grows.stages.warming_s + grows.stages.loading_s
    hours = seconds(whole.ended_at) / 3600
    took = time.perf_counter() - since
    return Scaled(made, at, start_s, constant, tuple(tried), best, curves, hours, took)


@dataclass(frozen=True, slots=True)
class _Stage:
    """Where the whole traffic is simulated. fleet: that may be scaled, and the index of the pool."""

    fleet: Fleet
    pool: int
    bench: Bench

    def run(self, fleet: Fleet, scaler: str, settings: Mapping[str, Any]) -> Run:
        """One simulation; one with a scaler is cut once it cannot hold."""
        bench = self.bench
        feasibility = SloFeasibility(bench.slo, bench.goal.attainment, bench.demand.warmup_s) if scaler else None
        return simulate(
            fleet.cluster(),
            bench.demand.whole,
            fleet.policies(scaler, settings),
            cost=bench.cost,
            belief=bench.belief,
            stopping=Stopping(enough=None if feasibility is None else feasibility.gone),
        )

    def grown(self, fleet: Fleet, run: Run, scaler: str, settings: Mapping[str, Any]) -> ScaledPlan:
        """The result of a run."""
        bench, warmup_s = self.bench, self.bench.demand.warmup_s
        if run.interrupted:
            left = SloFeasibility(bench.slo, bench.goal.attainment, warmup_s).left(run, run.ended_at)
            return ScaledPlan(scaler, settings, left, cut=True)
        cluster = fleet.cluster()
        figures = measure(run, cluster, bench.slo, warmup_s=warmup_s)
        paid, _ = dollars(run, cluster)
        hours = sum(
            pool.devices * seconds(uptime(stats, run.ended_at)) / 3600
            for stats, pool in zip(run.replicas, pools_by_replica(cluster), strict=True)
        )
        changes = figures.scaling
        return ScaledPlan(
            scaler, settings, figures.slo_attainment or 0.0, paid, hours,
            0 if changes is None else changes.scale_ups,
            0 if changes is None else changes.scale_downs,
            0 if changes is None else changes.cold_requests,
        )  # fmt: skip

    def most(self, run: Run) -> tuple[float, float]:
        """The most that a replica of the pool had in a window of the constant run: in flight, and served a second."""
        pool = self.fleet.pools[self.pool]
        first = sum(each.replicas for each in self.fleet.pools[: self.pool])
        records, decodes = run.records, pool.role == "decode"
        where = column(records.decode_replica if decodes else records.replica)
        since = column(records.first_token_at if decodes else records.dispatched_at)
        until = column(records.first_token_at if pool.role == "prefill" else records.ended_at)
        own = (where >= first) & (where < first + pool.replicas) & (since >= 0) & (until >= since)
        edges = np.linspace(0, run.ended_at, 1 + max(1, round(run.ended_at / ps(60.0))))
        held = _held(since[own], until[own], edges)
        arrivals = np.histogram(since[own], edges)[0] / (np.diff(edges) / SECOND)
        return float(held.max()) / pool.replicas, float(arrivals.max()) / pool.replicas


def _dearest(fleet: Fleet) -> int | None:
    """The pool of several replicas that costs most, or has most devices."""
    able = [at for at, pool in enumerate(fleet.pools) if pool.replicas > 1]
    return max(able, key=lambda at: _weight(fleet.pools[at]), default=None)


def _weight(pool: Pool) -> tuple[float, int]:
    devices = pool.replicas * pool.devices
    return devices * (pool.price_per_hour or 0.0), devices


def _holds(grown: ScaledPlan, bench: Bench) -> bool:
    return not grown.cut and grown.attainment >= bench.goal.attainment


def _held(since: NDArray[Any], until: NDArray[Any], edges: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mean number of intervals that cover each window between two edges."""
    at = np.concatenate([since, until]).astype(float)
    step = np.concatenate([np.ones(len(since)), -np.ones(len(until))])
    order = np.argsort(at, kind="stable")
    at, level = np.concatenate([[0.0], at[order]]), np.concatenate([[0.0], np.cumsum(step[order])])
    area = np.concatenate([[0.0], np.cumsum(level[:-1] * np.diff(at))])
    held: NDArray[np.float64] = np.diff(np.interp(edges, at, area)) / np.diff(edges)
    return held


def _settings(scaler: str, most: tuple[float, float], demand: Demand) -> Iterator[dict[str, Any]]:
    """A scaler's settings from the thriftiest on, with numbers of three digits, so that they can be written down."""
    held, served = most
    for share in SHARES:
        target, rate = (max(float(f"{share * value:.3g}"), 0.01) for value in (held, served))
        if scaler == "slo_optimizer":
            yield {"profile": [[float(round(demand.prompt)), float(max(1, round(demand.output))), rate]]}
        else:
            yield {"target": target, **FIXED.get(scaler, {})}


def _arrivals(demand: Demand) -> tuple[list[float], list[float]]:
    """Arrivals per second over time."""
    at = demand.whole.arrival / SECOND
    counts, edges = np.histogram(at, WINDOWS, (0.0, max(float(at[-1]), 1e-9)))
    rates = counts / np.diff(edges)
    return [float(each) for each in edges], [*(float(each) for each in rates), float(rates[-1])]


def pool_name(scaled: Scaled) -> str:
    """The pool that is scaled, in a few words."""
    return unit_name(scaled.fleet.pools[scaled.pool])
