"""One fleet tried: simulated under every stretch of the demand, and its results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from statistics import NormalDist
from typing import Any

import numpy as np

from poise.core.records.records import Run
from poise.core.spec import Belief, Slo
from poise.core.units import SECOND, ps
from poise.plan.confidence import Doubt
from poise.plan.demand import Demand
from poise.plan.early_stop import SloFeasibility, looser
from poise.plan.fleet import Fleet
from poise.plan.goal import PARTS, Goal
from poise.report.blocks import bins_of
from poise.report.bootstrap import Floats, Path, Sample, interval, settle
from poise.report.intervals import TOO_SHORT, Interval, over_seeds
from poise.report.latency import column, counted, durations
from poise.report.metrics import measure, met
from poise.report.programs import spans
from poise.report.rates import best, works
from poise.report.seeds import CONFIDENCE, mean
from poise.report.shares import independent, sample_size, score
from poise.report.spending import load, pools_by_replica
from poise.scenario.simulate import Cost, simulate
from poise.sim.terms import Stopping
from poise.workload import Workload

_ATTAINMENT: Path = ("slo_attainment",)

MEANS = ("ttft_s", "tpot_s", "e2e_s", "program_s", "watts", "usd_per_mtok", "j_per_mtok", "busy_time", "hit")
"""Figures of a trial over several seeds that are means of theirs."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The results of a fleet, means over stretches. attainment: share of arrivals that met the SLO; `spread` is half of
    the interval (over `seeds`, or over blocks of time of one run at 95 %; None where it cannot be computed).

    ttft_s, tpot_s, e2e_s: what the goal's share of the requests stayed within (None: fewer finished); program_s: the
    same of programs (None as well where there are none).
    watts, usd_per_mtok, j_per_mtok: of all devices; busy_time: share of time with a running step.
    cut: ended once it could not hold; then attainment is what it could have reached at most, the figures are None, and
    watts, busy_time, hit and misses are those until then.
    confidence: with which the limits hold for the goal's share, given the model's error (`plan.confidence`); None where
    that is not stated.
    """

    fleet: Fleet
    attainment: float
    spread: float | None
    ttft_s: float | None
    tpot_s: float | None
    e2e_s: float | None
    program_s: float | None
    watts: float
    usd_per_mtok: float | None
    j_per_mtok: float | None
    busy_time: float
    hit: float | None
    misses: dict[str, float]
    cut: bool = False
    seeds: int = 1
    confidence: float | None = None

    def meets(self, goal: Goal) -> bool:
        """Whether enough arrivals met the SLO, with the confidence that the goal asks for."""
        if self.attainment < goal.attainment:
            return False
        return goal.confidence is None or self.confidence is None or self.confidence >= goal.confidence

    def surety(self, goal: Goal) -> float | None:
        """The confidence that it holds, given the model's error and chance; None where either is not stated.

        The chances to miss add up, whatever their dependence. That of chance is one of a normal distribution whose 95 %
        interval is `spread`; intervals of looks are ones of more, so the chance is too large rather than too small.
        """
        if self.confidence is None or self.spread is None:
            return None
        gap = self.attainment - goal.attainment
        missed = NormalDist(0, max(self.spread, 1e-12) / NormalDist().inv_cdf((1 + CONFIDENCE) / 2)).cdf(-gap)
        return max(0.0, self.confidence - missed)

    def sure(self, goal: Goal) -> bool:
        """Whether the interval of the share lies above the goal, and the confidence holds with chance counted."""
        if self.side(goal) <= 0:
            return False
        surety = self.surety(goal)
        return goal.confidence is None or surety is None or surety >= goal.confidence

    def side(self, goal: Goal) -> int:
        """1 where the interval of the share lies at or above the goal, -1 where below it, 0 where it contains it."""
        if self.spread is None:
            return 0
        low, high = self.attainment - self.spread, self.attainment + self.spread
        return 1 if low >= goal.attainment else -1 if high < goal.attainment else 0

    def value(self, goal: Goal) -> float:
        """The objective: dollars per hour, devices, or joules per million tokens."""
        if goal.minimize == "cost":
            return self.fleet.price_per_hour
        return float(self.fleet.devices) if goal.minimize == "gpus" else (self.j_per_mtok or float("inf"))

    def as_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "fleet"}
        fleet = self.fleet
        about = {
            "fleet": fleet.written, "router": fleet.router, "devices": fleet.by_device,
            "price_per_hour": fleet.price_per_hour, "power_w": fleet.power_w,
        }  # fmt: skip
        return {**about, **fields}


@dataclass(frozen=True, slots=True)
class SeedTrial:
    """The trial of one seed. arrived: requests that are judged; independent: the independent ones they count as."""

    trial: Trial
    arrived: float
    independent: float


@dataclass(frozen=True, slots=True)
class Bench:
    """Where fleets are tried: the demand, the goal, the cost recipe and the gateway's belief.

    front_s: seconds that an engine's server adds before the first token, which the simulation does not have; a program
    pays them once for each of its requests, as if these followed one another.
    doubt: what is known of the cost's error; None where that is not stated.
    """

    demand: Demand
    goal: Goal
    cost: Cost
    belief: Belief = field(default_factory=Belief)
    front_s: float = 0.0
    doubt: Doubt | None = None

    @property
    def slo(self) -> Slo:
        """The SLO less `front_s`, for the simulation."""
        slo, front_s = self.goal.slo, self.front_s
        program_s = _less(slo.program_s, front_s * self.demand.turns)
        return Slo(_less(slo.ttft_s, front_s), slo.tpot_s, _less(slo.e2e_s, front_s), program_s)

    def trial(self, fleet: Fleet, workloads: Sequence[Workload] = (), *, patience: float = inf) -> Trial:
        """The trial of a fleet under the demand's stretches, or under `workloads` in their place.

        patience: a lone run is cut once too many arrivals have missed a limit of the SLO by this factor.
        """
        loads, warmup = workloads or self.demand.stretches, self.demand.warmup_s
        feasibility = None
        if len(loads) == 1 and patience < inf:
            feasibility = SloFeasibility(looser(self.goal.slo, patience, self.front_s), self.goal.attainment, warmup)
        runs = [self._run(fleet, load, seed, feasibility) for seed, load in enumerate(loads)]
        if feasibility is not None and runs[0].interrupted and feasibility.gone(runs[0], runs[0].ended_at):
            return self._cut(fleet, runs[0], feasibility)
        return self._measured(fleet, runs)

    def seed_trial(self, fleet: Fleet, workload: Workload, seed: int) -> SeedTrial:
        """The trial of a fleet under one workload, to be joined with those of other seeds."""
        run, warmup = self._run(fleet, workload, seed, None), self.demand.warmup_s
        return SeedTrial(
            self._measured(fleet, [run]), float(counted(run, warmup).sum()), float(independent(run, warmup))
        )

    def _measured(self, fleet: Fleet, runs: Sequence[Run]) -> Trial:
        warmup = self.demand.warmup_s
        figures = [measure(run, fleet.cluster(), self.slo, warmup_s=warmup) for run in runs]
        shares = [_share(run, self.slo, warmup) for run in runs]
        found = Trial(
            fleet=fleet,
            attainment=mean(shares),
            spread=_spread(runs, shares, self.slo, warmup),
            ttft_s=_plus(_within(runs, "ttft", self.goal.attainment, warmup), self.front_s),
            tpot_s=_within(runs, "tpot", self.goal.attainment, warmup),
            e2e_s=_plus(_within(runs, "e2e", self.goal.attainment, warmup), self.front_s),
            program_s=_plus(_programs_within(runs, self.goal.attainment, warmup), self.front_s * self.demand.turns),
            watts=_watts(fleet, runs),
            usd_per_mtok=_mean(each.cost_usd_per_mtok for each in figures),
            j_per_mtok=_mean(each.energy_j_per_mtok for each in figures),
            busy_time=_mean(each.busy_time.mean for each in figures) or 0.0,
            hit=_mean(each.prefix_hit_rate for each in figures),
            misses=_misses(runs, self.slo, warmup),
            seeds=len(runs),
        )
        return self.judged(found)

    def judged(self, trial: Trial) -> Trial:
        """The trial with the confidence of its own figures."""
        if self.doubt is None:
            return trial
        reached = {name: getattr(trial, name) for name in PARTS}
        return replace(trial, confidence=self.doubt.confidence(trial.fleet, self.goal.slo, reached))

    def whole(self, trial: Trial) -> Trial:
        """The full trial, if it was cut."""
        return self.trial(trial.fleet) if trial.cut else trial

    def _cut(self, fleet: Fleet, run: Run, feasibility: SloFeasibility) -> Trial:
        """The trial of a run that was ended because it could not hold."""
        figures = measure(run, fleet.cluster(), self.slo, warmup_s=feasibility.warmup_s)
        return Trial(
            fleet=fleet,
            attainment=SloFeasibility(self.slo, feasibility.share, feasibility.warmup_s).left(run, run.ended_at),
            spread=None, ttft_s=None, tpot_s=None, e2e_s=None, program_s=None,
            watts=_watts(fleet, [run]),
            usd_per_mtok=None, j_per_mtok=None,
            busy_time=figures.busy_time.mean or 0.0,
            hit=figures.prefix_hit_rate,
            misses=_misses([run], self.slo, feasibility.warmup_s),
            cut=True,
        )  # fmt: skip

    def _run(self, fleet: Fleet, workload: Workload, seed: int, feasibility: SloFeasibility | None) -> Run:
        return simulate(
            fleet.cluster(),
            workload,
            fleet.policies(),
            cost=self.cost,
            belief=self.belief,
            seed=seed,
            stopping=Stopping(enough=None if feasibility is None else feasibility.gone),
        )


def _share(run: Run, slo: Slo, warmup_s: float) -> float:
    """The share of arrivals after warm-up that met the SLO."""
    arrived = int(counted(run, warmup_s).sum())
    return float(met(run, slo, warmup_s).sum()) / arrived if arrived else 0.0


def _spread(runs: Sequence[Run], shares: Sequence[float], slo: Slo, warmup_s: float) -> float | None:
    """Half the 95 % interval of the mean share, over stretches or over one run's time; None where it is too short.

    It holds near 0 and 1 too (`report.shares`): all of 200 arrivals are not 100 ± 0 %.
    """
    counts = [float(counted(run, warmup_s).sum()) for run in runs]
    sizes = (independent(run, warmup_s) for run in runs)
    if len(runs) > 1:
        return _over_seeds(shares, counts, sizes, CONFIDENCE)
    size = sample_size(counts, sizes, shares, by_seeds=False)
    found = replace(_by_blocks(runs[0], slo, warmup_s), value=shares[0])
    return score(found, shares, size, CONFIDENCE).half


def joined(seen: Sequence[SeedTrial], confidence: float) -> Trial:
    """The trial of one fleet over two or more seeds: means, and the interval of the share with `confidence`."""
    trials = [each.trial for each in seen]
    shares = [each.attainment for each in trials]
    counts, sizes = [each.arrived for each in seen], [each.independent for each in seen]
    means: dict[str, Any] = {name: _mean(getattr(each, name) for each in trials) for name in MEANS}
    return replace(
        trials[0],
        attainment=mean(shares),
        spread=_over_seeds(shares, counts, sizes, confidence),
        misses={name: mean([each.misses[name] for each in trials]) for name in trials[0].misses},
        seeds=len(seen),
        **means,
    )  # fmt: skip


def _over_seeds(
    shares: Sequence[float], counts: Sequence[float], sizes: Iterable[float], confidence: float
) -> float | None:
    size = sample_size(counts, sizes, shares, by_seeds=True)
    return score(over_seeds(shares, confidence), [mean(shares)], size, confidence).half


def _by_blocks(run: Run, slo: Slo, warmup_s: float) -> Interval:
    """The interval of the share of one run, from blocks of its time, which says so where the run is too short."""
    arrived_at = column(run.records.arrived_at)
    counts = counted(run, warmup_s)
    bins = bins_of(arrived_at[counts], ps(warmup_s))
    if bins is None:
        return Interval(0.0, None, TOO_SHORT)
    where = bins.of(arrived_at)
    good = np.bincount(where[met(run, slo, warmup_s)], minlength=bins.count)
    arrived = np.bincount(where[counts], minlength=bins.count)

    def evaluate(weights: Floats) -> dict[Path, Sample]:
        return {_ATTAINMENT: Sample((weights @ good) / np.maximum(weights @ arrived, 1))}

    spread = settle(evaluate, bins.count).get(_ATTAINMENT)
    return interval(0.0, spread)


def _within(runs: Sequence[Run], name: str, share: float, warmup_s: float) -> float | None:
    """The value that `share` of each run's arrivals stayed within, the mean over runs; None where fewer finished."""
    limits = []
    for run in runs:
        values = np.sort(durations(run, warmup_s)[name][1])
        arrived = len(values) if name == "tpot" else int(counted(run, warmup_s).sum())
        rank = ceil(share * arrived) - 1
        if not 0 <= rank < len(values):
            return None
        limits.append(int(values[rank]) / SECOND)
    return mean(limits)


