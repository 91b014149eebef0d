"""The reasons for a plan in words: what binds it, or why there is none."""

from __future__ import annotations

from collections.abc import Iterator

from poise.plan.fleet import Fleet, unit_name
from poise.plan.goal import PARTS, Goal
from poise.plan.names import NAMES
from poise.plan.near_misses import closest, smaller
from poise.plan.plan import Plan
from poise.plan.trial import Trial

LIMITS = {
    "kv": "the KV cache holds no more at once",
    "sequences": "the engine runs no more at once (max_sequences)",
    "tpot": "more at once would pass the time per output token",
}
REACHED = 3
"""Devices whose best possible values are reported."""


def answer(plan: Plan) -> str:
    """The sentence that decides; where no fleet holds the SLO it says how near one comes, or what would."""
    return f"No plan: {'; '.join(nothing(plan)[:2])}." if plan.chosen is None else plan.chosen.sentence()


def binding(plan: Plan) -> str:
    """What keeps the best plan from being smaller: the part of the SLO that the next smaller fleet misses most."""
    best = plan.best
    if best is None:
        return ""
    near = smaller(best, plan.ask.goal)(plan.found.trials)
    if near is not None and near.meets(plan.ask.goal.predicted):
        return f"the confidence, {near.confidence or 0.0:.0%} with {near.fleet.written}"
    if near is not None:
        return f"{_missed(near)} with {near.fleet.written}"
    if best.fleet.replicas == 1:
        return "nothing, one replica is the least there can be"
    return f"the load, for {_closed(plan, best.fleet)} by closed form"


def nothing(plan: Plan) -> list[str]:
    """Why there is no plan, one reason a line, with the best possible values."""
    goal, slow = plan.ask.goal, plan.space.slow
    if plan.found.interrupted:
        return ["interrupted before any fleet was found to hold the SLO; give it more time"]
    if not plan.space.kinds:
        return [_floor(plan, name) for name in PARTS if _never(plan, name)] or [
            f"no replica meets every part of the SLO even with one request; {len(slow)} were looked at"
        ]
    if plan.unlimited is not None:
        best = plan.unlimited.fleet
        text = f"{best.written} at ${best.price_per_hour:.2f} an hour, {best.devices} devices and {best.power_w:,.0f} W"
        return [f"nothing holds the SLO within the limits; without them the best is {text}"]
    if plan.alone is not None:
        return [_unsure(plan, plan.alone)]
    lines = [f"no fleet that was tried holds the SLO for {goal.attainment:.4g} of the requests"]
    near = closest(plan.found.trials)
    if near is not None:
        lines.append(f"the best reaches {near.attainment:.2%}: {near.fleet.written} ({_missed(near)})")
    return lines + list(dict.fromkeys(why for why in plan.found.why.values() if why))[:REACHED]


def _unsure(plan: Plan, alone: Trial) -> str:
    """That fleets hold by predicted values alone."""
    wanted, goal = plan.ask.goal.confidence or 0.0, plan.ask.goal
    able = [each for each in plan.found.trials if not each.cut and each.meets(goal.predicted)]
    surest = max([*able, alone], key=lambda each: each.confidence or 0.0)
    return (
        f"no fleet that was tried holds the SLO with {wanted:.0%} confidence; the surest, {surest.fleet.written}, does "
        f"with {surest.confidence or 0.0:.0%}; by predicted values alone (--confidence 0) the best is "
        f"{alone.fleet.written}"
    )


def slack(trial: Trial, goal: Goal) -> dict[str, float]:
    """By part of the SLO: how far below its limit the goal's share of the requests stayed, as a share of the limit."""
    fields = {}
    for name in PARTS:
        limit, reached = getattr(goal.slo, name), getattr(trial, name)
        if limit is not None and reached is not None:
            fields[name] = 1 - reached / limit
    return fields


def _missed(trial: Trial) -> str:
    """The part of the SLO that was missed most, in words."""
    name = max(trial.misses, key=lambda each: trial.misses[each])
    return f"{trial.misses[name]:.1%} of the requests miss {NAMES[name]}"


def _closed(plan: Plan, fleet: Fleet) -> str:
    """What the replicas of a fleet carry at best."""
    rates = []
    for pool in fleet.pools:
        for known, bound in plan.space.bounds:
            if unit_name(known) == unit_name(pool).removesuffix(" prefill").removesuffix(" decode"):
                rates.append(f"a {unit_name(pool)} carries at most {bound.rate:.3g} req/s, for {LIMITS[bound.limit]}")
    return "; ".join(rates)


def _never(plan: Plan, name: str) -> bool:
    """Whether no replica at all can meet one part of the SLO."""
    limit = getattr(plan.ask.goal.slo, name)
    return limit is not None and hasattr(plan.space.bounds[0][1], name) and not list(_able(plan, name, limit))


def _able(plan: Plan, name: str, limit: float) -> Iterator[str]:
    yield from (unit_name(pool) for pool, bound in plan.space.bounds if getattr(bound, name) <= limit)


def _floor(plan: Plan, name: str) -> str:
    """The best possible value of one part of the SLO, by device."""
    best: dict[str, tuple[float, str]] = {}
    for pool, bound in plan.space.bounds:
        reached = (getattr(bound, name), unit_name(pool))
        best[pool.device.name] = min(best.get(pool.device.name, reached), reached)
    text = ", ".join(f"{value:.3g} s on {unit}" for value, unit in sorted(best.values())[:REACHED])
    what = f"a prompt of {plan.demand.long_prompt:g} tokens alone" if name == "ttft_s" else "one request alone"
    return f"{name}={getattr(plan.ask.goal.slo, name):g} cannot be met: {what} takes {text}"
