"""Fit what an engine's kernels reach on devices to measured TPOT of servers, and print the errors with models left out.

Reads `fidelity/serving_e2e.csv` under each FOLDER. Two figures (`poise.catalogue.engines.Reached`), bandwidth and the
launch time of a layer, by the least mean log error over a grid; what the engine's row has of arithmetic stays.

    python bench/fit_served.py ENGINE DEVICE SOURCE FOLDER [FOLDER]

Columns: TPOT rows, their median/largest absolute error as it was without a row, as fitted, and with each model left
out of the fit.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from math import exp, log
from pathlib import Path
from statistics import median
from unittest.mock import patch

from poise.catalogue.engines import EngineDefaults, Reached, engine_defaults
from poise.scenario import engine_cost
from poise.validation.answer import work_out
from poise.validation.condition import Condition, NotCoveredError, read_condition
from poise.validation.row import Row, read_rows

SHARES = (1.0, 0.7, 0.5, 0.35, 0.25)
LAYER_S = (0.0, 50e-6, 100e-6, 150e-6, 200e-6, 300e-6)
GRID = tuple(product(SHARES, LAYER_S))

Errors = dict[tuple[float, float], float]
"""Logs of predicted over measured by bandwidth and launch time."""


def read(engine: str, device: str, source: str, folders: Sequence[str]) -> list[tuple[Row, Condition]]:
    """Mean TPOT of servers that state no speculative decoding."""
    rows = [row for folder in folders for row in read_rows(Path(folder) / "fidelity" / "serving_e2e.csv")[0]]
    mine = [r for r in rows if (r.engine, r.source, r.metric) == (engine, source, "tpot_mean_ms")]
    found = []
    for row in mine:
        if row.device.startswith(device) and ("decoding: no flag" in row.notes or "speculative" not in row.notes):
            try:
                found.append((row, read_condition(row).condition))
            except NotCoveredError:
                continue
    return found


def errors(row: Row, condition: Condition, base: Reached, grid: Sequence[tuple[float, float]] = GRID) -> Errors:
    """The error of one row at each point of the grid."""
    found = {}
    for bandwidth, layer_s in grid:
        reached = replace(base, bandwidth=bandwidth, layer_s=layer_s)
        with patch.object(engine_cost, "engine_defaults", lambda *given, each=reached: _reaching(*given, each)):
            outcome, _, why = work_out(condition)
        if outcome is None:
            raise SystemExit(f"{row.place}: {why}")
        found[bandwidth, layer_s] = log((outcome.figure(row.metric, row.unit) or 1.0) / row.value)
    return found


def _reaching(engine: str, version: str, reached: Reached) -> EngineDefaults:
    return replace(engine_defaults(engine, version), reached={"": reached})


def best(rows: Sequence[Errors]) -> tuple[float, float]:
    """The point of the grid with the least mean log error over rows."""
    return min(GRID, key=lambda at: sum(abs(each[at]) for each in rows))


def main(engine: str, device: str, source: str, *folders: str) -> None:
    """Fit and print."""
    rows = read(engine, device, source, folders)
    known = engine_defaults(engine, rows[0][0].version).reached_on(rows[0][1].pools[0].device, experts=True)
    table = [errors(*each, known) for each in rows]
    models = [row.model for row, _ in rows]
    fitted = best(table)
    left = {name: best([each for each, of in zip(table, models, strict=True) if of != name]) for name in {*models}}
    print("all", len(rows), *_written([each[1.0, 0.0] for each in table]), *_written([each[fitted] for each in table]))
    print("models left out", *_written([each[left[name]] for each, name in zip(table, models, strict=True)]))
    print("bandwidth, layer_s:", *fitted)
    for name, at in sorted(left.items()):
        off = [each[at] for each, of in zip(table, models, strict=True) if of == name]
        print(f"without {name}:", *at, "→", *(f"{exp(each) - 1:+.0%}" for each in off))


def _written(off: Sequence[float]) -> tuple[str, ...]:
    sizes = [abs(exp(each) - 1) for each in off]
    return (f"{median(sizes):.0%}/{max(sizes):.0%}",)


if __name__ == "__main__":
    main(*sys.argv[1:])
