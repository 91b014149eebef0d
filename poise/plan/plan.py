"""Makes a plan: searches, confirms what was found, and computes what would change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from poise.catalogue.engines import engine_defaults
from poise.core.errors import CapacityError, UserError
from poise.core.model import Model
from poise.core.spec import Belief, Device, Engine, Format, Pool
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter
from poise.experiment.workers import Workers
from poise.intervals.own import Own
from poise.plan.alone import alone
from poise.plan.answer import Chosen
from poise.plan.autoscale import Autoscale, autoscale
from poise.plan.cap import Caps
from poise.plan.change import Changes, changes
from poise.plan.confidence import doubt_of
from poise.plan.confirm import confirm
from poise.plan.demand import REQUESTS, Demand
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import Fleet, unit_name
from poise.plan.goal import Goal
from poise.plan.limits import Limits
from poise.plan.measure import Measurement, measurement
from poise.plan.near_misses import closest, smaller
from poise.plan.prices import Price
from poise.plan.rows import record
from poise.plan.scale import Scaled, ScaledPlan, scale, why_not
from poise.plan.search import SearchResult, ending, search
from poise.plan.space import Space, space
from poise.plan.spot import Spot, spot
from poise.plan.start import Start
from poise.plan.traffic import Source, read_demand
from poise.plan.trial import Bench, Trial
from poise.plan.unit import WIDEST, Units, units
from poise.scenario.cluster import Recipe
from poise.scenario.engine_cost import EngineCost

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from polars import DataFrame

SEEDS = 30
"""Most seeds that confirm a fleet."""


@dataclass(frozen=True, slots=True)
class PlanQuestion:
    """The input of a plan.

    prices: of devices, by name; basis: where they are from.  formats, kv: of weights and of the KV cache.  split, mix:
    whether prefill and decode may be separate, and whether one role may have several kinds of replica.  widest: most
    devices of one replica.  caps: power caps to try, by device.  requests: of one simulation.  seeds: most of a fleet.
    scale: whether scalers are simulated (None: where they could save much, and soon).  start: how long a replica takes
    to serve.  own: measurements of one's own, which narrow the model's error.
    """

    source: Source
    model: Model
    goal: Goal
    devices: tuple[Device, ...]
    prices: Mapping[str, Price] = field(default_factory=dict)
    basis: str = ""
    formats: tuple[Format, ...] = ("bf16", "fp8")
    kv: tuple[Format, ...] = ("bf16",)
    engine: Engine = field(default_factory=Engine)
    cost: Recipe = field(default_factory=EngineCost)
    belief: Belief = field(default_factory=Belief)
    split: bool = True
    mix: bool = True
    widest: int = WIDEST
    caps: Caps = field(default_factory=dict)
    requests: int = REQUESTS
    seeds: int = SEEDS
    scale: bool | None = None
    start: Start = field(default_factory=Start)
    own: Own = field(default_factory=Own)


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. best, sure, times: see `Confirmed`; best is None where nothing holds.

    workload: the section of a scenario.  unlimited: what would be best without budget, power limit and numbers of
    devices, where nothing holds within them.
    alone: the best by predicted values alone, of the fleets tried and those with fewer replicas; None where there is no
    goal of confidence.  measurement: one that could save something.
    changes, scaling, spot, scaled: None where there is no best, or no result.
    first_s, wall_s: seconds until the first fleet that holds (None: none did), and until the plan.
    """

    ask: PlanQuestion
    demand: Demand
    workload: dict[str, Any]
    units: Units
    space: Space
    found: SearchResult
    best: Trial | None
    sure: Trial | None = None
    times: float | None = None
    unlimited: Trial | None = None
    alone: Trial | None = None
    measurement: Measurement | None = None
    changes: Changes | None = None
    scaling: Autoscale | None = None
    spot: Spot | None = None
    scaled: Scaled | None = None
    first_s: float | None = None
    wall_s: float = 0.0

    @property
    def ranked(self) -> list[Trial]:
        """The best trial of each make of fleet that holds, the plan's own first, its variants of settings left out."""
        seen: dict[tuple[str, ...], Trial] = {}
        for trial in [*([self.best] if self.best else []), *self._held]:
            if trial is self.best or trial.value(self.ask.goal) >= self._least:
                seen.setdefault(_make(trial), trial)
        return list(seen.values())

    @property
    def refuted(self) -> list[Trial]:
        """Fleets that would be better and held in the search, but not under all seeds; the best of each make."""
        seen: dict[tuple[str, ...], Trial] = {}
        for trial in self._held:
            if self.best is not None and trial.value(self.ask.goal) < self._least:
                seen.setdefault(_make(trial), trial)
        return list(seen.values())

    @property
    def _least(self) -> float:
        """The objective of the plan's fleet on the traffic of the search, by which others can be compared with it."""
        if self.best is None:
            return 0.0
        searched = next((trial for trial in self._held if trial.fleet == self.best.fleet), self.best)
        return searched.value(self.ask.goal)

    @property
    def _held(self) -> list[Trial]:
        return sorted(self.found.best.values(), key=self.found.rank)

    @property
    def setting(self) -> Setting:
        """What the files that deploy the plan need besides its fleet."""
        ask, demand, grown = self.ask, self.demand, self._grown
        return Setting(
            workload=self.workload, slo=ask.goal.slo, seeds=self._seeds,
            warmup_s=demand.warmup_s, belief=ask.belief, cost=ask.cost, longest=demand.longest,
            scaler=None if grown is None else {grown.scaler: dict(grown.settings)},
        )  # fmt: skip

    @property
    def _seeds(self) -> tuple[int, ...]:
        """The seeds that confirmed the plan."""
        fresh = self.demand.fresh
        if self.best is None or fresh is None or self.demand.recorded:
            return (0,)
        return tuple(range(fresh.first, fresh.first + self.best.seeds))

    @property
    def deployed(self) -> Fleet | None:
        """The fleet that files deploy: the best one, with the bounds of a scaler where one holds the SLO for less."""
        if self.scaled is not None and self._grown is not None:
            return self.scaled.fleet
        return None if self.best is None else self.best.fleet

    @property
    def _grown(self) -> ScaledPlan | None:
        return None if self.scaled is None else self.scaled.best

    @property
    def chosen(self) -> Chosen | None:
        """What the answer says of the plan; None where nothing holds."""
        if self.best is None:
            return None
        others = [trial for trial in self.ranked if trial is not self.best]
        return Chosen(
            self.best, others, self.ask.goal, self.demand.rate, self.changes,
            confirmed=not self.found.interrupted, sure=self.sure is self.best,
            safer=None if self.sure is self.best else self.sure, alone=self.alone,
        )  # fmt: skip

    def frame(self) -> DataFrame:
        """A row for each fleet that was simulated, the plan first, as a polars frame (`rows.record` says what)."""
        import polars as pl

        rows = [record(each, self.ask.goal, self.best) for each in self.tried]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame; UserError without pandas, the extra `pandas`."""
        from poise.report.optional import to_pandas

        return to_pandas(self.frame())

    def plot(self) -> Figure:
        """The plan beside the next best fleets: price, devices, power, the share that meets the SLO, and latencies.

        A matplotlib figure; UserError without it, the extra `plot`.
        """
        from poise.report.optional import needed

        needed("matplotlib", "plot", "Plan.plot")
        from poise.plan.plots import beside

        return beside(self.tried, self.ask.goal)

    def __repr__(self) -> str:
        best = self.best
        text = "nothing holds" if best is None else f"{best.fleet.written}, {best.fleet.router}"
        return f"<Plan for {self.ask.model.name}: {text}; {len(self.found.trials)} fleets simulated>"

    def _repr_html_(self) -> str:
        """The answer and the best fleets."""
        from poise.core.card import card, paragraph, table
        from poise.plan.rows import HEADS, cells

        if self.chosen is None:
            return card(repr(self).strip("<>"))
        rows = [cells(each) for each in self.ranked[:10]]
        return card("", paragraph(self.chosen.sentence(), strong=True), table(HEADS, rows, strong=(0,)))

    @property
    def tried(self) -> list[Trial]:
        """Every fleet that was simulated: the plan as it was confirmed, then those that hold, the best first."""
        goal, best = self.ask.goal, self.best
        others = [each for each in self.found.trials if best is None or each.fleet != best.fleet]
        others.sort(key=lambda each: (not each.meets(goal), each.value(goal)))
        return others if best is None else [best, *others]

    @property
    def pareto(self) -> list[Trial]:
        """The Pareto front: fleets that hold and that no other beats in price, devices, TTFT, TPOT and energy."""
        return [one for one in self.ranked if not any(_beats(other, one) for other in self.ranked)]


@dataclass(frozen=True, slots=True)
class SearchOptions:
    """How a search is run: by which workers; the seconds it may take; the callback for better fleets."""

    workers: Workers = field(default_factory=Workers)
    time_s: float | None = None
    progress: Meter | None = None
    better: Callable[[Trial], None] | None = None


def plan(ask: PlanQuestion, ways: SearchOptions | None = None) -> Plan:
    """Find the plan.

    Ctrl-C and the time limit end it with the best so far. CapacityError where no device holds the model; where the SLO
    cannot be met the plan has no best, and the reason.
    """
    since, ways = time.perf_counter(), ways or SearchOptions()
    demand, workload = read_demand(ask.source, Pool(ask.model, ask.devices[0]), ask.requests)
    if ask.goal.slo.program_s is not None and not demand.turns:
        raise UserError("--slo program_s: the traffic has no programs; give e2e_s, or traffic with sessions or joins")
    kinds = _units(ask, demand)
    available = {name: each.limit for name, each in ask.prices.items() if each.limit is not None}
    limits = Limits(ask.goal, available)
    where = space(kinds.able, demand, ask.goal, ask.cost, available=available, split=ask.split, mix=ask.mix)
    doubt = doubt_of(ask.cost, ask.goal.attainment, ask.own)
    bench = Bench(
        demand, ask.goal, ask.cost, ask.belief, engine_defaults(ask.engine.name).front(demand.prompt),
        None if isinstance(doubt, str) else doubt,
    )  # fmt: skip
    before_s = time.perf_counter() - since
    found = _search(where, bench, limits, ways, ways.time_s)
    left_s = None if ways.time_s is None else ways.time_s - (time.perf_counter() - since)
    first_s = None if found.first_s is None else before_s + found.first_s
    answer = Plan(ask, demand, workload, kinds, where, found, found.winner, first_s=first_s)
    if answer.best is not None:
        answer = replace(answer, scaling=autoscale(demand, answer.best.fleet.replicas))
    if not found.interrupted:
        answer = _finished(answer, limits, ways, left_s)
    return replace(answer, wall_s=time.perf_counter() - since)


def _units(ask: PlanQuestion, demand: Demand) -> Units:
    per_hour = {name: each.per_hour for name, each in ask.prices.items()}
    kinds = units(
        ask.model, ask.devices, per_hour,
        formats=ask.formats, kv=ask.kv, engine=ask.engine, longest=demand.longest, widest=ask.widest,
        caps=ask.caps,
    )  # fmt: skip
    if not kinds.able:
        raise CapacityError(next(iter(kinds.refused.values())))
    return kinds


def _search(where: Space, bench: Bench, limits: Limits, ways: SearchOptions, time_s: float | None) -> SearchResult:
    return search(where, bench, limits, workers=ways.workers, time_s=time_s, progress=ways.progress, better=ways.better)


def _finished(plan: Plan, limits: Limits, ways: SearchOptions, left_s: float | None) -> Plan:
    """The plan with the analyses after the search; an interruption leaves out the rest."""
    found, free = plan.found, plan.ask.goal.unlimited
    with interrupts() as stop, ending(stop, left_s):
        confirmed = confirm(found, limits, plan.ask.seeds, ways.workers, stop, ways.progress)
        best = confirmed.best
        if best is not None:
            plan = replace(plan, best=best, sure=confirmed.sure, times=confirmed.times)
            found.settle(smaller(best, plan.ask.goal))
            if not stop.is_set():
                plan = _compared(plan, limits, best)
            if not stop.is_set():
                plan = replace(plan, changes=changes(best, found.trials, found.bench))
            if not stop.is_set():
                plan = replace(plan, spot=spot(best.fleet, plan.ask.prices, found.bench))
            held = 1.0 if plan.changes is None else plan.changes.load
            bound = autoscale(plan.demand, best.fleet.replicas, held)
            plan = replace(plan, scaling=bound)
            if not why_not(bound, plan.demand, plan.ask.scale):
                plan = replace(plan, scaled=scale(best.fleet, found.bench, plan.ask.start, stop.is_set))
        elif not stop.is_set():
            plan = _compared(replace(plan, best=None, scaling=None), limits, None)
            found.settle(closest)
            if limits != Limits(free):
                wide = replace(found.bench, goal=free)
                again = _search(plan.space, wide, Limits(free), replace(ways, better=None), left_s)
                plan = replace(plan, unlimited=again.winner)
        found.interrupted = stop.is_set()
    return plan


def _compared(plan: Plan, limits: Limits, best: Trial | None) -> Plan:
    """The plan with the best by predicted values alone, and what a measurement could save."""
    predicted = alone(plan.found, limits, best)
    return replace(plan, alone=predicted, measurement=measurement(plan.found, predicted, best))


def _make(trial: Trial) -> tuple[str, ...]:
    """The make of a fleet: its replicas without their numbers."""
    return tuple(sorted(unit_name(pool) for pool in trial.fleet.pools))


def _beats(one: Trial, other: Trial) -> bool:
    """Whether `one` dominates `other`: nowhere worse, and somewhere better."""
    mine, its = _figures(one), _figures(other)
    return all(a <= b for a, b in zip(mine, its, strict=True)) and mine != its


def _figures(trial: Trial) -> Sequence[float]:
    worst = float("inf")
    return (
        trial.fleet.price_per_hour, trial.fleet.devices, trial.ttft_s or worst, trial.tpot_s or worst,
        trial.j_per_mtok or worst,
    )  # fmt: skip
