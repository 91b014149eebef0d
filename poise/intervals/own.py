"""What measurements of one's own say of further figures of the same deployment.

Errors of one deployment are alike: part of their variance, `alike`, is common to all its rows. With k rows of its own
measured the common part is known up to chance, so the middle moves by k·a / (k·a + 1 − a) of their mean, and of the
spread there stays the root of (1 − a)·(1 + a / (k·a + 1 − a)): the prediction of a further row in a model of one random
effect (Searle, Casella and McCulloch, Variance Components, 1992, chapter 3).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from pathlib import Path
from typing import NamedTuple

from poise.core.errors import UserError
from poise.intervals.calibration import Calibration
from poise.intervals.conditions import Conditions
from poise.intervals.interval import Interval

SCHEMA = 1
ALIKE = "alike"
"""The name of the common part of the variance in a calibration's `own`."""


class Deployment(NamedTuple):
    """Rows of one deployment: their errors are alike."""

    figure: str
    model: str
    device: str
    engine: str
    weights: str
    disagg: bool


class Found(NamedTuple):
    """Measurements of a deployment. log: the mean of how far they lie above the middle of their intervals, in
    logarithms of time."""

    deployment: Deployment
    rows: int
    log: float


@dataclass(frozen=True, slots=True)
class Own:
    """Measurements of one's own. file: where they are from."""

    found: tuple[Found, ...] = ()
    file: str = ""

    def of(self, conditions: Conditions) -> Found | None:
        """Those of a deployment; None where it was not measured."""
        wanted = deployment(conditions)
        return next((each for each in self.found if each.deployment == wanted), None)


def deployment(of: Conditions) -> Deployment:
    """The deployment of a figure."""
    return Deployment(of.figure, of.model, of.device, of.engine, of.weights, of.disagg)


def moved(alike: float, rows: int) -> float:
    """The part of the mean error of `rows` own rows by which the middle moves."""
    return rows * alike / (rows * alike + 1 - alike) if rows else 0.0


def stays(alike: float, rows: int) -> float:
    """The part of the spread that stays after `rows` own rows."""
    return sqrt((1 - alike) * (1 + alike / (rows * alike + 1 - alike))) if rows else 1.0


def narrowed(interval: Interval, of: Conditions, own: Own, calibration: Calibration, more: int = 0) -> Interval:
    """The interval after one's own measurements; the same where no part of the errors is known to be alike.

    more: measurements that are taken to be made besides, and to find what is expected.
    """
    alike, found = calibration.own.get(of.figure, {}).get(ALIKE, 0.0), own.of(of)
    rows, log = (0, 0.0) if found is None else (found.rows, found.log)
    return interval.narrowed(of.slower * moved(alike, rows) * log, stays(alike, rows + more))


def save_own(own: Own, path: Path) -> None:
    """Write measurements to a file."""
    rows = [{**each.deployment._asdict(), "rows": each.rows, "log": round(each.log, 4)} for each in own.found]
    path.write_text(json.dumps({"schema": SCHEMA, "own": rows}, indent=1) + "\n", encoding="utf-8")


def load_own(path: Path) -> Own:
    """The measurements of a file; UserError where it is another file."""
    cure = "give a file that `poise calibrate --points TABLE --out FILE` wrote"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["schema"] != SCHEMA:
            raise UserError(f"{path}: schema {found['schema']} is of another version; {cure}")
        return Own(tuple(_found(each) for each in found["own"]), str(path))
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UserError(f"{path}: holds no measurements of one's own ({error!r}); {cure}") from error


def _found(row: Mapping[str, object]) -> Found:
    names = [str(row[name]) for name in ("figure", "model", "device", "engine", "weights")]
    figure, model, device, engine, weights = names
    rows, log = row["rows"], row["log"]
    if not isinstance(rows, int) or rows < 1 or not isinstance(log, int | float):
        raise ValueError(f"rows = {rows!r}, log = {log!r}")
    return Found(Deployment(figure, model, device, engine, weights, bool(row["disagg"])), rows, float(log))
