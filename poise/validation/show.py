"""Prints scores as tables and sentences."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TextIO

from poise.report.table import show
from poise.report.wording import MISSING
from poise.validation.answer import Answer
from poise.validation.intervals import show_by_group
from poise.validation.regret import PREFIX, regrets
from poise.validation.score import ALL, Score, by_device, by_source, totals

HEAD = ("n", "answered", "bias", "median", "p90", "naive bias", "naive median")

REASONS = 12
"""Reasons for having no answer, and assumptions, that are listed; the commonest first."""


def show_scores(
    answers: Sequence[Answer],
    peers: Mapping[str, Mapping[str, float]],
    operators: Sequence[Score] = (),
    file: TextIO | None = None,
) -> None:
    """Print tables by source, device and operator, totals with published errors, and what was not answered or assumed.

    Where there are only operators, only these.
    """
    out = file or sys.stdout
    if operators:
        show_operators(operators, out)
    if not answers:
        return
    show("By source and metric", ("source", "metric", *HEAD), [(*_name(s), *cells(s)) for s in by_source(answers)], out)
    show(
        "By device and metric",
        ("device", "metric", *HEAD),
        [(s.device, s.metric, *cells(s)) for s in by_device(answers)],
        out,
    )
    rows = [(s.metric, *cells(s), best_peers(peers.get(s.metric, {}))) for s in totals(answers)]
    show("All sources, without quality C", ("metric", *HEAD, "published peers (median)"), rows, out)
    head = ("source", "metric", "conditions", "median", "p90", "median at random")
    show("Regret of the configuration predicted best", head, [_regret(s) for s in regrets(answers)], out)
    show_by_group(answers, out)
    _list("Not answered", [answer.why for answer in answers if answer.why], out)
    _list("Assumed", [note for answer in answers if answer.predicted is not None for note in answer.assumed], out)


def _regret(score: Score) -> tuple[str, ...]:
    name = (score.source, score.metric.removeprefix(PREFIX))
    return (*name, f"{score.n:,}", share(score.median_ape), share(score.p90_ape), share(score.naive_median_ape))


def show_operators(scored: Sequence[Score], out: TextIO) -> None:
    """Single operators by device, and in all."""
    head = ("operator", *HEAD[:-2], "roofline bias", "roofline median")
    kinds = sorted({(score.device, score.metric) for score in scored if score.source != ALL and score.answered})
    rows = []
    for device, metric in kinds:
        for score in scored:
            if (score.device, score.metric) == (device, metric) and score.answered:
                rows.append((device, f"{metric.removeprefix('op:')} ({score.source}, {score.engine})", *cells(score)))
    show("Operators by device", ("device", *head), rows, out)
    whole = [(score.metric.removeprefix("op:"), *cells(score)) for score in scored if score.source == ALL]
    show("Operators", head, whole, out)
    others = [f"{score.metric.removeprefix('op:')} ({score.n:,} rows)" for score in scored if not score.answered]
    if others:
        out.write(f"Operators that are not modelled: {', '.join(others)}\n\n")


def _name(score: Score) -> tuple[str, str]:
    return (score.source if score.quality != "C" else f"{score.source} (quality C)", score.metric)


def cells(score: Score) -> tuple[str, ...]:
    """The figures of a score as text, under `HEAD`."""
    return (
        f"{score.n:,}", f"{score.answered:,}", _signed(score.bias), share(score.median_ape), share(score.p90_ape),
        _signed(score.naive_bias), share(score.naive_median_ape),
    )  # fmt: skip


def share(value: float | None) -> str:
    """An error in per cent."""
    return MISSING if value is None else f"{value:.0%}" if value >= 0.995 else f"{value:.1%}"


def _signed(value: float | None) -> str:
    return MISSING if value is None else f"{'+' if value > 0 else '−' if value < 0 else '±'}{share(abs(value))}"


def best_peers(peers: Mapping[str, float]) -> str:
    """The published errors of the three simulators with the least."""
    ranked = sorted(peers.items(), key=lambda each: each[1])
    return ", ".join(f"{name} {error:.0%}" for name, error in ranked[:3]) or MISSING


def _list(title: str, lines: Sequence[str], out: TextIO) -> None:
    counts = Counter(lines).most_common()
    if not counts:
        return
    out.write(f"{title}:\n")
    for text, count in counts[:REASONS]:
        out.write(f"  {count:,} × {text}\n")
    if len(counts) > REASONS:
        out.write(f"  and {len(counts) - REASONS} more kinds\n")
    out.write("\n")
