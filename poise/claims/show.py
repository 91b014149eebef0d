"""Claims as tables: all systems, and one of them with its criteria and figures."""

from __future__ import annotations

import math
import sys
from collections import Counter
from collections.abc import Mapping
from textwrap import fill, shorten
from typing import Any, TextIO

from poise.claims.claim import Claim, Criterion, Curve
from poise.claims.find import claim, names
from poise.claims.groups import by_group, group_of
from poise.claims.record import Record, measured
from poise.claims.spark import sparks
from poise.report.intervals import TOO_SHORT
from poise.report.table import show
from poise.report.wording import MISSING, significant, write

MET = {True: "met", False: "not met", None: "cannot be told"}
"""Words for `Criterion.met`."""

WIDEST = 22
"""Characters that a table leaves to the name of a system."""


def systems(only: str | None = None) -> list[dict[str, Any]]:
    """Every system, or the one of this name: what is claimed, what stands for it here, and what was measured."""
    return [_told(name, claim(name), measured(name)) for name in ([only] if only else names())]


def _told(name: str, about: Claim, record: Record | None) -> dict[str, Any]:
    criteria = record.findings.criteria if record else []
    return {
        "name": name,
        "system": about.system,
        "group": group_of(name, about),
        "paper": about.paper,
        "year": about.year,
        "slot": about.slot,
        "policies": list(about.policies),
        "headline": about.headline,
        "conditions": about.conditions,
        "here": about.here or None,
        "trust": about.trust,
        "verdict": standing(about, record),
        "criteria": len(criteria),
        "met": sum(each.met is True for each in criteria),
        "why": about.untestable or None,
        "measured": [each.measured for each in criteria if each.headline],
        "date": record.date if record else None,
        "poise": record.poise if record else None,
        "cpu_s": round(record.cpu_s) if record else None,
    }


def standing(about: Claim, record: Record | None) -> str:
    """The verdict that may be quoted now: of what was measured with this very code."""
    if about.untestable:
        return "not testable"
    if record is None:
        return "not measured"
    return "stale" if record.stale else record.verdict


HEADERS = ("name", "system", "year", "slot", "verdict", "met", "known by")


def rows(told: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Systems as rows of text that fit 100 columns."""
    return [
        (
            each["name"],
            shorten(each["system"], WIDEST, placeholder="…"),
            str(each["year"]),
            each["slot"],
            each["verdict"],
            f"{each['met']} of {each['criteria']}" if each["criteria"] else MISSING,
            each["trust"],
        )
        for each in told
    ]


def show_systems(told: list[dict[str, Any]], file: TextIO | None = None) -> None:
    """Print systems, a table for each group, and how they came out on the whole."""
    out = file or sys.stdout
    for group, some in by_group((each["name"], each["group"]) for each in told).items():
        show(group.capitalize(), HEADERS, rows([each for each in told if each["name"] in some]), out)
    counts = Counter(each["verdict"] for each in told)
    said = ", ".join(f"{count} {verdict}" for verdict, count in counts.most_common())
    out.write(
        f"{len(told)} systems: {said}.\n`poise systems NAME` tells all of one; `poise claim NAME` runs it again.\n"
    )


def show_system(name: str, file: TextIO | None = None) -> None:
    """Print all that is known of one system: its claim, what was measured, with which code, and its curves in small."""
    out, about, record = file or sys.stdout, claim(name), measured(name)
    out.writelines(f"{line}\n" for line in _head(about))
    if record is None:
        out.write(
            _wrapped(f"Verdict: {standing(about, record)}: {about.untestable or f'run `poise claim {name}`'}") + "\n"
        )
        return
    for number, criterion in enumerate(record.findings.criteria, start=1):
        out.write("\n" + "\n".join(_criterion(number, criterion)) + "\n")
    for curve in record.findings.curves:
        out.write(f"\n{curve.title}, by {curve.across}\n")
        out.writelines(f"  {line}\n" for line in sparks(curve))
    stale = "; its code has changed since" if record.stale else ""
    out.write(
        f"\nVerdict: {record.verdict} ({record.date}, Poise {record.poise}, {record.cpu_s:.0f} s of one core{stale}).\n"
    )


def show_claim(about: Claim, record: Record, file: TextIO | None = None) -> None:
    """Print a claim, its criteria one by one and its figures."""
    out = file or sys.stdout
    out.writelines(f"{line}\n" for line in _head(about))
    for number, criterion in enumerate(record.findings.criteria, start=1):
        out.write("\n" + "\n".join(_criterion(number, criterion)) + "\n")
    out.write("\n")
    for curve in record.findings.curves:
        headers, table = figures(curve)
        show(curve.title, headers, table, out)
    quick = " of a quick run, which has a tenth of the requests" if record.quick else ""
    out.write(f"Verdict{quick}: {record.verdict}{_cure(record)} ({record.cpu_s:.0f} s of one core).\n")


def _cure(record: Record) -> str:
    """What to do about a quick run that says nothing, and how long that took before."""
    if record.verdict != TOO_SHORT:
        return ""
    whole = measured(record.name)
    took = "" if whole is None else f", which takes about {max(math.ceil(whole.cpu_s / 60), 1)} min of one core"
    return f"; run without --quick{took}"


def _head(about: Claim) -> list[str]:
    told = {
        f"{about.system} ({about.paper}, {about.year})": about.headline,
        "Conditions": about.conditions,
        "Here": about.here,
        "Stands for it": f"{about.slot} {', '.join(about.policies)}",
        "Known by its": about.trust,
    }
    return [_wrapped(f"{title}: {said}") for title, said in told.items() if said]


def _criterion(number: int, criterion: Criterion) -> list[str]:
    headline = "headline, " if criterion.headline else ""
    parts = [f"{number}. {criterion.asks} [{headline}{MET[criterion.met]}]"]
    parts += [f"   paper: {criterion.paper}", f"   measured: {criterion.measured}"]
    parts += [f"   why: {criterion.why}"] if criterion.why else []
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
    told = []
    for x in places:
        point = at.get(x)
        value = write(point.value, curve.kind, 3) if point else MISSING
        half = "" if point is None or point.half is None else f" ± {write(point.half, curve.kind, 2)}"
        told.append(value + half)
    return told
