"""Runs side by side: the figures that their results have, and how each differs from the first run's."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.report.figures import COMPARED, Figure
from poise.report.wording import MISSING, significant, write

PLAN = (
    Figure("SLO met", ("attainment",), "share", "share of all arrivals that met every part of the SLO", "more"),
    Figure("Price per hour", ("price_per_hour",), "dollars", "of all devices", "less"),
    Figure("Devices", ("device_count",), "count", "in all", "less"),
    Figure("TTFT", ("ttft_s",), "seconds", "what the goal's share of the requests stayed within", "less"),
    Figure("TPOT", ("tpot_s",), "seconds", "what the goal's share of the requests stayed within", "less"),
    Figure("$ / Mtok", ("usd_per_mtok",), "dollars", "dollars per million input and output tokens", "less"),
    Figure("J / Mtok", ("j_per_mtok",), "number", "joules per million input and output tokens", "less"),
)
"""The figures of a plan."""

EXACT = ("price_per_hour", "device_count")
"""Figures that have no chance in them."""

Results = dict[str, Mapping[str, Any]]
"""Results of one run by what they are of, as in `prefix_cache, load 1`."""


def beside(runs: Mapping[str, Path]) -> dict[str, Any]:
    """The table of the runs in these folders: for each thing that one of them has figures of, a group of rows.

    UserError where a run has no result yet.
    """
    found = [results(name, folder) for name, folder in runs.items()]
    titles = list(dict.fromkeys(title for each in found for title in each))
    groups = [{"title": title, "rows": list(_rows(title, [each.get(title) for each in found]))} for title in titles]
    return {"runs": list(runs), "groups": groups}


def results(name: str, folder: Path) -> Results:
    """The results of a run."""
    if (folder / "result.json").is_file():
        whole = _read(folder / "result.json")
        return {
            f"{policy}, load {each['load']:g}": result
            for each in whole["loads"]
            for policy, result in each["policies"].items()
        }
    if (folder / "plan.json").is_file():
        plan = _read(folder / "plan.json")["plan"]
        return {} if plan is None else {"plan": {**plan, "device_count": sum(plan["devices"].values())}}
    raise UserError(f"run {name}: has no result yet; pick runs that are done")


def _read(file: Path) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return data


def _rows(title: str, found: Sequence[Mapping[str, Any] | None]) -> Iterator[dict[str, Any]]:
    if title == "plan":
        fleets = [MISSING if each is None else f"{each['fleet']}, {each['router']}" for each in found]
        yield {"label": "Fleet", "meaning": "", "cells": [_cell(text) for text in fleets]}
    for figure in PLAN if title == "plan" else COMPARED:
        values = [None if each is None else figure.value(each) for each in found]
        if any(value is not None for value in values):
            yield {"label": figure.label, "meaning": figure.meaning, "cells": list(_cells(figure, found, values))}


def _cells(
    figure: Figure, found: Sequence[Mapping[str, Any] | None], values: Sequence[float | None]
) -> Iterator[dict[str, str]]:
    halves = [None if result is None else figure.half_width(result) for result in found]
    for number, (half, value) in enumerate(zip(halves, values, strict=True)):
        cell = write(value, figure.kind), "" if half is None else f"± {write(half, figure.kind, 2)}"
        if number == 0 or value is None or values[0] is None:
            yield _cell(*cell)
        else:
            yield _cell(*cell, *difference(figure, (values[0], halves[0]), (value, half)))


def _cell(text: str, margin: str = "", difference: str = "", verdict: str = "") -> dict[str, str]:
    return {"text": text, "margin": margin, "difference": difference, "verdict": verdict}


def difference(figure: Figure, first: tuple[float, float | None], other: tuple[float, float | None]) -> tuple[str, str]:
    """By how much a figure differs from that of the first run, and whether that is `better` or `worse`, else empty.

    first, other: the value and half of its 95 % interval. There is a verdict only where the intervals do not meet.
    """
    by = other[0] - first[0]
    if by == 0:
        return "the same", ""
    sign = "+" if by > 0 else "−"
    if figure.kind == "share":
        text = f"{sign}{significant(100 * abs(by), 3)} points"
    else:
        text = f"{sign}{write(abs(by), figure.kind, 3)}"
        text += f" ({sign}{significant(100 * abs(by / first[0]), 3)} %)" if first[0] else ""
    if not figure.better:
        return text, ""
    if figure.name not in EXACT:
        if first[1] is None or other[1] is None:
            return text, ""
        if abs(by) <= first[1] + other[1]:
            return f"{text}, within the intervals", ""
    return text, "better" if (by > 0) == (figure.better == "more") else "worse"
