"""Systems as tables, and one of them with its claims, their criteria and figures."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from textwrap import fill, shorten
from typing import Any, TextIO

from poise.claims.claim import Claim, Curve, Outcome
from poise.claims.find import claim
from poise.claims.listed import TIERS, Listed, by_group, how
from poise.claims.record import Record, measured
from poise.claims.spark import sparks
from poise.report.intervals import TOO_SHORT
from poise.report.table import show
from poise.report.wording import MISSING, significant, write

MET = {True: "met", False: "not met", None: "cannot be told"}
"""Words for `Outcome.met`."""

NOT_BUILT, NO_CLAIM = "not built", "claim not made yet"

WIDEST = 30
"""Characters that a table leaves to what stands for a system."""


def described(entry: Listed) -> dict[str, Any]:
    """A system as plain data: what it is, what stands for it here, and what became of its claims."""
    return {
        "name": entry.name,
        "system": entry.system,
        "title": entry.title,
        "arxiv": entry.arxiv or None,
        "id": entry.id or None,
        "group": entry.group,
        "tier": entry.tier or None,
        "slot": entry.slot or None,
        "stands": list(entry.stands),
        "standing": standing(entry),
        "claims": [claimed(name) for name in entry.claims],
    }


def claimed(name: str) -> dict[str, Any]:
    """A claim as plain data, with what was measured."""
    about, record = claim(name), measured(name)
    outcomes = record.outcomes if record else []
    return {
        "name": name,
        "system": about.system,
        "paper": str(about.paper),
        "trust": about.paper.trust,
        "slot": about.slot,
        "policies": about.policies,
        "published": about.published,
        "conditions": about.conditions,
        "here": about.here or None,
        "lacking": about.lacking or None,
        "verdict": verdict_of(name),
        "criteria": len(outcomes),
        "met": sum(each.met is True for each in outcomes),
        "date": record.date if record else None,
        "cpu_s": round(record.cpu_s) if record else None,
    }


def verdict_of(name: str) -> str:
    """The verdict that may be quoted now: of what was measured with this very code."""
    record = measured(name)
    if not claim(name).criteria:
        return "not tested here"
    if record is None:
        return "not measured"
    return "stale" if record.stale else record.verdict


def standing(entry: Listed) -> str:
    """What became of a system: its verdicts, or that it is not built or has no claim."""
    if entry.claims:
        return "; ".join(dict.fromkeys(map(verdict_of, entry.claims)))
    return NO_CLAIM if entry.built else NOT_BUILT


HEADERS = ("name", "arXiv", "tier", "stands for it", "standing")


def rows(some: Sequence[Listed]) -> list[tuple[str, ...]]:
    """Systems as rows of text that fit 120 columns."""
    return [
        (
            each.name,
            each.arxiv or MISSING,
            str(each.tier or MISSING),
            shorten(" ".join((each.slot, *each.stands)), WIDEST, placeholder="…") or MISSING,
            standing(each),
        )
        for each in some
    ]


def show_systems(some: Sequence[Listed], file: TextIO | None = None) -> None:
    """Print systems, a table for each group, and how they came out on the whole."""
    out = file or sys.stdout
    for group, each in by_group(some).items():
        show(group.capitalize(), HEADERS, rows(each), out)
    counts = Counter(verdict for each in some for verdict in standing(each).split("; "))
    counted = ", ".join(f"{count} {standing}" for standing, count in counts.most_common())
    out.write(
        f"{len(some)} systems: {counted}.\n`poise systems NAME` tells all of one; `poise claim NAME` runs it again.\n"
    )


def show_system(entry: Listed, file: TextIO | None = None) -> None:
    """Print all that is known of one system."""
    out = file or sys.stdout
    where = ", ".join(filter(None, (f"arXiv {entry.arxiv}" if entry.arxiv else "", entry.group)))
    out.write(_wrapped(f"{entry.system}: {entry.title} ({where})") + "\n")
    if entry.tier:
        out.write(f"Tier {entry.tier}: {TIERS[entry.tier]}\n")
    if not entry.built:
        out.write(_wrapped(f"Not built{f': {entry.why}' if entry.why else ''}.") + "\n")
    elif not entry.claims:
        out.write(f"Stands for it: {entry.slot} {', '.join(entry.stands)}: {how(entry)}\nClaim not made yet.\n")
    for name in entry.claims:
        out.write("\n")
        _show_claimed(name, out)


def _show_claimed(name: str, out: TextIO) -> None:
    """A claim: what was measured, with which code, and its curves in small."""
    about, record = claim(name), measured(name)
    out.writelines(f"{line}\n" for line in _head(name, about))
    if record is None:
        out.write(_wrapped(f"Verdict: {verdict_of(name)}: {about.lacking or f'run `poise claim {name}`'}") + "\n")
        return
    _show_outcomes(about, record, out)
    for curve in record.findings.curves:
        out.write(f"\n{curve.title}, by {curve.across}\n")
        out.writelines(f"  {line}\n" for line in sparks(curve))
    stale = "; its code has changed since" if record.stale else ""
    out.write("\n" + _wrapped(f"Verdict: {record.verdict}{lacks(about, record)}") + "\n")
    out.write(f"Measured {record.date} with Poise {record.poise} in {record.cpu_s:.0f} s of one core{stale}.\n")


def lacks(about: Claim, record: Record) -> str:
    """What is lacking, where that is why nothing can be said."""
    if record.verdict != "not tested here":
        return ""
    if about.lacking:
        return f": lacking is {about.lacking}"
    return ": chance decides its headline"


def _show_outcomes(about: Claim, record: Record, out: TextIO) -> None:
    for number, outcome in enumerate(record.outcomes, start=1):
        out.write("\n" + "\n".join(_outcome(number, outcome, about)) + "\n")
    for note, came in record.notes.items():
        out.write("\n" + _wrapped(f"Note: {note}. Here: {came}") + "\n")


def show_claim(name: str, record: Record, file: TextIO | None = None) -> None:
    """Print a claim, its criteria one by one and its figures."""
    out, about = file or sys.stdout, claim(name)
    out.writelines(f"{line}\n" for line in _head(name, about))
    _show_outcomes(about, record, out)
    out.write("\n")
    for curve in record.findings.curves:
        headers, table = figures(curve)
        show(curve.title, headers, table, out)
    quick = " of a quick run, which has a tenth of the requests" if record.quick else ""
    verdict = (
        f"Verdict{quick}: {record.verdict}{lacks(about, record)}{_cure(record)} ({record.cpu_s:.0f} s of one core)."
    )
    out.write(_wrapped(verdict) + "\n")


def _cure(record: Record) -> str:
    """What to do about a quick run that says nothing, and how long that took before."""
    if record.verdict != TOO_SHORT:
        return ""
    whole = measured(record.name)
    took = "" if whole is None else f", which takes about {max(math.ceil(whole.cpu_s / 60), 1)} min of one core"
    return f"; run without --quick{took}"


def _head(name: str, about: Claim) -> list[str]:
    facts = {
        f"{about.system} (`{name}`; {about.paper})": about.published,
        "What it does": about.does,
        "Use": "; ".join(about.use),
        "Conditions": about.conditions,
        "Here": about.here,
        "Stands for it": f"{about.slot} {', '.join(about.policies)}",
        "Known by its": about.paper.trust,
    }
    return [_wrapped(f"{title}: {each}") for title, each in facts.items() if each]


def since(outcome: Outcome, about: Claim) -> str:
    """That a criterion is younger than the first run, with both dates."""
    since_when = outcome.criterion.since
    return f"asked since {since_when}, the first run was on {about.first}" if since_when else ""


def _outcome(number: int, outcome: Outcome, about: Claim) -> list[str]:
    headline = "headline, " if outcome.headline else ""
    parts = [f"{number}. {outcome.criterion.asks} [{headline}{MET[outcome.met]}]"]
    parts += [f"   paper: {outcome.criterion.paper}", f"   measured: {outcome.measured}"]
    parts += [f"   why: {outcome.why}"] if outcome.why else []
    parts += [f"   {since(outcome, about)}"] if outcome.criterion.since else []
    return [_wrapped(part) for part in parts]


def _wrapped(line: str) -> str:
    return fill(line, 120, subsequent_indent="      ", break_long_words=False, break_on_hyphens=False)


def figures(curve: Curve) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """A curve as a table: heads and rows of text."""
    places = sorted({point.x for points in curve.lines.values() for point in points})
    table = [(name, *_cells(curve, name, places)) for name in curve.lines]
    return (curve.across, *map(significant, places)), table


def _cells(curve: Curve, name: str, places: list[float]) -> list[str]:
    at: Mapping[float, Any] = {point.x: point for point in curve.lines[name]}
    cells = []
    for x in places:
        point = at.get(x)
        value = write(point.value, curve.kind, 3) if point else MISSING
        half = "" if point is None or point.half is None else f" ± {write(point.half, curve.kind, 2)}"
        cells.append(value + half)
    return cells
