"""Prints a plan in a terminal."""

from __future__ import annotations

from collections.abc import Iterator
from math import ceil

from poise.plan.demand import MOST
from poise.plan.names import NAMES
from poise.plan.plan import Plan
from poise.plan.rows import HEADS, cells
from poise.plan.scale import SAVES, Scaled, ScaledPlan, pool_name, why_not
from poise.plan.share import in_list
from poise.plan.sureness import confidence_lines, measurement_lines
from poise.plan.trial import Trial
from poise.plan.verdict import answer, binding, nothing, slack
from poise.report.table import show

ROWS = 8
"""Fleets of a table at most."""

MOST_SEEDS = 1000
"""Seeds from which on more are not worth asking for."""


def show_plan(plan: Plan) -> None:
    """Print the answer, the next best fleets, how sure the plan is and what would change it, then what it rests on."""
    best = plan.best
    print(answer(plan))
    if best is None:
        print("\n".join(f"- {line}" for line in [*nothing(plan), *measurement_lines(plan)]))
        return
    print()
    others = [trial for trial in plan.ranked if trial is not best]
    share = f"at {plan.ask.goal.attainment:.4g} of the requests"
    show(f"The plan and the next best ({share})", HEADS, [cells(each) for each in [best, *others][:ROWS]], keys=1)
    rest = [trial for trial in plan.pareto if trial not in [best, *others][:ROWS]]
    if rest:
        show("Also nowhere beaten in price, devices, latency and energy", HEADS, [cells(each) for each in rest[:ROWS]])
    print("\n".join(f"- {line}" for line in remarks(plan, best)))


def settings(best: Trial) -> Iterator[str]:
    """The limits of each pool's engines."""
    for pool in best.fleet.pools:
        engine = pool.engine
        capped = f", capped at {pool.power_w:g} W" if pool.slowed else ""
        yield f"{pool.device.name}: token budget {engine.token_budget}, at most {engine.max_sequences} at once{capped}"


def remarks(plan: Plan, best: Trial) -> Iterator[str]:
    """How sure the plan is, what would change it, and what it rests on."""
    yield from certainty(plan, best)
    yield from what_changes(plan)
    yield from basis(plan, best)


def certainty(plan: Plan, best: Trial) -> Iterator[str]:
    """How sure the plan is, how far it stays from the limits, and which cheaper fleets held in the search alone."""
    goal = plan.ask.goal
    yield from _risk(plan, best)
    yield from confidence_lines(plan, best)
    parts = ", ".join(f"{NAMES[name]} {share:.0%} below" for name, share in slack(best, goal).items())
    yield f"slack: {parts}; what binds: {binding(plan)}"
    if plan.refuted:
        first = plan.refuted[0].fleet
        yield f"held in the search but not under all seeds: {first.written} (${first.price_per_hour:.2f}/h)"


def basis(plan: Plan, best: Trial) -> Iterator[str]:
    """Scaling and spot offers, and what the plan rests on: settings, traffic, prices and the search."""
    demand = plan.demand
    if plan.scaling is not None:
        each = plan.scaling
        yield (
            f"scaling with the load could save about {each.saved:.0%} of replica-hours "
            f"({each.least} to {each.most} replicas in windows of {each.window_s:.0f} s)"
        )
    if plan.scaled is not None:
        yield from _scaled(plan.scaled)
    elif not plan.found.interrupted and (plan.ask.scale or (plan.scaling and plan.scaling.saved >= SAVES)):
        yield f"no scaler was simulated: {why_not(plan.scaling, plan.demand, plan.ask.scale)}"
    if plan.spot is not None:
        yield (
            f"on spot: {plan.spot.fleet.written} at ${plan.spot.price_per_hour:.2f}/h ({plan.spot.spares} spare); "
            f"{plan.spot.reclaimed:.2%} meet the SLO while one of each pool is taken back"
        )
    yield from plan.demand.notes
    if any(pool.slowed for pool in best.fleet.pools):
        yield "steps and joules under a power cap follow a model of clocks (POLCA); no cap was measured"
    if any(pool.weights != "bf16" for pool in best.fleet.pools):
        yield "narrow weights need such a checkpoint; what they cost in quality is not judged"
    yield from settings(best)
    yield f"for {plan.ask.model.name}, {demand.rate:.4g} req/s of {demand.prompt:.0f} + {demand.output:.0f} tokens"
    if plan.ask.basis:
        yield f"prices: {plan.ask.basis}"
    found = plan.found
    yield (
        f"{len(found.trials)} fleets simulated, {len(plan.space.kinds)} kinds, {found.left_out} left out as dearer by "
        f"closed form, {len(plan.units.refused)} do not fit"
        + ("; interrupted: the best so far, not confirmed" if found.interrupted else "")
    )


