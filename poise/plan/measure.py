"""What ten minutes of measuring could save: a cheaper fleet that holds once its model's error is known better."""

from __future__ import annotations

from dataclasses import dataclass, replace

from poise.core.spec import Pool
from poise.intervals.interval import Bounds
from poise.plan.alone import searched_value
from poise.plan.confidence import KINDS
from poise.plan.goal import PARTS
from poise.plan.search import SearchResult
from poise.plan.trial import Bench, Trial

POINTS = 3
"""Points that ten minutes suffice to measure: three minutes each, of which half a minute warms up."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement that would narrow a decision. trial: the fleet that may hold then.  confidence: with which, if the
    points find what is expected.  limit: the part of the SLO that is least sure.  before, after: between which factors
    measured values of it lie, with the goal's confidence.
    """

    trial: Trial
    confidence: float
    limit: str
    before: Bounds
    after: Bounds
    points: int = POINTS

    @property
    def pool(self) -> Pool:
        """The replica to measure: for a time to first token one of the first pool, else of the last."""
        pools = self.trial.fleet.pools
        return pools[0] if KINDS[self.limit] == "ttft" else pools[-1]

    def rate(self, rate: float) -> float:
        """Its share of a load, in requests per second."""
        alike = sum(pool.replicas for pool in self.trial.fleet.pools if pool.role == self.pool.role)
        return rate / alike


def measurement(found: SearchResult, tried: Trial | None, best: Trial | None) -> Measurement | None:
    """The measurement that would save most; None where none would.

    tried: the best fleet by predicted values alone.  best: the plan; None where none holds with the confidence.
    """
    bench = found.bench
    goal, doubt = bench.goal, bench.doubt
    if goal.confidence is None or doubt is None:
        return None
    worth = searched_value(found, best)
    more = replace(bench, doubt=replace(doubt, more=doubt.more + POINTS))
    able = [
        judged
        for each in [*found.trials, *([tried] if tried else [])]
        if not each.cut and each.meets(goal.predicted) and each.value(goal) < worth
        if not each.meets(goal) and (judged := more.judged(each)).meets(goal)
    ]
    chosen = min(able, key=found.rank, default=None)
    return None if chosen is None else _of(chosen, bench, more, goal.confidence)


def _of(chosen: Trial, bench: Bench, more: Bench, confidence: float) -> Measurement:
    doubt, after = bench.doubt, more.doubt
    assert doubt is not None and after is not None
    reached = {name: getattr(chosen, name) for name in PARTS}
    missed = doubt.missed(chosen.fleet, bench.goal.slo, reached)
    limit = max(missed, key=lambda name: missed[name])
    ends = [each.intervals(chosen.fleet, limit)[0].bounds(1.0, confidence) for each in (doubt, after)]
    return Measurement(chosen, chosen.confidence or 0.0, limit, ends[0], ends[1])
