"""A calibration as a JSON file."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from poise.core.errors import UserError
from poise.intervals.calibration import Calibration
from poise.intervals.interval import LEVELS

SCHEMA = 1


def text_of(calibration: Calibration) -> str:
    """The text of its file: one term a line."""
    found: dict[str, Any] = {
        "schema": SCHEMA,
        "about": dict(calibration.about),
        "levels": list(LEVELS),
        "middle": _rounded(calibration.middle),
        "spread": _rounded(calibration.spread),
        "quantiles": {name: [round(each, 3) for each in row] for name, row in calibration.quantiles.items()},
        "seen": sorted(calibration.seen),
        "own": {name: dict(each) for name, each in calibration.own.items()},
    }
    return "{\n" + ",\n".join(f'"{name}": {_value(each)}' for name, each in found.items()) + "\n}\n"


def load(path: Path) -> Calibration:
    """The calibration of a file; UserError where it is another file."""
    cure = "give a file that `bench/fit_intervals.py` wrote"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA or found["levels"] != list(LEVELS):
            raise UserError(f"{path}: schema {found['schema']} is of another version; {cure}")
        return Calibration(
            found["middle"], found["spread"], found["quantiles"], frozenset(found["seen"]), found["own"], found["about"]
        )
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: holds no calibration of intervals ({error!r}); {cure}") from error


def _rounded(terms: Any) -> dict[str, float]:
    """Terms that matter; below a tenth of a per cent none does."""
    return {name: round(value, 3) for name, value in sorted(terms.items()) if abs(value) >= 0.001}


def _value(each: Any) -> str:
    if not isinstance(each, dict):
        return json.dumps(each, ensure_ascii=False)
    return "{\n" + ",\n".join(f" {json.dumps(k)}: {json.dumps(v, ensure_ascii=False)}" for k, v in each.items()) + "\n}"
