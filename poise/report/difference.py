"""Prints the result of `diff` in words and as tables."""

from __future__ import annotations

import sys
from typing import TextIO

from poise.core.units import seconds as seconds_of
from poise.report.blame import STRETCHES, TAIL
from poise.report.cause import CROWDING
from poise.report.diff import LATENCIES, Change, Diff
from poise.report.split import Split
from poise.report.table import show
from poise.report.wording import MISSING, duration

TELLING = 0.1
"""The least share of the differences that a way of grouping must explain to be named."""

SHOWN = 5
"""Most groups that are printed."""


def sentence(diff: Diff) -> str:
    """One sentence: what changed, the first cause, and which requests are affected."""
    e2e = diff.figures["e2e_s.mean"]
    if diff.cause is None:
        return _no_difference(diff)
    much = f"{duration(abs(e2e.by), 3)} ({percent(abs(e2e.by) / e2e.before)})"
    text = f"In B requests take {much} {'longer' if e2e.by > 0 else 'less'} end to end in the mean."
    text += f" First cause: {diff.cause.text} ({signed(diff.cause.change)} a request"
    if diff.cause.name in CROWDING:
        text += "; only crowding changed noticeably)"
    else:
        text += f"; with it, crowding {signed(diff.cause.crowding)})"
    return f"{text}.{_whose(diff)}"


def _no_difference(diff: Diff) -> str:
    by = diff.figures["e2e_s.mean"].by
    if not by:
        return "No significant difference: the mean end-to-end time is the same in A and B."
    luck = f"and ±{duration(diff.margin, 3)} may be chance (95 %)"
    return f"No significant difference: the mean end-to-end time changes by {signed(by)}, {luck}."


def _whose(diff: Diff) -> str:
    if not diff.splits or diff.splits[0].explains < TELLING:
        return ""
    split, group = diff.splits[0], diff.splits[0].groups[0]
    of = f"{percent(group.requests / diff.requests)} of the requests, {percent(group.share)} of the change"
    return f" It depends most on {split.by}: foremost {group.name} ({of})."


def signed(seconds: float) -> str:
    """A change in seconds, with its sign; less than a picosecond is rounding."""
    if abs(seconds) < seconds_of(1):
        return "±0 s"
    return f"{'+' if seconds > 0 else '−'}{duration(abs(seconds), 3)}"


def percent(share: float) -> str:
    """A share in percent, to a tenth."""
    return f"{100 * share:.1f} %".replace("-", "−")


def show_diff(diff: Diff, names: tuple[str, str], file: TextIO | None = None) -> None:
    """Print the sentence, the latencies, the parts and the split that explains most."""
    out = file or sys.stdout
    out.write(f"A: {names[0]}\nB: {names[1]}\n{sentence(diff)}\n\n")
    text = f"{diff.requests:,} requests finished in both ({diff.only[0]:,} only in A, {diff.only[1]:,} only in B)"
    rows = [
        (f"{label} {figure}", *_row(diff.figures[f"{name}.{figure}"]))
        for name, label in LATENCIES.items()
        for figure in ("mean", "p99")
    ]
    show(text, ("", "A", "B", "change"), rows, out)
    _show_parts(diff, out)
    for split in diff.splits[:1]:
        _show_split(diff, split, out)


def _row(change: Change) -> tuple[str, str, str]:
    return duration(change.before), duration(change.after), signed(change.by)


def _show_parts(diff: Diff, out: TextIO) -> None:
    whole = diff.figures["e2e_s.mean"].by
    rows: list[tuple[str, ...]] = []
    for stretch, title in STRETCHES.items():
        parts = [part for part in diff.parts if part.stretch == stretch]
        rows.append((title, *[""] * 5)) if parts else None
        for part in parts:
            share = percent(part.mean.by / whole) if whole else MISSING
            rows.append((f"  {part.name}", *_row(part.mean), share, signed(part.tail.by)))
    heads = ("", "A", "B", "change", "of all change", f"change in the slowest {TAIL:.0%}")
    show("Where the time went, in the mean", heads, rows, out)


def _show_split(diff: Diff, split: Split, out: TextIO) -> None:
    rows = [
        (group.name, f"{group.requests:,}", signed(group.change), percent(group.share))
        for group in split.groups[:SHOWN]
    ]
    title = f"By {split.by}, which explains {percent(max(split.explains, 0.0))} of the differences between requests"
    show(title, ("", "requests", "E2E", "of all change"), rows, out)
