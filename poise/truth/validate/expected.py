"""How far an answer is expected to be off: the spread of its kind over devices, as measured when this was released.

`expected.json` holds, for a kind of metric under a kind of load, the median over devices of each one's own median and
90th percentile of absolute errors: what to expect of a device not measured. `poise validate --spread` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from poise.truth.validate.answer import Answer
from poise.truth.validate.load import load_of

_DATA = Path(__file__).with_name("expected.json")

LEAST = 10
"""Answers that a device must have to count."""

UNKNOWN = 1.0
"""The expected error of a kind that was never measured."""


def kind_of(answer: Answer) -> str:
    """The kind of metric and the kind of load, as in `ttft closed`."""
    row = answer.row
    part = row.metric.split("_")[0]
    family = {"itl": "tpot", "batch": "e2e", "latency": "e2e"}.get(part, part)
    family = family if family in ("ttft", "tpot", "e2e", "layer") else "throughput"
    load = (
        row.load.split()[0]
        if row.load.startswith(("replay", "prompt", "decode"))
        else load_of(row.load, row.notes).kind
    )
    return f"{family} {load}{' disagg' if row.disagg else ''}"


def expected_error(answer: Answer) -> float:
    """The median absolute error, as a share, that answers of this kind have on a device not seen."""
    found = _table().get(kind_of(answer))
    return found["median"] if found else UNKNOWN


def spread(answers: Iterable[Answer]) -> dict[str, dict[str, float]]:
    """For each kind the medians over devices of their median and 90th percentile, of quality A and B."""
    groups: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        if answer.predicted is not None and answer.row.quality != "C":
            groups.setdefault(kind_of(answer), {}).setdefault(answer.row.device, []).append(abs(answer.off))
    found = {}
    for kind, devices in sorted(groups.items()):
        enough = [off for off in devices.values() if len(off) >= LEAST] or list(devices.values())
        found[kind] = {
            "median": round(median(float(np.median(off)) for off in enough), 3),
            "p90": round(median(float(np.percentile(off, 90)) for off in enough), 3),
            "devices": len(enough),
        }
    return found


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table
