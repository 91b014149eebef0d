"""One self-contained page about a run or a sweep: no request leaves it, and it opens from a file.

Charts are inline SVG: the one bundle that plotly ships is 4.8 MB, a whole report here is some hundred kB, and the page
stays readable where scripts are off. The script only shows values under the pointer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from poise.core.spec import Belief, Slo
from poise.report.chart import swatch
from poise.report.drawings import latency_section, sweep_section, timeline_section
from poise.report.figures import COMPARED, ENDS, KEY, SERIES, Case, Figure
from poise.report.files import replacing
from poise.report.page import SCRIPT, STYLE
from poise.report.wording import MISSING, belief_line, duration, significant, slo_line


@dataclass(frozen=True, slots=True)
class About:
    """What a reader must know to judge the figures.

    engine: name and version of the engine model.  cost: provenance of the cost data (`Estimator.describe()`).
    workload: where the load comes from (`Workload.source`).  version: Poise's.  load_unit: the unit of `Case.load`.
    """

    title: str
    belief: Belief
    engine: str
    cost: Mapping[str, object]
    seeds: Sequence[int]
    slo: Slo = field(default_factory=Slo)
    warmup_s: float = 0.0
    workload: Mapping[str, object] = field(default_factory=dict)
    version: str = ""
    load_unit: str = "req/s"


def html_report(path: str | Path, cases: Sequence[Case], about: About) -> None:
    """Write the page about `cases` to `path`, whole or not at all; raises `UserError` when it cannot be written."""
    with replacing(path) as file:
        file.write(page(cases, about).encode())


def page(cases: Sequence[Case], about: About) -> str:
    """The page about `cases` as text."""
    routers = {name: style for style, name in enumerate(dict.fromkeys(case.router for case in cases))}
    legend = "".join(swatch(name, style) for name, style in routers.items())
    legend = f'<div class="legend">{legend}</div>' if len(routers) > 1 else ""
    sections = (
        _header(about),
        _comparison(cases, about),
        sweep_section(cases, routers, legend, about.load_unit),
        latency_section(cases, routers, legend, about.load_unit),
        timeline_section(cases, about.load_unit),
        _everything(cases, about),
        _notes(cases),
        _provenance(about),
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(about.title)}</title><style>{STYLE}</style></head>\n<body><main>"
        f"{''.join(sections)}</main>"
        f'<div id="tip" role="status" hidden></div><script>{SCRIPT}</script></body></html>\n'
    )


def _header(about: About) -> str:
    seeds = ", ".join(map(str, about.seeds)) or MISSING
    facts = {
        "Engine model": about.engine,
        "Cost data": _in_short(about.cost),
        "SLO": slo_line(about.slo),
        "Warm-up left out": duration(about.warmup_s),
        "Seed" if len(about.seeds) == 1 else "Seeds": seeds,
    }
    if about.workload:
        facts["Workload"] = _in_short(about.workload)
    if about.version:
        facts["Poise"] = about.version
    first = f'<p class="belief">{escape(belief_line(about.belief))}</p>'
    return f"<header>{first}<h1>{escape(about.title)}</h1>{_facts(facts)}</header>"


def _facts(facts: Mapping[str, object]) -> str:
    rows = "".join(f"<dt>{escape(name)}</dt><dd>{escape(str(value))}</dd>" for name, value in facts.items())
    return f"<dl>{rows}</dl>"


def _flat(tree: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Nested mappings as one, with dotted names."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = significant(value, 6) if isinstance(value, float) else value
    return flat


def _in_short(tree: Mapping[str, object], most: int = 4) -> str:
    """The first few entries of a mapping in one line; the whole is at the foot of the page."""
    flat = _flat(tree)
    line = "; ".join(f"{name}: {value}" for name, value in list(flat.items())[:most])
    return line + ("; … (in full below)" if len(flat) > most else "") if flat else "not stated"


def _cell(figure: Figure, case: Case) -> str:
    margin = figure.margin(case.result)
    return f"<td>{escape(figure.text(case.result))}{f'<small>{escape(margin)}</small>' if margin else ''}</td>"


def _head(figure: Figure) -> str:
    return f'<th scope="col" title="{escape(figure.meaning)}">{escape(figure.label)}</th>'


def _comparison(cases: Sequence[Case], about: About) -> str:
    """One row for each case; columns that no case fills are left out."""
    ends = [figure for figure in ENDS[1:] if any(figure.value(case.result) for case in cases)]
    figures = [*COMPARED[:2], *ends, *COMPARED[2:]]
    figures = [figure for figure in figures if any(figure.value(case.result) is not None for case in cases)]
    head = '<th scope="col" class="n">Router</th>' + f'<th scope="col">Load {escape(about.load_unit)}</th>'
    head += "".join(_head(figure) for figure in figures)
    rows = "".join(
        f'<tr><td class="n">{escape(case.router)}</td><td>{load_text(case)}</td>'
        f"{''.join(_cell(figure, case) for figure in figures)}</tr>"
        for case in cases
    )
    many = any(case.result.get("interval") for case in cases)
    said = '<p class="soft">Means over seeds; ± is half of a 95 % t-interval.</p>' if many else ""
    return f"<section><h2>Summary</h2>{said}{_table(head, rows)}</section>"


def load_text(case: Case) -> str:
    """The load of a case, or a dash."""
    return MISSING if case.load is None else significant(case.load)


def _table(head: str, rows: str) -> str:
    """A table that scrolls within its own frame, so that the page never gets wider than the screen."""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    return f'<div class="scroll" tabindex="0">{table}</div>'


def _everything(cases: Sequence[Case], about: About) -> str:
    """Every figure of every case, one column a case, folded away."""
    names = [f"{case.router} · {load_text(case)}" if case.load is not None else case.router for case in cases]
    head = '<th class="n"></th>' + "".join(f'<th scope="col">{escape(name)}</th>' for name in names)
    figures = [*KEY, *(figure for series in SERIES.values() for figure in series)]
    rows = "".join(
        f'<tr><th scope="row" class="n" title="{escape(figure.meaning)}">{escape(figure.label)}</th>'
        f"{''.join(_cell(figure, case) for case in cases)}</tr>"
        for figure in figures
        if any(figure.value(case.result) is not None for case in cases)
    )
    return f"<section><details><summary>Every figure</summary>{_table(head, rows)}</details></section>"


def _notes(cases: Sequence[Case]) -> str:
    """What the results themselves say about missing or doubtful figures; a note that all cases share stands once."""
    said: dict[str, list[str]] = {}
    for case in cases:
        for name, why in case.result.get("notes", {}).items():
            where = case.router if case.load is None else f"{case.router} at {load_text(case)}"
            said.setdefault(f"{name}: {why}", []).append(where)
    if not said:
        return ""
    lines = [text if len(places) == len(cases) else f"{text} ({', '.join(places)})" for text, places in said.items()]
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<section><h2>Notes</h2><ul>{items}</ul></section>"


def _provenance(about: About) -> str:
    cost, workload = _flat(about.cost), _flat(about.workload)
    parts = [
        f"<details><summary>{name}</summary>{_facts(facts)}</details>"
        for name, facts in (("Cost data in full", cost), ("Workload in full", workload))
        if facts
    ]
    words = (
        "Latencies are of finished requests, percentiles by nearest rank. Rejected and unfinished requests miss their "
        "SLO. Figures per million tokens count input and output of finished requests. Energy is that of the devices: "
        "idle power (20 % of TDP) plus the rest times utilisation."
    )
    return f"<footer>{''.join(parts)}<p>{words}</p></footer>"
