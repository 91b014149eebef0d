"""Writes every answer as a line of a table: what was measured, predicted, assumed, and its intervals."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from poise.intervals import Interval
from poise.intervals.held_out import STATED
from poise.report.files import replacing
from poise.validation.answer import Answer
from poise.validation.evidence import stated, stated_of_training
from poise.validation.training.answer import Answer as Trained
from poise.validation.training.line import line_of

COLUMNS = (
    "place", "source", "engine", "engine_version", "model", "gpu", "n_gpus", "tp", "isl", "osl", "concurrency_or_rate",
    "metric", "unit", "quality", "value", "predicted", "naive", "low_80", "high_80", "low_90", "high_90",
    "assumed", "why",
)  # fmt: skip


def write_answers(answers: Sequence[Answer], path: Path, training: Sequence[Trained] = ()) -> None:
    """Write one line an answer, training runs last, whole or not at all; unknown values are empty.

    A `.json` file holds objects.
    """
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    for answer in answers:
        row = answer.row
        table.writerow((
            row.place, row.source, row.engine, row.version, row.model, row.device, row.devices, row.tensor,
            f"{row.prompt:g}", f"{row.output:g}", row.load, row.metric, row.unit, row.quality, f"{row.value:.6g}",
            _figure(answer.predicted), _figure(answer.naive),
            *bounds(answer.predicted, None if answer.predicted is None else stated(answer)),
            "; ".join(answer.assumed), answer.why,
        ))  # fmt: skip
    table.writerows(line_of(each, _training_bounds(each)) for each in training)
    written = text.getvalue()
    if path.suffix == ".json":
        lines = (json.dumps(line, ensure_ascii=False) for line in csv.DictReader(io.StringIO(written)))
        written = "[\n" + ",\n".join(lines) + "\n]\n"
    with replacing(path) as file:
        file.write(written.encode())


def _training_bounds(answer: Trained) -> list[str]:
    """The intervals of a training run; outcomes have none."""
    known = answer.predicted is not None and answer.run.metric != "fits"
    return bounds(answer.predicted, stated_of_training(answer) if known else None)


def bounds(predicted: float | None, interval: Interval | None) -> list[str]:
    """The ends of the intervals that hold 80 % and 90 % of measured values, as text."""
    if predicted is None or interval is None:
        return [""] * (2 * len(STATED))
    return [_figure(end) for level in STATED for end in interval.bounds(predicted, level)]


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
