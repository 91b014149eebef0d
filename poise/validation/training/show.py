"""Prints scores of training runs as tables and sentences."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from typing import TextIO

from poise.report.table import show
from poise.validation.score import ALL, Score
from poise.validation.show import cells
from poise.validation.training.answer import Answer
from poise.validation.training.score import REGRET, by_source, training_scores

HEAD = ("n", "answered", "bias", "median", "p90")
REASONS = 12
"""Reasons for having no answer that are listed; the commonest first."""


def show_training(answers: Sequence[Answer], file: TextIO | None = None) -> None:
    """Training runs by source, in all and of complete conditions alone, and the regret of the layouts chosen."""
    out = file or sys.stdout
    show(
        "Training runs by source", ("source", "metric", *HEAD), [(s.source, *_row(s)) for s in by_source(answers)], out
    )
    scored = training_scores(answers)
    totals = [s for s in scored if s.source == ALL and s.metric != REGRET]
    named = [("complete conditions" if s.quality == "A" else "all", *_row(s)) for s in totals]
    show("Training runs", ("rows", "metric", *HEAD), named, out)
    lost = [(s.source, *_row(s)) for s in scored if s.metric == REGRET]
    show("Regret of the layout predicted fastest", ("source", "metric", "sweeps", *HEAD[1:]), lost, out)
    why = Counter(f"{each.run.source}: {each.why}" for each in answers if each.why).most_common()
    if why:
        out.write("Training runs not answered:\n")
        out.writelines(f"  {count:,} × {text}\n" for text, count in why[:REASONS])
        out.write("\n")


def _row(score: Score) -> tuple[str, ...]:
    return (score.metric, *cells(score)[: len(HEAD)])
