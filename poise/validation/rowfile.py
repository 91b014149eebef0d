"""Writes every answer as a line of a table: what was measured, predicted, assumed, and the expected error."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path

from poise.report.files import replacing
from poise.validation.answer import Answer
from poise.validation.expected import stated_error
from poise.validation.training.answer import Answer as Trained
from poise.validation.training.line import line_of

COLUMNS = (
    "place", "source", "engine", "engine_version", "model", "gpu", "n_gpus", "tp", "isl", "osl", "concurrency_or_rate",
    "metric", "unit", "quality", "value", "predicted", "naive", "expected_error", "error_bound", "assumed", "why",
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
        stated = None if answer.predicted is None else stated_error(answer)
        table.writerow((
            row.place, row.source, row.engine, row.version, row.model, row.device, row.devices, row.tensor,
            f"{row.prompt:g}", f"{row.output:g}", row.load, row.metric, row.unit, row.quality, f"{row.value:.6g}",
            _figure(answer.predicted), _figure(answer.naive),
            _figure(stated and stated.median), _figure(stated and stated.p90),
            "; ".join(answer.assumed), answer.why,
        ))  # fmt: skip
    table.writerows(line_of(each) for each in training)
    written = text.getvalue()
    if path.suffix == ".json":
        lines = (json.dumps(line, ensure_ascii=False) for line in csv.DictReader(io.StringIO(written)))
        written = "[\n" + ",\n".join(lines) + "\n]\n"
    with replacing(path) as file:
        file.write(written.encode())


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.6g}"
