"""The page section on the load at which each policy collapses."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from poise.report.axis import Axis
from poise.report.chart import WIDTH, Mark, colour, span
from poise.report.drawings import Styles, load_axis
from poise.report.findings import Findings, Limit
from poise.report.pieces import section, split, table
from poise.report.wording import MISSING, significant

_ROW, _LEFT, _TOP, _BOTTOM = 36, 16, 8, 44


def limits_section(findings: Findings, styles: Styles) -> str:
    """A row of tried loads for each policy, the same as a table, and its explanation; empty where there is none."""
    text = "".join(f"<p>{escape(each)}</p>" for each in findings.about_limits)
    limits = [each for each in findings.limits if each.tried]
    if not limits:
        return section("Collapse", text, anchor="collapse") if text else ""
    words = (
        f"Load 1, the dotted line, is {findings.one}. Dots are the loads that were tried: full where the load was "
        "carried, hollow where it was not, pale where the result may be chance. The bar is the range that contains the "
        "collapse (to the edge where it has no end), and the vertical stroke is its load."
    )
    drawn = f"<figure><figcaption>Loads carried</figcaption>{_drawing(limits, styles)}</figure>"
    return section(
        "Collapse", split(drawn + f'<p class="soft">{escape(words)}</p>', _table(limits) + text), anchor="collapse"
    )


def _drawing(limits: Sequence[Limit], styles: Styles) -> str:
    loads = [each.load for limit in limits for each in limit.tried]
    scale = load_axis(loads)
    across = scale.fit(loads, _LEFT, WIDTH - _LEFT)
    floor = _TOP + _ROW * len(limits)
    rows = "".join(
        _row(limit, colour(styles.get(limit.policy, 0)), across, _TOP + _ROW * at) for at, limit in enumerate(limits)
    )
    return (
        f'<svg class="chart limits" viewBox="0 0 {WIDTH} {floor + _BOTTOM}" role="img" aria-label="Loads carried">'
        f"{_ground(across, floor)}{rows}</svg>"
    )


def _ground(across: Axis, floor: int) -> str:
    parts = []
    for value, text in across.ticks():
        at = across.place(value)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP}" y2="{floor}"/>')
        parts.append(f'<text x="{at:.1f}" y="{floor + 17}" text-anchor="middle">{text}</text>')
    own = across.place(1.0)
    parts.append(f'<line class="m own" x1="{own:.1f}" x2="{own:.1f}" y1="{_TOP}" y2="{floor}"/>')
    parts.append(f'<text class="a" x="{WIDTH // 2}" y="{floor + _BOTTOM - 6}" text-anchor="middle">load</text>')
    return "".join(parts)


def _row(limit: Limit, tint: str, across: Axis, top: float) -> str:
    """A policy's name, and below it the range, the loads that were tried and the load of the collapse."""
    at = top + 26
    parts = [f'<text class="a" x="{_LEFT}" y="{top + 13}">{escape(limit.policy)}</text>']
    if limit.low is not None or limit.high is not None:
        low, high = span(Mark(limit.policy, limit.load, 0, limit.low, limit.high), across)
        parts.append(f'<line class="s {tint}" x1="{low:.1f}" x2="{high:.1f}" y1="{at}" y2="{at}"/>')
    for each in limit.tried:
        kind = f"{'' if each.why else 'd '}{'' if each.sure else 'u '}h {tint}"
        luck = "" if each.sure else ", perhaps by chance"
        text = f"{limit.policy}\nload {significant(each.load)}: {each.why or 'carried'}{luck}"
        parts.append(
            f'<circle class="{kind}" cx="{across.place(each.load):.1f}" cy="{at}" r="4" data-text="{escape(text)}"/>'
        )
    if limit.load is not None:
        x = across.place(limit.load)
        text = f"{limit.policy}\ncollapses at load {significant(limit.load)}"
        parts.append(f'<line class="k {tint}" x1="{x:.1f}" x2="{x:.1f}" y1="{at - 8}" y2="{at + 8}"/>')
        parts.append(f'<circle class="z" cx="{x:.1f}" cy="{at}" r="1" data-text="{escape(text)}"/>')
    return "".join(parts)


def _table(limits: Sequence[Limit]) -> str:
    names = ("Policy", "Collapses at load", "Carries", "Not", "Surely above", "Surely below", "What breaks down")
    sides = ("n", *[""] * (len(names) - 2), "w")
    head = "".join(f'<th scope="col" class="{side}">{name}</th>' for name, side in zip(names, sides, strict=True))
    rows = "".join(
        f'<tr><td class="n">{escape(each.policy)}</td>'
        + "".join(f"<td>{_text(load)}</td>" for load in (each.load, each.carried, each.beyond, each.low, each.high))
        + f'<td class="w">{escape(each.why) or MISSING}</td></tr>'
        for each in limits
    )
    return table(head, rows, label="Where each policy collapses", sorts=True)


def _text(load: float | None) -> str:
    return MISSING if load is None else significant(load)
