"""The confidence of a plan in words: what it costs, what narrows it, and what a measurement could save."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from poise.intervals.interval import CONFIDENCE, Bounds
from poise.plan.answer import counted
from poise.plan.confidence import KINDS, doubt_of
from poise.plan.fleet import unit_name
from poise.plan.measure import Measurement
from poise.plan.names import NAMES
from poise.plan.plan import Plan
from poise.plan.trial import Trial
from poise.report.wording import significant, write


def confidence_lines(plan: Plan, best: Trial) -> Iterator[str]:
    """How sure the plan is by the model's error, by limit; what that rests on; and what would narrow it."""
    goal, doubt = plan.ask.goal, plan.found.bench.doubt
    if doubt is None:
        why = doubt_of(plan.ask.cost, goal.attainment)
        yield f"by predicted values alone: how far off they may be is not stated here, for {why}"
        return
    reached = {name: getattr(best, name) for name in KINDS}
    missed = doubt.missed(best.fleet, goal.slo, reached)
    parts = ", ".join(f"{NAMES[name]} {write(1 - share, 'share', 2)}" for name, share in missed.items())
    wanted = "none asked" if goal.confidence is None else f"{write(goal.confidence, 'share')} asked"
    surety = best.surety(goal)
    chance = "" if surety is None else f", {write(surety, 'share', 2)} with chance"
    own = write(best.confidence or 0.0, "share", 2)
    yield f"model error: it holds with {own} confidence{chance} ({wanted}): {parts}"
    yield from narrowed_lines(plan, best)


def narrowed_lines(plan: Plan, best: Trial) -> Iterator[str]:
    """By how much one's own measurements narrowed the intervals of the plan."""
    doubt = plan.found.bench.doubt
    if doubt is None or not doubt.own.file:
        return
    seen = False
    for name in KINDS:
        if getattr(plan.ask.goal.slo, name) is None:
            continue
        before, after = doubt.without_own.intervals(best.fleet, name), doubt.intervals(best.fleet, name)
        for of, wide, narrow in zip(doubt.conditions(best.fleet, name), before, after, strict=True):
            found = doubt.own.of(of)
            if found is not None:
                seen = True
                yield (
                    f"{NAMES[name]} of {of.device}: narrowed from {times(wide.bounds(1.0))} to "
                    f"{times(narrow.bounds(1.0))} by {found.rows} measurements of {doubt.own.file}"
                )
    if not seen:
        of = doubt.conditions(best.fleet, "ttft_s")[0]
        yield f"{doubt.own.file} narrows nothing: it has no points of {of.weights} on {of.device} under {of.engine}"


def measurement_lines(plan: Plan) -> Iterator[str]:
    """What a measurement could save, and the command that reads it."""
    found = plan.measurement
    if found is None:
        return
    rate = significant(found.rate(plan.demand.rate), 2)
    unit, demand = unit_name(found.pool), plan.demand
    yield (
        f"ten minutes of measuring may save {_saved(plan, found)}: {found.points} points of one {unit} around {rate} "
        f"req/s of {demand.prompt:.0f} + {demand.output:.0f} tokens narrow {NAMES[found.limit]} from "
        f"{times(found.before)} to {times(found.after)}; if they find what is expected, {found.trial.fleet.written} "
        f"holds with {write(found.confidence, 'share', 2)} confidence. Write them to points.csv, then "
        "`poise calibrate --points points.csv --out own.json`, and plan again with `--own own.json`"
    )


def times(ends: Bounds) -> str:
    """Factors on a prediction."""
    return f"×{significant(ends.low, 2)}–{significant(ends.high, 2)}"


def _saved(plan: Plan, found: Measurement) -> str:
    """Devices and dollars per hour that a fleet saves beside the plan."""
    best, fleet = plan.best, found.trial.fleet
    if best is None:
        return "the SLO"
    less, cheaper = best.fleet.devices - fleet.devices, best.fleet.price_per_hour - fleet.price_per_hour
    parts = [counted(less)] if less > 0 else []
    return " and ".join([*parts, *([f"${cheaper:.2f}/h"] if cheaper > 0 else [])]) or "energy"


def model_error(plan: Plan) -> dict[str, Any]:
    """For JSON: the chance that each limit is passed, intervals of the plan's figures, and the measurement."""
    doubt, best, found = plan.found.bench.doubt, plan.best, plan.measurement
    if doubt is None or best is None:
        return {"why": doubt_of(plan.ask.cost, plan.ask.goal.attainment) if doubt is None else "there is no plan"}
    limits = [name for name in KINDS if getattr(plan.ask.goal.slo, name) is not None]
    ends = {name: [each.bounds(1.0)._asdict() for each in doubt.intervals(best.fleet, name)] for name in limits}
    wide = {
        name: [each.bounds(1.0)._asdict() for each in doubt.without_own.intervals(best.fleet, name)] for name in limits
    }
    reached = {name: getattr(best, name) for name in KINDS}
    return {
        "confidence_of_factors": CONFIDENCE, "missed": doubt.missed(best.fleet, plan.ask.goal.slo, reached),
        "factors": ends, "own": doubt.own.file, "factors_without_own": wide if doubt.own.file else None,
        "measurement": None if found is None else {
            "fleet": found.trial.fleet.written, "of": unit_name(found.pool), "points": found.points,
            "limit": found.limit, "confidence": found.confidence, "before": found.before._asdict(),
            "after": found.after._asdict(),
        },
    }  # fmt: skip
