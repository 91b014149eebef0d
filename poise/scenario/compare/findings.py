"""The conclusions in the report of a comparison."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.spec import Slo
from poise.report.findings import Findings, Judged, Limit, Tried
from poise.report.wording import significant
from poise.scenario.compare.words import collapse_lines, interval_line, load_title, partial_line

if TYPE_CHECKING:
    from poise.scenario.compare.collapse import Collapse
    from poise.scenario.compare.comparison import Comparison


def findings(comparison: Comparison, one: str = "") -> Findings:
    """Verdicts and limits in words. one: the meaning of load 1, where it is not the workload's own."""
    loads = [load for load in comparison.study.loads if comparison.policies(load)]
    lines = collapse_lines(comparison)
    return Findings(
        [Judged(load, load_title(comparison, load), comparison.best(load)) for load in loads],
        [_limit(name, each) for name, each in comparison.collapses.items()] if lines else [],
        [] if one else lines,
        interval_line(comparison),
        one or _own(comparison),
        partial_line(comparison),
        comparison.answer(own=not one),
        own=not one,
        target=None if comparison.study.setting.slo == Slo() else comparison.study.target,
    )


def _own(comparison: Comparison) -> str:
    """The meaning of load 1."""
    whose = "the trace as it was recorded" if comparison.study.recorded else "the workload as it was given"
    rate = comparison.rate(1.0) if 1.0 in comparison.offered else None
    return whose if rate is None else f"{whose} ({significant(rate)} req/s)"


def _limit(policy: str, found: Collapse) -> Limit:
    low, high = found.range
    carried, beyond = found.carried, found.beyond
    return Limit(
        policy,
        found.load,
        carried.load if carried else None,
        beyond.load if beyond else None,
        low,
        high,
        [Tried(each.load, each.why, each.sure) for each in found.probes],
    )
