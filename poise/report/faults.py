"""Faults of the replicas of a run, as lines over time and as marks on the replica maps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape

from poise.core.records.records import Run
from poise.core.units import seconds
from poise.report.axis import Axis
from poise.report.figures import Curve, Curves

FAULTS = "faults"
"""Key of the faults among the timelines of a case."""

MOST = 400
"""Faults that are drawn, the first ones."""

KINDS = {
    "lost": "lost",
    "reclaimed": "reclaimed, with notice",
    "drain": "drains",
    "join": "starts",
    "slow": "slow",
    "device_lost": "device lost",
    "link_slow": "slow link",
    "link_lost": "link lost",
}
"""Kinds in words."""


def fault_curves(run: Run) -> dict[str, dict[str, Curve]]:
    """Each fault from its beginning to its end, in seconds, at the height of its replica; empty without any."""
    fields: dict[str, Curve] = {}
    for number, (at, until, kind, replica) in enumerate(run.faults[:MOST]):
        if at <= run.ended_at:
            span = [seconds(at), seconds(min(until, run.ended_at))]
            fields[f"{kind} {number}"] = span, [float(replica)] * 2
    return {FAULTS: fields} if fields else {}


def marks(timeline: Mapping[str, Curves], across: Axis, replicas: Sequence[int], height: float) -> str:
    """The faults of a run as marks on a map of its replicas, whose rows share `height`."""
    rows = {replica: row for row, replica in enumerate(replicas)}
    tall = height / max(len(rows), 1)
    parts = []
    for name, ((since, until), (replica, _)) in timeline.get(FAULTS, {}).items():
        row = rows.get(round(replica))
        if row is None:
            continue
        left, right = across.place(since), across.place(until)
        kind = KINDS[name.rpartition(" ")[0]]
        text = f"replica {round(replica)} {kind} at {since:.4g} s" + (f" until {until:.4g} s" if until > since else "")
        parts.append(
            f'<g><title>{escape(text)}</title><rect class="fault" x="{left - 1:.1f}" y="{4 + row * tall:.1f}" '
            f'width="{max(right - left, 2):.1f}" height="{tall:.1f}"/></g>'
        )
    return "".join(parts)
