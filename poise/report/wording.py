"""Numbers and settings in words, the same in tables, pages and logs."""

from __future__ import annotations

import math
from typing import Literal

from poise.core.spec import Belief, Slo

Kind = Literal["seconds", "share", "count", "number", "dollars"]
"""How a figure is written: a duration, a percentage, a whole number, a number, an amount of money."""

MISSING = "–"
"""The mark for a missing figure."""

TIMES = ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns"))
"""Units of time by their size in seconds, the largest first."""


def significant(value: float, digits: int = 4) -> str:
    """A number to `digits` significant digits, thousands set apart; an exponent only below a ten-thousandth."""
    if value == 0:
        return "0"
    if abs(value) < 1e-4:
        return f"{value:.{digits}g}"
    places = digits - 1 - math.floor(math.log10(abs(value)))
    text = f"{round(value, places):,.{max(places, 0)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def duration(value: float, digits: int = 4) -> str:
    """Seconds in the unit that reads best, from nanoseconds to seconds."""
    for size, unit in TIMES:
        if abs(value) >= size:
            return f"{significant(value / size, digits)} {unit}"
    return f"{significant(value / 1e-9, digits)} ns" if value else "0 s"


def waiting(seconds: float) -> str:
    """A time to wait in words, as in 40 s, 3 min or 2.5 h."""
    if seconds < 90:
        return f"{max(round(seconds), 1)} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{significant(seconds / 3600, 2)} h"


def write(value: float | None, kind: Kind, digits: int = 4) -> str:
    """A figure as text, to `digits` significant digits; `MISSING` for None. A share of 1 is 100 %."""
    if value is None:
        return MISSING
    if kind == "seconds":
        return duration(value, digits)
    if kind == "share":
        return f"{significant(100 * value, digits)} %"
    if kind == "dollars":
        return f"${significant(value, digits)}"
    return f"{value:,.0f}" if kind == "count" and value == int(value) else significant(value, digits)


def belief_line(belief: Belief) -> str:
    """The control side's belief settings, in one line that says whether they are the default."""
    text = f"reports every {duration(belief.period_s)}" if belief.period_s else "reports just before each decision"
    late = f"{duration(belief.delay_s)} late" if belief.delay_s else "at once"
    flight = "counted" if belief.in_flight else "not counted"
    usual = " (the default)" if belief == Belief() else ""
    shared = f"; {belief.gateways} gateways" if belief.gateways > 1 else ""
    if belief.share_s is not None:
        who = f"{shared} that report to one another" if shared else "; other gateways report to this one"
        shared = f"{who}, {duration(belief.share_s)} late"
    return f"Belief{usual}: {text}, {late}; in-flight dispatches {flight}; prefix index: {belief.prefix}{shared}."


def slo_line(slo: Slo) -> str:
    """The SLO, in one line."""
    parts = (("TTFT", slo.ttft_s), ("TPOT", slo.tpot_s), ("end to end", slo.e2e_s), ("program", slo.program_s))
    limits = [f"{name} ≤ {duration(limit)}" for name, limit in parts if limit is not None]
    return ", ".join(limits) or "none: every finished request meets it"


def counted(count: int, word: str, plural: str = "s") -> str:
    """A number and its word: `1 rank`, `2 ranks`."""
    return f"{count} {word}{plural * (count != 1)}"
