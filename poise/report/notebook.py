"""A comparison as a notebook shows it: the sentence that decides, a table, and the curves over load."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.card import card, paragraph, table
from poise.report.chart import swatch
from poise.report.drawings import sweep
from poise.report.figures import COST, GOODPUT, TPOT, TTFT, Case
from poise.report.findings import Findings
from poise.report.svg import rules
from poise.report.table import away
from poise.report.wording import significant

COLOURS = {
    "ink": "currentColor", "soft": "currentColor", "rule": "rgba(128,128,128,.35)", "panel": "transparent",
    "ground": "transparent", "warn": "#b87400", "c0": "#1c84cc", "c1": "#d9640f", "c2": "#0d9a70", "c3": "#c263a0",
    "c4": "#b07c00", "c5": "#4595c9", "c6": "#8a8a8a", "c7": "#8474d0",
}  # fmt: skip
"""Colours that stand out from white and from black alike: a notebook does not say which of them is behind."""

_OWN = (
    ".poise .grid{display:grid;grid-template-columns:repeat(auto-fit,minmax(260px,1fr));gap:8px;margin:6px 0}"
    ".poise figure{margin:0}.poise figcaption{font-weight:600}.poise .chart{width:100%;height:auto;display:block}"
    ".poise .key{margin-right:14px}.poise .key svg{width:28px;height:12px;margin-right:4px}"
)


def comparison_card(cases: Sequence[Case], findings: Findings) -> str:
    """The whole card; cases that were simulated only to search for a collapse are in the curves alone."""
    styles = {name: style for style, name in enumerate(dict.fromkeys(case.policy for case in cases))}
    heads, rows, strong = _rows([case for case in cases if not case.probe], findings)
    charts = "".join(sweep(cases, findings, styles))
    legend = "".join(swatch(name, style) for name, style in styles.items())
    drawn = f"<div>{legend}</div><div class='grid'>{charts}</div>" if charts else ""
    style = f"<style>{_OWN}{rules(drawn, COLOURS, '.poise')}</style>" if charts else ""
    parts = [paragraph(findings.answer, strong=True), table(heads, rows, strong=strong), drawn]
    return style + card("", *parts, paragraph(findings.intervals))


def _rows(cases: Sequence[Case], findings: Findings) -> tuple[list[str], list[list[str]], list[int]]:
    """Heads, a row for each policy at each load, and the rows of the best."""
    by = findings.judged[0].verdict.by if findings.judged else TTFT[4]
    figures = [each for each in (TTFT[4], TPOT[4], GOODPUT, COST) if each != by]
    heads = ["policy", "load", by.label, "to the best", *(each.label for each in figures)]
    verdicts = {each.load: each.verdict for each in findings.judged}
    rows: list[list[str]] = []
    strong: list[int] = []
    for case in cases:
        verdict = verdicts.get(case.load or 1.0)
        strong += [len(rows)] if verdict is not None and verdict.winner == case.policy else []
        figured = [f"{each.text(case.result)} {each.margin(case.result)}".strip() for each in (by, *figures)]
        gap = "" if verdict is None else away(case.policy, verdict)
        rows.append([case.policy, significant(case.load or 1.0), figured[0], gap, *figured[1:]])
    return heads, rows, strong