def _scaled(scaled: Scaled) -> Iterator[str]:
    """The scalers' results for the whole traffic."""
    best, constant = scaled.best, scaled.constant
    took = f"{len(scaled.tried) + 1} simulations of {scaled.hours:.3g} h took {scaled.wall_s:.0f} s"
    about = (
        f"{pool_name(scaled)} from 1 to {scaled.fleet.pools[scaled.pool].replicas}, starts of {scaled.start_s:.0f} s"
    )
    if best is None:
        near = max(scaled.tried, key=lambda each: each.attainment, default=None)
        reached = "" if near is None else f"; the nearest is {written(near)} with {share(near)}"
        yield f"no scaler holds the SLO for less ({about}){reached}; {took}"
        return
    yield (
        f"scaled by {written(best)} ({about}): {share(best)} of the whole traffic meet the SLO, {spent(best)}, "
        f"{scaled.saved:.0%} less than always all ({share(constant)}, {spent(constant)}); {took}"
    )


def written(grown: ScaledPlan) -> str:
    """A scaler with its settings."""
    settings = ", ".join(f"{name} {value}" for name, value in grown.settings.items())
    return f"{grown.scaler} ({settings})" if grown.scaler else "always all"


def share(grown: ScaledPlan) -> str:
    """The share of arrivals that met the SLO, as text."""
    return f"{'at most ' if grown.cut else ''}{100 * grown.attainment:.2f} %"


def spent(grown: ScaledPlan) -> str:
    """Dollars and device-hours."""
    price = "" if not grown.dollars else f"${grown.dollars:.2f} and "
    return "–" if grown.device_hours is None else f"{price}{grown.device_hours:.4g} device-hours"


def _risk(plan: Plan, best: Trial) -> Iterator[str]:
    """The plan's confidence, and where it is not sure what would decide it."""
    if plan.found.interrupted:
        return
    goal = f"{100 * plan.ask.goal.attainment:g} %"
    if plan.sure is best:
        yield f"sure: {in_list(best)} of the requests meet the SLO over {_seeds(plan, best)}, above the {goal} asked"
        return
    parts = [f"not sure: {in_list(best)} over {_seeds(plan, best)}, around the {goal} asked", decides(plan, best)]
    if plan.sure is not None:
        fleet = plan.sure.fleet
        price = f"${fleet.price_per_hour:.2f}/h, " if fleet.price_per_hour else ""
        more = f"{price}{in_list(plan.sure)} over {_seeds(plan, plan.sure)}"
        parts.append(f"{fleet.written}, {fleet.router} ({more}) is sure")
    else:
        parts.append("no fleet near it is sure either")
    yield "; ".join(filter(None, parts))


def decides(plan: Plan, best: Trial) -> str:
    """How much more traffic would decide whether a fleet that is not sure holds."""
    if plan.ask.goal.attainment == 1.0:
        return "no number of requests makes sure of all of them: ask for less than attainment=1"
    if plan.times is None:
        return "" if best.spread is None else "no number of seeds decides a share that is the one asked"
    wanted = ceil(plan.times * best.seeds)
    if not plan.demand.recorded:
        return f"about --seeds {wanted} would decide" if wanted <= MOST_SEEDS else "it lies on the edge"
    rows, whole = wanted * len(plan.demand.stretches[0]), len(plan.demand.whole)
    if rows <= min(whole, MOST):
        return f"about --requests {rows} would decide"
    return f"about {rows:,} requests of such traffic would decide, and the trace has {whole:,}"


def _seeds(plan: Plan, trial: Trial) -> str:
    """The traffic behind an interval."""
    if trial.seeds == 1:
        return "blocks of the recorded time"
    return f"{trial.seeds} stretches of the trace at that rate" if plan.demand.recorded else f"{trial.seeds} seeds"


def what_changes(plan: Plan) -> Iterator[str]:
    """More load, a lost replica, other prices and looser limits, a sentence each."""
    yield from measurement_lines(plan)
    changes = plan.changes
    if changes is None:
        return
    yield f"it holds up to {'at least ' if changes.beyond else ''}{changes.load:.3g} times the load"
    for unit, share in changes.lost.items():
        yield f"without one {unit}: {100 * share:.1f} % meet the SLO"
    for name, price in changes.break_even.items():
        now = plan.ask.prices[name].per_hour if name in plan.ask.prices else 0.0
        yield f"{name} would be the choice below ${price:.2f} per device-hour (now ${now:.2f})"
    for fleet, value, limits in changes.looser:
        changed = ", ".join(f"{name}={limit:.3g}" for name, limit in limits.items())
        unit = {"cost": "$/h", "gpus": "devices", "energy": "J/Mtok"}[plan.ask.goal.minimize]
        yield f"with {changed}: {fleet} would do ({value:.4g} {unit})"
