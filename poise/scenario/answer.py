"""The sentence that decides a run: whether it keeps its SLO, for how many requests, and whether its queue grows."""

from __future__ import annotations

from typing import Any

from poise.core.spec import Slo
from poise.core.units import ps
from poise.report.backlog import GROWTH, backlog_growth
from poise.report.figures import ATTAINMENT, E2E
from poise.report.intervals import Interval
from poise.report.wording import significant, write
from poise.scenario.build import Problem
from poise.scenario.outcome import Outcome
from poise.scenario.write import describe, rate_of
from poise.workload.begin import leaders

SEARCH = "`poise compare --find-collapse` finds how much more it carries"


def answer(problem: Problem, outcome: Outcome) -> str:
    """One sentence; empty where no seed is done."""
    result = outcome.result()
    if result is None:
        return ""
    rate = rate_of(outcome.provenance["workload"])
    where = f"{'' if rate is None else f' at {significant(rate)} req/s'} with {describe(problem)}"
    first = _timed(outcome.policies, result, where)
    if problem.slo != Slo() and (met := ATTAINMENT.value(result)) is not None:
        first = _met(problem, outcome.policies, result, met, where)
    growth = _growth(problem, outcome)
    if growth is not None and growth.value is not None and growth.value - GROWTH > (growth.half or 0):
        rest = f"its queue keeps {write(growth.value, 'share', 2)} of what arrives, so this is more than it carries"
    else:
        rest = SEARCH if problem.slo != Slo() else "an slo in the scenario says whether that is enough"
    return f"{first}; {rest}."


def _timed(policy: str, result: dict[str, Any], where: str) -> str:
    """How long requests take, where there is no SLO."""
    mean, p99 = E2E[0].text(result), E2E[4].text(result)
    return f"Under {policy} a request takes {mean} in the mean, and 99 % end within {p99},{where}"


def _met(problem: Problem, policy: str, result: dict[str, Any], met: float, where: str) -> str:
    """Whether the SLO is kept for the share of requests that counts as carried."""
    target, half = problem.loaded.scenario.compare.target, ATTAINMENT.half_width(result)
    share = " ".join(filter(None, (ATTAINMENT.text(result), ATTAINMENT.margin(result))))
    doubt = " (chance may decide)" if half is not None and abs(met - target) <= half else ""
    if met >= target:
        return f"{policy} keeps the SLO for {share} of the requests{doubt},{where}"
    needed = write(target, "share")
    return f"{policy} does not keep the SLO: {share} of the requests meet it, not {needed}{doubt},{where}"


def _growth(problem: Problem, outcome: Outcome) -> Interval | None:
    """How much of what arrives the queue of the first seed keeps; None without a whole run."""
    run, workload = outcome.first, outcome.workload
    if run is None or workload is None or outcome.interrupted:
        return None
    leading = leaders(workload)
    stamps = workload.arrival[leading]
    known = stamps if problem.until_s is None else stamps[stamps <= ps(problem.until_s)]
    if not len(known):
        return None
    return backlog_growth(run, int(known.max()), warmup_s=problem.warmup_s, leaders=leading)
