"""A comparison in sentences: its progress, its intervals, its loads, and how far the traffic is from a collapse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.spec import Slo
from poise.report.backlog import GROWTH
from poise.report.seeds import CONFIDENCE
from poise.report.wording import significant, write
from poise.scenario.compare.collapse import between
from poise.scenario.write import offered

if TYPE_CHECKING:
    from poise.scenario.compare.collapse import Collapse
    from poise.scenario.compare.comparison import Comparison


def partial_line(comparison: Comparison) -> str:
    """The progress of a comparison that was stopped; empty for a whole one."""
    if not comparison.interrupted:
        return ""
    done, planned = len(comparison.cells), len(comparison.study.places())
    return f"stopped by the user; {done} of {planned} simulations are done"


def interval_line(comparison: Comparison) -> str:
    """The meaning of ± in the tables."""
    half = f"± is half of a {write(CONFIDENCE, 'share')} interval"
    count = len(comparison.study.seeds)
    if comparison.study.by_seeds:
        return f"Means over {count} seeds; {half} of chance among them, differences paired by seed."
    seeds = "" if count == 1 else f"Means over {count} seeds; "
    return f"{seeds}{half} from blocks of time (? where the run is too short to say), differences paired by block."


def load_title(comparison: Comparison, load: float) -> str:
    """A load and its requests in words."""
    (requests, *rest), count = offered(comparison.offered[load]), len(comparison.study.seeds)
    parts = [f"{requests} × {count} seeds" if count > 1 else requests, *rest]
    whole = all(len(comparison.of(name, load)) == count for name in comparison.study.policies)
    return f"Load {significant(load)}{'' if whole else ' (interrupted: partial)'}: {', '.join(parts)}"


def collapse_lines(comparison: Comparison) -> list[str]:
    """Each policy's distance from its collapse, missing results, and the criterion of a carried load.

    None for one load that all carry.
    """
    found, several = comparison.collapses, len(comparison.study.loads) > 1 or comparison.sought
    if not several and all(each.beyond is None for each in found.values()):
        return []
    if not found:
        return ["A collapse cannot be found: there is no SLO, and no run shows whether its queue grows."]
    whose = "trace" if comparison.study.recorded else "workload"
    lines = [_distance(whose, name, each) for name, each in found.items()]
    unclear = {each.load for some in found.values() for each in some.probes if each.growth.value is None}
    if unclear:
        loads = ", ".join(map(significant, sorted(unclear)))
        lines.append(f"At load {loads} some runs are too short beside their requests to tell whether a queue grows.")
    criterion, chance = f"at least {write(comparison.study.target, 'share')} meet the SLO and ", " beyond chance"
    if comparison.study.setting.slo == Slo():
        criterion = chance = ""
    kept = write(GROWTH, "share")
    lines.append(f"A load is carried when {criterion}the queue keeps no more than {kept} of what arrives{chance}.")
    return lines


def _distance(whose: str, name: str, found: Collapse) -> str:
    """How far the traffic itself is from the collapse of a policy, in a sentence."""
    share, least, most = found.distance
    if share is not None:
        sure = between((least, most))
        return f"The {whose}'s load is {significant(share, 2)} of the collapse load of {name} ({sure})."
    if found.carried is not None:
        bound, why = f"below {significant(1 / found.carried.load, 2)}", "which carries every load tried"
    else:
        least_tried = found.probes[0].load
        bound, why = f"above {significant(1 / least_tried, 2)}", "which carries no load tried"
    return f"The {whose}'s load is {bound} of the collapse load of {name}, {why}."
