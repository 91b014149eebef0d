"""The page sections with figures: the summary, and a fold with all of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

from poise.report.figures import COMPARED, ENDS, KEY, SERIES, Case, Figure
from poise.report.findings import Findings, Judged
from poise.report.pieces import fold, section, table
from poise.report.table import away


def summary_section(cases: Sequence[Case], findings: Findings | None) -> str:
    """For a comparison a table with a verdict for each load; for a run its figures."""
    if findings is None:
        many = any(case.result.get("interval") for case in cases)
        text = '<p class="soft">Means over seeds; ± is half of a 95 % t-interval.</p>' if many else ""
        return section("Summary", text, *map(_tiles, cases), anchor="summary")
    text = f'<p class="soft">{escape(findings.intervals)}</p>'
    return section("Summary", text, _verdicts(findings), _table(cases, findings), anchor="summary")


def _tiles(case: Case) -> str:
    """The figures of a single run, each with its name."""
    tiles = "".join(
        f'<div title="{escape(figure.meaning)}"><dt>{escape(figure.label)}</dt><dd>{_said(figure, case)}</dd></div>'
        for figure in _filled([case])
    )
    return f'<h3>{escape(case.policy)}</h3><dl class="tiles">{tiles}</dl>'


def _filled(cases: Sequence[Case]) -> list[Figure]:
    """The figures that some case has; outcomes other than finished where some request had them."""
    ends = [figure for figure in ENDS[1:] if any(figure.value(case.result) for case in cases)]
    figures = (*COMPARED[:2], *ends, *COMPARED[2:])
    return [figure for figure in figures if any(figure.value(case.result) is not None for case in cases)]


def _said(figure: Figure, case: Case) -> str:
    margin = figure.margin(case.result)
    return f"{escape(figure.text(case.result))}{f'<small>{escape(margin)}</small>' if margin else ''}"


def _cell(figure: Figure, case: Case) -> str:
    return f"<td>{_said(figure, case)}</td>"


def _verdicts(findings: Findings) -> str:
    """One sentence for each load."""
    items = "".join(
        f"<li><b>{escape(each.title)}</b> {escape(str(each.verdict) or _nothing(each))}</li>"
        for each in findings.judged
    )
    return f'<ul class="verdicts">{items}</ul>'


def _nothing(judged: Judged) -> str:
    return f"Nothing to compare: fewer than two policies have a figure for {judged.verdict.by.label}."


def _table(cases: Sequence[Case], findings: Findings) -> str:
    """A body of rows for each load; the deciding figure comes first, with the difference to the best policy."""
    by = findings.judged[0].verdict.by if findings.judged else None
    figures = [figure for figure in _filled(cases) if figure != by]
    lead = '<th scope="col" class="n">Policy</th>'
    if by is not None:
        lead += f'{_head(by)}<th scope="col" title="its difference to the best one">to the best</th>'
    head = lead + "".join(map(_head, figures))
    width = len(figures) + (3 if by is not None else 1)
    return table(head, "".join(_body(cases, each, figures, width) for each in findings.judged))


def _head(figure: Figure) -> str:
    return f'<th scope="col" title="{escape(figure.meaning)}">{escape(figure.label)}</th>'


def _body(cases: Sequence[Case], judged: Judged, figures: Sequence[Figure], width: int) -> str:
    here = [case for case in cases if case.load == judged.load]
    name = here[0].at.capitalize() if here else ""
    title = f'<tr><th scope="rowgroup" class="n" colspan="{width}"><span>{escape(name)}</span></th></tr>'
    return f"<tbody>{title}{''.join(_rows(here, judged, figures))}</tbody>"


def _rows(cases: Sequence[Case], judged: Judged, figures: Sequence[Figure]) -> Iterator[str]:
    verdict = judged.verdict
    for case in cases:
        mine = ' class="best"' if case.policy == verdict.winner else ""
        lead = f'<td class="n">{escape(case.policy)}</td>{_cell(verdict.by, case)}'
        gap = f"<td>{escape(away(case.policy, verdict))}</td>"
        yield f"<tr{mine}>{lead}{gap}{''.join(_cell(figure, case) for figure in figures)}</tr>"


def everything_section(cases: Sequence[Case]) -> str:
    """Every figure of every case, one column a case, folded away."""
    head = '<th class="n"></th>' + "".join(f'<th scope="col">{escape(case.name)}</th>' for case in cases)
    figures = [*KEY, *(figure for series in SERIES.values() for figure in series)]
    rows = "".join(
        f'<tr><th scope="row" class="n" title="{escape(figure.meaning)}">{escape(figure.label)}</th>'
        f"{''.join(_cell(figure, case) for case in cases)}</tr>"
        for figure in figures
        if any(figure.value(case.result) is not None for case in cases)
    )
    return section("Every figure", fold("Every figure of every run", table(head, rows)), anchor="every-figure")
