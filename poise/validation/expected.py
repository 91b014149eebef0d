"""The expected error of an answer: the spread of its kind over devices, as measured when this was released.

`expected.json` holds, for a kind of metric under a kind of load, the median over devices of each one's own median and
90th percentile of absolute errors: what to expect of a device not measured. `poise validate --spread` makes it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import numpy as np

from poise.validation.answer import Answer
from poise.validation.load import load_of
from poise.validation.outcome import plain_metric

_DATA = Path(__file__).with_name("expected.json")

LEAST = 10
"""Least answers of a device for it to count."""

UNKNOWN = 1.0
"""The expected error of a kind that was never measured."""


class Stated(NamedTuple):
    """The error stated with an answer: the median to expect, and the bound that nine in ten answers keep."""

    median: float
    p90: float


def kind_of(answer: Answer) -> str:
    """The kind of metric, the kind of load, and `guessed` where the layout had to be, as in `ttft closed disagg`."""
    row = answer.row
    part = plain_metric(row.metric).split("_")[0]
    family = {"itl": "tpot", "batch": "e2e", "latency": "e2e"}.get(part, part)
    family = family if family in ("ttft", "tpot", "e2e", "layer") else "throughput"
    load = (
        row.load.split()[0]
        if row.load.startswith(("replay", "prompt", "decode"))
        else load_of(row.load, row.notes).kind
    )
    guessed = any("workers" in note for note in answer.assumed)
    return f"{family} {load}{' disagg' if row.disagg else ''}{' guessed' if guessed else ''}"


def stated_error(answer: Answer) -> Stated:
    """The error, as a share, that answers of this kind have on a device not seen."""
    return _stated(answer, _table())


def _stated(answer: Answer, table: Mapping[str, Mapping[str, float]]) -> Stated:
    kind = kind_of(answer)
    found = table.get(kind) or table.get(kind.removesuffix(" guessed"))
    return Stated(found["median"], found["p90"]) if found else Stated(UNKNOWN, UNKNOWN)


def spread(answers: Iterable[Answer]) -> dict[str, dict[str, float]]:
    """For each kind the medians over devices of their median and 90th percentile, of quality A and B."""
    return {kind: _over(list(devices.values())) for kind, devices in sorted(_offs(answers).items())}


def kept(answers: Iterable[Answer]) -> Stated:
    """The shares of answers within the median and within the bound that the other devices' answers would state."""
    inside: list[tuple[bool, bool]] = []
    for devices in _offs(answers).values():
        for name, offs in devices.items():
            others = [each for device, each in devices.items() if device != name]
            if others:
                stated = _over(others)
                inside += [(off <= stated["median"], off <= stated["p90"]) for off in offs]
    return Stated(*np.mean(inside, axis=0)) if inside else Stated(0.0, 0.0)


def _offs(answers: Iterable[Answer]) -> dict[str, dict[str, list[float]]]:
    """Absolute errors of quality A and B by kind and device."""
    groups: dict[str, dict[str, list[float]]] = {}
    for answer in answers:
        if answer.predicted is not None and answer.row.quality != "C":
            groups.setdefault(kind_of(answer), {}).setdefault(answer.row.device, []).append(abs(answer.off))
    return groups


def _over(devices: Sequence[Sequence[float]]) -> dict[str, float]:
    """The medians over devices, those of few answers counted only where there are no others."""
    enough = [off for off in devices if len(off) >= LEAST] or devices
    return {
        "median": round(median(float(np.median(off)) for off in enough), 3),
        "p90": round(median(float(np.percentile(off, 90)) for off in enough), 3),
        "devices": len(enough),
    }


@cache
def _table() -> dict[str, dict[str, Any]]:
    table: dict[str, dict[str, Any]] = json.loads(_DATA.read_text(encoding="utf-8"))
    return table
