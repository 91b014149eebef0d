"""A claim as one self-contained page: what is claimed, its criteria, and its figures drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from poise.claims.claim import Claim, Curve, Outcome
from poise.claims.picture import lines_of, scales
from poise.claims.record import Record
from poise.claims.show import MET, figures, since
from poise.report.chart import chart, swatch
from poise.report.frame import document
from poise.report.pieces import facts, section


def page(about: Claim, record: Record) -> str:
    """The page as text."""
    title = f"{about.system}: {record.verdict}"
    body = "".join((_criteria(about, record), *(_figure(n, curve) for n, curve in enumerate(record.findings.curves))))
    return document(title, body, head=_facts(about, record))


def _facts(about: Claim, record: Record) -> str:
    found = {
        "Paper": str(about.paper),
        "Headline": about.published,
        "Conditions": about.conditions,
        "Here": about.here,
        "Lacking": about.lacking,
        "Policies": ", ".join((*about.policies, *about.others)),
        "Known by its": about.paper.trust,
        "Measured": f"{record.date}, Poise {record.poise}, engine {record.engine}, code {record.digest}"
        + (" (a quick run)" if record.quick else ""),
    }
    return facts({name: text for name, text in found.items() if text})


def _criteria(about: Claim, record: Record) -> str:
    head = ("criterion", "", "paper", "measured", "why")
    rows = [_row(about, each) for each in record.outcomes]
    rows += [(note, "a note", "", came, "") for note, came in record.notes.items()]
    return section("Criteria", _table(head, rows, text=True), anchor="criteria")


def _row(about: Claim, each: Outcome) -> tuple[str, ...]:
    criterion = each.criterion
    name = f"{criterion.asks}{' (headline)' if each.headline else ''}"
    why = "; ".join(filter(None, (each.why, since(each, about))))
    return name, MET[each.met], criterion.paper, each.measured, why


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, text: bool = False) -> str:
    style = ' style="white-space:normal;text-align:left"' if text else ""
    heads = "".join(f'<th scope="col"{style}>{escape(each)}</th>' for each in head)
    body = "".join(f"<tr>{''.join(f'<td{style}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(number: int, curve: Curve) -> str:
    lines = lines_of(curve)
    legend = "".join(swatch(line.name, line.style) for line in lines)
    x, y = scales(curve)
    drawn = chart(curve.title, lines, x, y, reading=f"{{y}} at {{x}} ({curve.across})", dots=True)
    table = _table(*figures(curve))
    return section(curve.title, f'<div class="legend">{legend}</div>', drawn, table, anchor=f"curve-{number}")
