"""A self-contained HTML page about a run or a comparison: it makes no network request and opens from a file.

Drawings are inline SVG and small pictures: the plotly bundle is 4.8 MB, while a whole report here is some hundred kB,
and the page stays readable where scripts are disabled.
"""

from __future__ import annotations

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
from poise.report.lead import lead_section
from poise.report.limits import limits_section
from poise.report.pieces import facts, fold, section, soft
from poise.report.replicas import replicas_section
from poise.report.scaling import scaling_section
from poise.report.slowest import worst_section
from poise.report.summary import everything_section, summary_section
from poise.report.tidy import rows, write_figures
from poise.report.wording import MISSING, belief_line, duration, significant, slo_line

FEW = 6
"""Most notes shown; more are folded away."""


@dataclass(frozen=True, slots=True)
class About:
    """The basis of the figures.

    engine: name and version of the engine model.  cost: provenance of the cost data (`Estimator.describe()`).
    workload: where the load comes from (`Workload.source`).  version: Poise's.
    pools: the name of each replica's pool, where there are several.
    answer: of a single run, the sentence that decides.
    trace: what was found in the trace, in one line; empty for nothing.
    model_error: how far measured figures may be from these, in one line.
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
    model_error: str = ""


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
    requested = [case for case in cases if not case.probe]
    parts = [lead_section(cases, findings, policies, about.answer), summary_section(requested, findings)]
    if findings is not None:
        parts += [sweep_section(cases, findings, policies, legend), limits_section(findings, policies)]
    parts += [
        latency_section(requested, policies, legend),
        blame_section(requested),
        scaling_section(requested),
        replicas_section(requested, policies, about.pools),
        worst_section(requested, about.pools),
        everything_section(requested),
        _notes(requested),
        _provenance(about),
    ]
    partial = _partial(requested, findings)
    head = f'<p class="partial">Interrupted: {escape(partial)}.</p>' if partial else ""
    return document(about.title, "".join(parts), head=head, above=HATCH)


def _partial(cases: Sequence[Case], findings: Findings | None) -> str:
    """The progress of a comparison or a run that was stopped; empty for a whole one."""
    if findings is not None:
        return findings.partial
    return next((str(why) for case in cases if (why := case.result.get("notes", {}).get("interrupted"))), "")


def _flat(tree: Mapping[str, object], above: str = "") -> dict[str, object]:
    """Nested mappings as one, with dotted names."""
    flat: dict[str, object] = {}
    for name, value in tree.items():
        if isinstance(value, Mapping):
            flat |= _flat(value, f"{above}{name}.")
        else:
            flat[f"{above}{name}"] = significant(value, 6) if isinstance(value, float) else value
    return flat


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
    """What the policies could know, the basis of the figures, and their meaning."""
    basis = {
        "Engine model": about.engine,
        "SLO": slo_line(about.slo),
        "Warm-up left out": duration(about.warmup_s),
        "Seed" if len(about.seeds) == 1 else "Seeds": ", ".join(map(str, about.seeds)) or MISSING,
        **({"Trace": about.trace} if about.trace else {}),
        "Poise": about.version or MISSING,
    }
    whole = (("Cost data", _flat(about.cost)), ("Workload", _flat(about.workload)))
    words = (
        "Latencies are of finished requests, percentiles by nearest rank. Rejected and unfinished requests miss their "
        "SLO. Figures per million tokens count input and output of finished requests. Energy is that of the devices: "
        "idle power (20 % of TDP) plus the rest times busy time."
    )
    return section(
        "Belief and provenance", f"<p>{escape(belief_line(about.belief))}</p>",
        f"<p>{escape(about.model_error)}</p>" if about.model_error else "",
        fold("Basis of the figures", facts(basis)),
        *(fold(f"{name} in full", facts(found)) for name, found in whole if found), soft(words), anchor="provenance",
    )  # fmt: skip
