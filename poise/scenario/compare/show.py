"""Prints a comparison as tables: one for each load, then up to which load each policy carries the traffic."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, TextIO

from poise.core.spec import Slo
from poise.report.backlog import GROWTH
from poise.report.figures import Case
from poise.report.seeds import CONFIDENCE
from poise.report.table import show, show_load
from poise.report.wording import MISSING, belief_line, significant, slo_line, write
from poise.scenario.compare.answer import answer
from poise.scenario.compare.collapse import between
from poise.scenario.identity import blind_line
from poise.scenario.write import offered
from poise.workload.oddities import trace_line

if TYPE_CHECKING:
    from poise.scenario.compare.collapse import Collapse
    from poise.scenario.compare.comparison import Comparison


def tables(comparison: Comparison, loads: Sequence[float] | None = None) -> str:
    """The tables of some loads as plain text; None is all of them, with the belief above and the collapse below."""
    out = io.StringIO()
    if loads is None:
        show_all(comparison, out)
    else:
        for load in loads:
            show_one(comparison, load, out)
    return out.getvalue()


def show_all(comparison: Comparison, file: TextIO | None = None, *, title: str = "") -> None:
    """Print the whole comparison."""
    show_loads(comparison, file, title=title)
    show_collapse(comparison, file or sys.stdout)


def show_loads(comparison: Comparison, file: TextIO | None = None, *, title: str = "") -> None:
    """Print the belief, the title, what decides and the table of each load."""
    out, study = file or sys.stdout, comparison.study
    lines = [belief_line(study.setting.belief), title]
    lines += [f"SLO: {slo_line(study.setting.slo)}. {interval_line(comparison)}"]
    lines.append(blind_line(comparison.blind))
    lines += dict.fromkeys(trace_line(comparison.offered[load]) for load in sorted(comparison.offered))
    out.writelines(f"{line}\n" for line in lines if line)
    if partial := partial_line(comparison):
        out.write(f"Interrupted: {partial}.\n")
    if sentence := answer(comparison):
        out.write(f"{sentence}\n")
    out.write("\n")
    for load in study.loads:
        if comparison.policies(load):
            show_one(comparison, load, out)
            out.write("\n")


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


def show_one(comparison: Comparison, load: float, file: TextIO) -> None:
    """Print the table of one load and its verdict."""
    cases = [Case(name, comparison.result(name, load)) for name in comparison.policies(load)]
    show_load(cases, comparison.best(load), title=load_title(comparison, load), file=file)


def load_title(comparison: Comparison, load: float) -> str:
    """A load and its requests in words."""
    (requests, *rest), count = offered(comparison.offered[load]), len(comparison.study.seeds)
    parts = [f"{requests} × {count} seeds" if count > 1 else requests, *rest]
    whole = all(len(comparison.of(name, load)) == count for name in comparison.study.policies)
    return f"Load {significant(load)}{'' if whole else ' (interrupted: partial)'}: {', '.join(parts)}"


def show_collapse(comparison: Comparison, file: TextIO) -> None:
    """Print up to which load each policy carries the traffic; nothing for one load that all carry."""
    found, lines = comparison.collapses, collapse_lines(comparison)
    rows = [
        (
            name,
            significant(each.carried.load) if each.carried else MISSING,
            significant(each.beyond.load) if each.beyond else MISSING,
            between(each.range, 4),
            each.beyond.why if each.beyond else "",
        )
        for name, each in found.items()
    ]
    if rows and lines:
        show("Collapse", ("policy", "carries load", "not", "for sure", "what breaks down"), rows, file)
    file.writelines(f"{line}\n" for line in lines)


def collapse_lines(comparison: Comparison) -> list[str]:
    """Each policy's distance from its collapse, missing results, and the criterion of a carried load.

    None for one load that all carry.
    """
    found, several = comparison.collapses, len(comparison.study.loads) > 1 or comparison.sought
    if not several and all(each.beyond is None for each in found.values()):
        return []
    if not found:
        return ["Nothing can be said of a collapse: there is no SLO, and no run shows whether its queue grows."]
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
