"""What a validation says in ten lines: how far predictions are off, by metric, beside published errors of others."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

import numpy as np

from poise.report.table import show
from poise.validation.evidence import evidence
from poise.validation.folder import Answered
from poise.validation.intervals import show_held
from poise.validation.names import short_name
from poise.validation.score import ALL, Score, totals
from poise.validation.show import best_peers, share
from poise.validation.training.score import REGRET, training_scores
from poise.validation.unread import in_words

METRICS, COMPARED = 2, 2
"""Metrics of serving that are listed: those with most answers, and of the others those that peers have published."""


def show_summary(found: Answered, file: TextIO | None = None) -> None:
    """Print the headline, the metrics with most answers, training and operators, and what has no answer."""
    out = file or sys.stdout
    ends = (_training(found), _operators(found.operators), _unanswered(found), in_words(found.unread))
    rest = [line for line in ends if line]
    first = headline(found) or ("" if rest else "Nothing was answered.")
    out.write(f"{first}\n" if first else "")
    scored = sorted((each for each in totals(found.answers) if each.answered), key=lambda each: -each.answered)
    beside = [each for each in scored[METRICS:] if each.metric in found.peers]
    rows = [_row(each, found) for each in (*scored[:METRICS], *beside[:COMPARED])]
    if rows:
        more = len(scored) - len(rows)
        title = f"By metric{f', and {more} more in the page' if more else ''}"
        show(title, ("", "answered", "median", "p90", "published peers (median)"), rows, out)
    show_held(evidence(found.answers, found.training), out)
    out.writelines(f"{line}\n" for line in rest)
    out.write("--out DIR writes the page, --json FILE every score, --tables prints all tables.\n")


def headline(found: Answered) -> str:
    """The median error over all answers of quality A and B; empty without any."""
    off = [abs(each.off) for each in found.answers if each.predicted is not None and each.row.quality != "C"]
    if not off:
        return ""
    return (
        f"Predictions are off by {share(float(np.median(off)))} in the median of {len(off):,} measurements, "
        f"nine in ten by less than {share(float(np.percentile(off, 90)))}."
    )


def _row(score: Score, found: Answered) -> tuple[str, ...]:
    peers = best_peers(found.peers.get(score.metric, {}))
    return short_name(score.metric), f"{score.answered:,}", share(score.median_ape), share(score.p90_ape), peers


def _totals(found: Answered) -> list[Score]:
    """Scores of training runs over all sources."""
    scored = training_scores(found.training) if found.training else []
    return [each for each in scored if each.source == ALL and each.metric != REGRET and each.quality != "A"]


def _training(found: Answered) -> str:
    parts = [
        f"{short_name(each.metric)} off by {share(each.median_ape)} in the median of {each.answered:,}"
        for each in _totals(found)
        if each.answered and each.metric != "fits"
    ]
    return f"Training runs: {', '.join(parts)}." if parts else ""


def _operators(scored: Sequence[Score]) -> str:
    errors = [each.median_ape for each in scored if each.source == ALL and each.median_ape is not None]
    if not errors:
        return ""
    if len(errors) == 1:
        return f"Operators: 1 kind, off by {share(errors[0])} in the median."
    return f"Operators: {len(errors)} kinds, off by {share(min(errors))} to {share(max(errors))} in the median."


def _unanswered(found: Answered) -> str:
    why = Counter(each.why for each in found.answers if each.why).most_common()
    if not why:
        return ""
    count = sum(each for _, each in why)
    return f"Not answered: {count:,} of {len(found.answers):,}, most because {why[0][0]} ({why[0][1]:,})."
