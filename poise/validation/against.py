"""Compares today's accuracy with that of an earlier run."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.validation.score import Score

TOLERANCE = 0.02
"""By how much a group's median absolute error may grow (of the measured value) before it counts as worse."""

_NAMES = ("source", "device", "model", "engine", "metric")


def read_scores(path: Path) -> dict[tuple[str, ...], dict[str, Any]]:
    """The scores that `--json` wrote, by group; UserError where the file is something else."""
    cure = "give a file that `poise validate --json` wrote"
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"--against {path}: cannot be read ({error}); {cure}") from error
    if not isinstance(rows, list):
        raise UserError(f"--against {path}: holds no list of scores; {cure}")
    found = {}
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict) or not all(name in row for name in (*_NAMES, "answered", "median_ape")):
            raise UserError(f"--against {path}: entry {number} is not a score; {cure}")
        found[(*(str(row[name]) for name in _NAMES), str(row.get("quality", "AB")))] = row
    return found


def worse(today: Sequence[Score], before: dict[tuple[str, ...], dict[str, Any]]) -> list[str]:
    """A line for each group whose median error grew by more than `TOLERANCE`, or of which fewer rows are answered.

    Groups that only one of the two has, or with other rows, and those of quality C, are not compared.
    """
    lines = []
    for score in today:
        old = before.get((score.source, score.device, score.model, score.engine, score.metric, score.quality))
        if old is None or old.get("n") != score.n or score.quality == "C":
            continue
        name = " ".join((score.source, score.device, score.model, score.engine, score.metric))
        was, now = old["median_ape"], score.median_ape
        if was is not None and now is not None and now > was + TOLERANCE:
            lines.append(f"{name}: median error {was:.1%}, now {now:.1%}")
        if old["answered"] > score.answered:
            lines.append(f"{name}: {old['answered']} answered, now {score.answered} of {score.n}")
    return lines
