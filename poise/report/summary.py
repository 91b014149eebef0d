"""The page sections with figures: the summary, and a fold with all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from poise.report.figures import ATTAINMENT, COMPARED, COST, ENDS, GOODPUT, KEY, SERIES, TPOT, TTFT, Case, Figure
from poise.report.findings import Findings, Judged
from poise.report.pieces import Tile, fold, section, soft, table, tiles, widening
from poise.report.table import away
from poise.report.verdict import Verdict
from poise.report.wording import MISSING, TIMES, Kind, significant, write

FEW = (ATTAINMENT, GOODPUT, TTFT[1], TTFT[4], TPOT[4], COST)
"""The columns that are shown at first; the others are behind a button."""

SHADES = (0.97, 0.85, 0.6)
"""How far below the share that is asked for a cell takes the next darker colour, as parts of that share."""


def summary_section(cases: Sequence[Case], findings: Findings | None) -> str:
    """For a comparison SLO met by policy and load, a table, and a verdict for each load; for a run its figures."""
    if findings is None:
        many = any(case.result.get("interval") for case in cases)
        text = soft("Means over seeds; ± is half of a 95 % t-interval.") if many else ""
        return section("Figures", text, *map(_tiles, cases), anchor="summary")
    return section(
        "Results", _strip(cases, findings), _table(cases, findings),
        fold("Verdict at each load", _verdicts(findings), opened=len(findings.judged) == 1), anchor="summary",
    )  # fmt: skip


def _tiles(case: Case) -> str:
    """The figures of a single run, each with its name."""
    some = [
        Tile(figure.label, figure.text(case.result), figure.margin(case.result), meaning=figure.meaning)
        for figure in _filled([case])
    ]
    return f"<h3>{escape(case.policy)}</h3>{tiles(some)}"


def _filled(cases: Sequence[Case]) -> list[Figure]:
    """The figures that some case has; outcomes other than finished where some request had them."""
    ends = [figure for figure in ENDS[1:] if any(figure.value(case.result) for case in cases)]
    figures = (*COMPARED[:2], *ends, *COMPARED[2:])
    return [figure for figure in figures if any(figure.value(case.result) is not None for case in cases)]


# SLO met by policy and load -----------------------------------------------------------------------------------------


def _strip(cases: Sequence[Case], findings: Findings) -> str:
    """A cell for each policy and load, coloured by how far it is from the share asked for; empty without an SLO."""
    goal, loads = findings.target, sorted({case.load for case in cases if case.load is not None})
    if goal is None or not loads or not any(ATTAINMENT.value(case.result) is not None for case in cases):
        return ""
    by = {(case.policy, case.load): ATTAINMENT.value(case.result) for case in cases}
    rates = {case.load: case.rate for case in cases}
    head = '<th scope="col" class="n">SLO met</th>' + "".join(
        f'<th scope="col">load {significant(load)}<small>{_rate(rates.get(load))}</small></th>' for load in loads
    )
    body = "".join(
        f'<tr><th scope="row" class="n">{escape(name)}</th>'
        f"{''.join(_shaded(by.get((name, load)), goal) for load in loads)}</tr>"
        for name in dict.fromkeys(case.policy for case in cases)
    )
    text = soft(f"✓ at least {write(goal, 'share')} of the requests meet the SLO, ✗ fewer do; the darker, the fewer.")
    return table(head, body, label="SLO met by policy and load", kind="strip") + text


def _rate(rate: float | None) -> str:
    return "" if rate is None else f"{significant(rate, 3)} req/s"


def _shaded(value: float | None, goal: float) -> str:
    if value is None:
        return f"<td>{MISSING}</td>"
    shade = 4 if value >= goal else next((3 - n for n, part in enumerate(SHADES) if value >= part * goal), 0)
    return f'<td class="q{shade}">{_signed(value, goal)}</td>'


def _signed(value: float, goal: float) -> str:
    """A share with the sign of whether it is enough; a value just below the goal is not rounded up to it."""
    return f"{'✓' if value >= goal else '✗'} {write(value, 'share', 4 if value > 0.99 else 3)}"


# The table ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Unit:
    """How a column is written: its name, and by what its values are divided."""

    name: str
    size: float = 1.0


def unit(kind: Kind, values: Sequence[float]) -> Unit:
    """One unit for all values of a column: the one that fits the median of those above 0."""
    if kind == "share":
        return Unit("%", 0.01)
    if kind == "dollars":
        return Unit("$")
    some = sorted(abs(value) for value in values if value)
    if kind != "seconds" or not some:
        return Unit("")
    size, name = next((each for each in TIMES if some[len(some) // 2] >= each[0]), TIMES[-1])
    return Unit(name, size)


@dataclass(frozen=True, slots=True)
class Column:
    """A figure as a column. seen: at first; the others are behind a button.  goal: the least share that is good."""

    figure: Figure
    unit: Unit
    seen: bool
    goal: float | None = None

    @property
    def head(self) -> str:
        """Its cell in the head, with the unit."""
        kind, label, unit = _kind("" if self.seen else "x"), self.figure.label, self.unit.name
        name = f"<small>, {unit}</small>" if unit and unit not in label else ""
        return f'<th scope="col"{kind} title="{escape(self.figure.meaning)}">{escape(label)}{name}</th>'

    def cell(self, case: Case) -> str:
        """The cell of a case: the value, and half of its interval below."""
        value, half = self.figure.value(case.result), self.figure.half_width(case.result)
        if value is None:
            return f"<td{_kind('' if self.seen else 'x')}>{MISSING}</td>"
        good = self.goal is not None and value >= self.goal
        sense, sign = ("", "") if self.goal is None else ("good", "✓ ") if good else ("bad", "✗ ")
        kind = " ".join(filter(None, ("" if self.seen else "x", sense)))
        margin = "" if half is None else f"<small>± {significant(half / self.unit.size, 2)}</small>"
        text = plain(value, self.unit, self.figure.kind)
        return f'<td{_kind(kind)} data-v="{value:.9g}">{sign}{text}{margin}</td>'


def _kind(name: str) -> str:
    return f' class="{name}"' if name else ""


def _table(cases: Sequence[Case], findings: Findings) -> str:
    """A row for each case that can be sorted; the deciding figure comes first, with the difference to the best one."""
    by = findings.judged[0].verdict.by if findings.judged else ATTAINMENT
    some = [figure for figure in _filled(cases) if figure != by]
    few = [figure for figure in some if figure in FEW]
    columns = [
        Column(
            figure, unit(figure.kind, _values(figure, cases)), figure == by or figure in few,
            findings.target if figure == ATTAINMENT else None,
        )
        for figure in (by, *few, *(figure for figure in some if figure not in few))
    ]  # fmt: skip
    several = any(case.load is not None for case in cases)
    heads = ['<th scope="col" class="n">Policy</th>', '<th scope="col">Load</th>' if several else "", columns[0].head]
    heads += ['<th scope="col" title="difference to the best policy at this load">To the best</th>']
    heads += [each.head for each in columns[1:]]
    verdicts = {each.load: each.verdict for each in findings.judged}
    rows = "".join(_row(case, verdicts.get(case.load or 0.0), columns, several) for case in cases)
    found = table("".join(heads), rows, label="Results by policy and load", sorts=True)
    return widening(found, "columns") + soft(findings.intervals)


def _values(figure: Figure, cases: Sequence[Case]) -> list[float]:
    return [value for case in cases if (value := figure.value(case.result)) is not None]


def _row(case: Case, verdict: Verdict | None, columns: Sequence[Column], several: bool) -> str:
    load = f'<td data-v="{case.load or 0:g}">{significant(case.load or 0.0)}</td>' if several else ""
    gap, away_by = MISSING, 0.0
    if verdict is not None:
        gap = away(case.policy, verdict)
        away_by = verdict.differences[case.policy].value or 0.0 if case.policy in verdict.differences else 0.0
    mine = ' class="best"' if verdict is not None and case.policy == verdict.winner else ""
    first, *rest = (each.cell(case) for each in columns)
    return (
        f'<tr{mine}><td class="n">{escape(case.policy)}</td>{load}{first}'
        f'<td data-v="{away_by:.9g}">{escape(gap)}</td>{"".join(rest)}</tr>'
    )


def plain(value: float, unit: Unit, kind: Kind) -> str:
    """A value in the unit of its column; the unit stands in the head."""
    if kind == "count":
        return write(value, kind)
    return significant(value / unit.size, 4 if kind == "share" else 3)


# Words, and all figures ---------------------------------------------------------------------------------------------


def _verdicts(findings: Findings) -> str:
    """One sentence for each load."""
    items = "".join(
        f"<li><b>{escape(each.title)}</b> {escape(str(each.verdict) or _nothing(each))}</li>"
        for each in findings.judged
    )
    return f'<ul class="verdicts">{items}</ul>'


def _nothing(judged: Judged) -> str:
    return f"Nothing to compare: fewer than two policies have a figure for {judged.verdict.by.label}."


def everything_section(cases: Sequence[Case]) -> str:
    """Every figure of every case, one column a case, folded away."""
    head = '<th scope="col" class="n">Figure</th>'
    head += "".join(f'<th scope="col">{escape(case.name)}</th>' for case in cases)
    figures = [*KEY, *(figure for series in SERIES.values() for figure in series)]
    rows = "".join(
        f'<tr><th scope="row" class="n" title="{escape(figure.meaning)}">{escape(figure.label)}</th>'
        f"{''.join(_cell(figure, case) for case in cases)}</tr>"
        for figure in figures
        if any(figure.value(case.result) is not None for case in cases)
    )
    found = table(head, rows, label="Every figure of every run")
    return section("Every figure", fold("Every figure of every run", found), anchor="every-figure")


def _cell(figure: Figure, case: Case) -> str:
    margin = figure.margin(case.result)
    return f"<td>{escape(figure.text(case.result))}{f'<small>{escape(margin)}</small>' if margin else ''}</td>"