def _programs_within(runs: Sequence[Run], share: float, warmup_s: float) -> float | None:
    """What `share` of the programs begun in each run took at most, the mean over runs; None where fewer finished."""
    limits = []
    for run in runs:
        found = spans(run, warmup_s)
        took = np.zeros(0) if found is None else np.sort(found.took[found.finished])
        rank = -1 if found is None else ceil(share * int(found.begun.sum())) - 1
        if not 0 <= rank < len(took):
            return None
        limits.append(int(took[rank]) / SECOND)
    return mean(limits)


def _less(limit: float | None, seconds: float) -> float | None:
    """The rest of a limit, never 0."""
    return None if limit is None else max(limit - seconds, 1e-9)


def _plus(value: float | None, more: float) -> float | None:
    return None if value is None else value + more


def _misses(runs: Sequence[Run], slo: Slo, warmup_s: float) -> dict[str, float]:
    """The share of arrivals that missed each part of the SLO, regardless of the others."""
    parts = {name: value for name in PARTS if (value := getattr(slo, name)) is not None}
    return {
        name: mean([1 - _share(run, Slo(**{name: value}), warmup_s) for run in runs]) for name, value in parts.items()
    }


def _watts(fleet: Fleet, runs: Sequence[Run]) -> float:
    """Mean watts of all devices while requests arrive: idle power, and what a running step draws in addition."""
    pools = pools_by_replica(fleet.cluster())
    drawn = [
        pool.devices * pool.device.tdp_w * load(stats, pool, window)
        for run in runs
        for window in [best(works(run), "tokens").window]
        for stats, pool in zip(run.replicas, pools, strict=True)
    ]
    return sum(drawn) / len(runs)


def _mean(values: Iterable[float | None]) -> float | None:
    """The mean; None where one is missing."""
    known = list(values)
    return None if None in known else mean([value for value in known if value is not None])
