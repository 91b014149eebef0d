"""A self-contained HTML page about a run or a comparison: it makes no network request and opens from a file.

Drawings are inline SVG and small pictures: the plotly bundle is 4.8 MB, while a whole report here is some hundred kB,
and the page stays readable where scripts are disabled. The script only shows values under the pointer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path

from poise.core.spec import Belief, Slo
from poise.report.bars import blame_section
from poise.report.chart import swatch
from poise.report.drawings import latency_section, sweep_section
from poise.report.figures import Case
from poise.report.files import replacing
from poise.report.findings import Findings
from poise.report.frame import document
from poise.report.heat import HATCH
from poise.report.limits import limits_section
from poise.report.pieces import fold, section
from poise.report.replicas import replicas_section
from poise.report.scaling import scaling_section
from poise.report.slowest import worst_section
from poise.report.summary import everything_section, summary_section
from poise.report.tidy import rows, write_figures
from poise.report.wording import MISSING, belief_line, duration, significant, slo_line

FEW = 6
"""Most notes shown; more are folded away."""

LONG = 60
"""Characters of a fact in the header; the whole is at the foot of the page."""


@dataclass(frozen=True, slots=True)
class About:
    """The basis of the figures.

    engine: name and version of the engine model.  cost: provenance of the cost data (`Estimator.describe()`).
    workload: where the load comes from (`Workload.source`).  version: Poise's.
    pools: the name of each replica's pool, where there are several.  answer: the sentence that decides a single run.
    trace: what was found in the trace, in one line; empty for nothing.
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
    pools: Sequence[str] = ()
    trace: str = ""
    answer: str = ""


def html_report(
    path: str | Path, cases: Sequence[Case], about: About, findings: Findings | None = None, *, data: bool = False
) -> list[Path]:
    """Write the page about `cases` to `path`, whole or not at all; raises `UserError` when it cannot be written.

    data: write its figures and drawings beside it, too (`tidy.write_figures`). Returns the paths.
    """
    text, target = page(cases, about, findings), Path(path)
    with replacing(target) as file:
        file.write(text.encode())
    return [target, *(write_figures(rows(cases), text, target.parent) if data else ())]


def page(cases: Sequence[Case], about: About, findings: Findings | None = None) -> str:
    """The page about `cases` as text; `findings` are those of a comparison."""
    policies = {name: style for style, name in enumerate(dict.fromkeys(case.policy for case in cases))}
    legend = "".join(swatch(name, style) for name, style in policies.items())
    legend = f'<div class="legend">{legend}</div>' if len(policies) > 1 else ""
    asked = [case for case in cases if not case.probe]
    parts = [summary_section(asked, findings)]
    if findings is not None:
        parts += [sweep_section(cases, findings, policies, legend), limits_section(findings, policies)]
    parts += [
        latency_section(asked, policies, legend),
        blame_section(asked),
        scaling_section(asked),
        replicas_section(asked, policies, about.pools),
        worst_section(asked, about.pools),
        everything_section(asked),
        _notes(asked),
        _provenance(about),
    ]
    body = "".join(parts)
    whole = f"{_header(about, _answer(about, findings), _partial(asked, findings))}{_contents(body)}{body}"
    return document(about.title, whole, above=HATCH)


def _answer(about: About, findings: Findings | None) -> str:
    """The sentence that decides, as a paragraph; empty where there is none."""
    text = about.answer if findings is None else findings.answer
    return f'<p class="answer">{escape(text)}</p>' if text else ""


def _header(about: About, answer: str, partial: str) -> str:
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
    if about.trace:
        facts["Trace"] = about.trace
    if about.version:
        facts["Poise"] = about.version
    first = f'<p class="belief">{escape(belief_line(about.belief))}</p>'
    stopped = f'<p class="partial">Interrupted: {escape(partial)}.</p>' if partial else ""
    return f"<header>{first}<h1>{escape(about.title)}</h1>{answer}{stopped}{_facts(facts)}</header>"


def _partial(cases: Sequence[Case], findings: Findings | None) -> str:
    """The progress of a comparison or a run that was stopped; empty for a whole one."""
    if findings is not None:
        return findings.partial
    return next((str(why) for case in cases if (why := case.result.get("notes", {}).get("interrupted"))), "")


def _contents(body: str) -> str:
    """Links to the page's sections."""
    found = re.findall(r'<section id="([^"]*)"[^>]*><h2>(.*?)</h2>', body)
    links = "".join(f'<a href="#{anchor}">{title}</a>' for anchor, title in found)
    return f"<nav>{links}</nav>" if links else ""


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
    parts = [f"{name}: {value}" for name, value in list(flat.items())[:most]]
    line = "; ".join(part if len(part) <= LONG else f"{part[:LONG]}…" for part in parts)
    whole = len(flat) <= most and all(len(part) <= LONG for part in parts)
    return (line if whole else f"{line}; … (in full below)") if flat else "not stated"


def _notes(cases: Sequence[Case]) -> str:
    """Notes of the results on missing or doubtful figures; a note that all cases share is printed once."""
    fields: dict[str, list[str]] = {}
    for case in cases:
        for name, why in case.result.get("notes", {}).items():
            fields.setdefault(f"{name}: {why}", []).append(case.name)
    if not fields:
        return ""
    lines = [text if len(places) == len(cases) else f"{text} ({', '.join(places)})" for text, places in fields.items()]
    items = f"<ul>{''.join(f'<li>{escape(line)}</li>' for line in lines)}</ul>"
    return section("Notes", fold(f"{len(lines)} notes", items) if len(lines) > FEW else items, anchor="notes")


def _provenance(about: About) -> str:
    """The full provenance, and the meaning of the figures."""
    whole = (("Cost data in full", _flat(about.cost)), ("Workload in full", _flat(about.workload)))
    parts = [fold(name, _facts(facts)) for name, facts in whole if facts]
    words = (
        "Latencies are of finished requests, percentiles by nearest rank. Rejected and unfinished requests miss their "
        "SLO. Figures per million tokens count input and output of finished requests. Energy is that of the devices: "
        "idle power (20 % of TDP) plus the rest times busy time."
    )
    return section("Provenance", *parts, f'<p class="soft">{words}</p>', anchor="provenance")
