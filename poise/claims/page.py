"""A claim as one self-contained page: what is claimed, its criteria, and its figures drawn."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from poise.claims.claim import Claim, Curve
from poise.claims.picture import lines_of, scales
from poise.claims.record import Record
from poise.claims.show import MET, figures
from poise.report.chart import chart, swatch
from poise.report.frame import document


def page(about: Claim, record: Record) -> str:
    """The page as text."""
    title = f"{about.system}: {record.verdict}"
    body = "".join((_header(title, about, record), _criteria(record), *map(_figure, record.findings.curves)))
    return document(title, body)


def _header(title: str, about: Claim, record: Record) -> str:
    facts = {
        "Paper": f"{about.paper}, {about.year}",
        "Headline": about.headline,
        "Conditions": about.conditions,
        "Here": about.here,
        "Policies": ", ".join((*about.policies, *about.others)),
        "Known by its": about.trust,
        "Measured": f"{record.date}, Poise {record.poise}, engine {record.engine}, code {record.digest}"
        + (" (a quick run)" if record.quick else ""),
    }
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(said)}</dd>" for name, said in facts.items())
    return f"<header><h1>{escape(title)}</h1><dl>{rows}</dl></header>"


def _criteria(record: Record) -> str:
    head = ("criterion", "", "paper", "measured", "why")
    rows = [
        (f"{each.asks}{' (headline)' if each.headline else ''}", MET[each.met], each.paper, each.measured, each.why)
        for each in record.findings.criteria
    ]
    return f"<section><h2>Criteria</h2>{_table(head, rows, text=True)}</section>"


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], *, text: bool = False) -> str:
    style = ' style="white-space:normal;text-align:left"' if text else ""
    heads = "".join(f'<th scope="col"{style}>{escape(each)}</th>' for each in head)
    body = "".join(f"<tr>{''.join(f'<td{style}>{escape(cell)}</td>' for cell in row)}</tr>" for row in rows)
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table></div>'


def _figure(curve: Curve) -> str:
    lines = lines_of(curve)
    legend = "".join(swatch(line.name, line.style) for line in lines)
    x, y = scales(curve)
    drawn = chart(curve.title, lines, x, y, reading=f"{{y}} at {{x}} ({curve.across})", dots=True)
    table = _table(*figures(curve))
    return f'<section><h2>{escape(curve.title)}</h2><div class="legend">{legend}</div>{drawn}{table}</section>'
