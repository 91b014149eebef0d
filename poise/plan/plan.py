"""A plan: what was asked, what was found, how sure it is, and what would change it."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from poise.core.errors import CapacityError
from poise.core.model import Model
from poise.core.spec import Belief, Device, Engine, Format, Pool
from poise.cost import Fitted, Measured, Roofline
from poise.plan.autoscale import Autoscale, autoscale
from poise.plan.change import Changes, changes
from poise.plan.confirm import confirm
from poise.plan.demand import REQUESTS, Demand
from poise.plan.deploy.setting import Setting
from poise.plan.fleet import unit_name
from poise.plan.goal import Goal
from poise.plan.limits import Limits
from poise.plan.prices import Price
from poise.plan.search import Found, Meter, search
from poise.plan.space import Space, space
from poise.plan.spot import Spot, spot
from poise.plan.traffic import Source, read_demand
from poise.plan.trial import Bench, Trial
from poise.plan.unit import WIDEST, Units, units

SEEDS = 5
"""Seeds of generated load: one is searched, all of them confirm."""


@dataclass(frozen=True, slots=True)
class Ask:
    """What a plan is asked for.

    prices: of devices, by name; basis: where they are from.  formats, kv: of weights and of the KV cache.  split, mix:
    whether prefill and decode may be apart, and whether one role may have several kinds of replica.  widest: devices of
    one replica.  requests: of one simulation.  front_s: seconds that the engine's server adds before the first token.
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
    cost: Roofline | Measured | Fitted = field(default_factory=Measured)
    belief: Belief = field(default_factory=Belief)
    split: bool = True
    mix: bool = True
    widest: int = WIDEST
    requests: int = REQUESTS
    seeds: int = SEEDS
    front_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Plan:
    """The answer. best, sure: see `Confirmed`; best is None where nothing holds.

    workload: the section of a scenario.  unlimited: what would be best without budget, power limit and numbers of
    devices, where nothing holds within them.  changes, scaling, spot: None where there is no best, or nothing to say.
    first_s, wall_s: seconds until the first fleet that holds (None: none did), and until the plan.
    """

    ask: Ask
    demand: Demand
    workload: dict[str, Any]
    units: Units
    space: Space
    found: Found
    best: Trial | None
    sure: Trial | None
    unlimited: Trial | None
    changes: Changes | None
    scaling: Autoscale | None
    spot: Spot | None
    first_s: float | None
    wall_s: float

    @property
    def ranked(self) -> list[Trial]:
        """The best trial of each make of fleet that holds, the plan's own first, its variants of settings left out."""
        seen: dict[tuple[str, ...], Trial] = {}
        held = sorted(self.found.best.values(), key=self.found.rank)
        for trial in [*([self.best] if self.best else []), *held]:
            seen.setdefault(tuple(sorted(unit_name(pool) for pool in trial.fleet.pools)), trial)
        return list(seen.values())

    @property
    def setting(self) -> Setting:
        """What the files that deploy the plan need beside its fleet."""
        ask, demand = self.ask, self.demand
        return Setting(
            workload=self.workload, slo=ask.goal.slo, seeds=tuple(range(1 + len(demand.fresh))),
            warmup_s=demand.warmup_s, belief=ask.belief, cost=ask.cost, longest=demand.longest,
        )  # fmt: skip

    @property
    def pareto(self) -> list[Trial]:
        """Fleets that hold and that no other one beats in price, devices, time to first token, per token and energy."""
        return [one for one in self.ranked if not any(_beats(other, one) for other in self.ranked)]


def plan(
    ask: Ask,
    *,
    jobs: int = 1,
    ray: str = "",
    time_s: float | None = None,
    meter: Meter | None = None,
    told: Callable[[Trial], None] | None = None,
) -> Plan:
    """Find the plan. jobs, ray, time_s, meter, told: as `search` takes them.

    CapacityError where no device holds the model; where the SLO cannot be met the plan has no best, and says why.
    """
    since = time.perf_counter()
    probe = Pool(ask.model, ask.devices[0])
    demand, workload = read_demand(ask.source, probe, ask.seeds, ask.requests)
    per_hour = {name: each.per_hour for name, each in ask.prices.items()}
    kinds = units(
        ask.model,
        ask.devices,
        per_hour,
        formats=ask.formats,
        engine=ask.engine,
        longest=demand.longest,
        widest=ask.widest,
    )
    if not kinds.able:
        raise CapacityError(next(iter(kinds.refused.values())))
    available = {name: each.limit for name, each in ask.prices.items() if each.limit is not None}
    limits = Limits(ask.goal, available)
    where = space(kinds.able, demand, ask.goal, ask.cost, available=available, split=ask.split, mix=ask.mix)
    bench = Bench(demand, ask.goal, ask.cost, ask.belief, ask.front_s)
    before_s = time.perf_counter() - since
    found = search(where, bench, limits, jobs=jobs, ray=ray, time_s=time_s, meter=meter, told=told)
    if found.interrupted:
        best, sure = found.winner, None
    else:
        confirmed = confirm(found, limits)
        best, sure = confirmed.best, confirmed.sure
    whole = best is not None and not found.interrupted
    unlimited = None
    if best is None and not found.interrupted and limits != Limits(free := ask.goal.unlimited):
        unlimited = search(
            where, replace(bench, goal=free), Limits(free), jobs=jobs, ray=ray, time_s=time_s, meter=meter
        ).winner
    return Plan(
        ask, demand, workload, kinds, where, found, best, sure, unlimited,
        changes=changes(best, found.trials, bench) if best and whole else None,
        scaling=autoscale(demand, best.fleet.replicas) if best else None,
        spot=spot(best.fleet, ask.prices, bench) if best and whole else None,
        first_s=None if found.first_s is None else before_s + found.first_s,
        wall_s=time.perf_counter() - since,
    )  # fmt: skip


def _beats(one: Trial, other: Trial) -> bool:
    """Whether `one` is nowhere worse than `other`, and somewhere better."""
    mine, its = _figures(one), _figures(other)
    return all(a <= b for a, b in zip(mine, its, strict=True)) and mine != its


def _figures(trial: Trial) -> Sequence[float]:
    worst = float("inf")
    return (
        trial.fleet.price_per_hour, trial.fleet.devices, trial.ttft_s or worst, trial.tpot_s or worst,
        trial.j_per_mtok or worst,
    )  # fmt: skip
