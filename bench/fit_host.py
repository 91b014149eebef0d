"""Fit what vLLM's host adds to a step and before the first token, and print how far off that is on runs held out.

Reads closed loads of AIConfigurator's silicon sample (Apache-2.0) in the fidelity set under POISE_DATA (default
../shared/data). Host time of a step and of a sequence meet time per token; the server's own time, fixed and for each
token of the prompt, meets time to first token. Simulations are made at the figures that ship and beside them, and go
on as straight lines in between; the grid's point of the least mean log error is the fit.

    python bench/fit_host.py [since ...]

Columns: rows, then median/90th percentile of absolute errors: without any host time, by what ships, as fitted, and with
each model, each device held out. What several devices add is one figure here: in these runs hardly any has one device.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from poise.catalogue.engines import EngineDefaults, engine_defaults
from poise.scenario import engine_cost
from poise.validation import served
from poise.validation.condition import Condition, NotCoveredError, read_condition
from poise.validation.row import Row, read_rows

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
SOURCE = "aic_silicon_sample"
SINCE = ("0.8", "0.14")
STEP_S = (0.0, 0.1e-3, 0.2e-3, 0.35e-3, 0.5e-3, 0.7e-3, 1e-3, 1.4e-3, 2e-3)
SEQUENCE_S = (0.0, 2e-6, 5e-6, 10e-6, 15e-6, 20e-6, 25e-6, 30e-6, 35e-6, 45e-6, 60e-6)
FRONT_S = (0.0, 3e-3, 6e-3, 10e-3, 15e-3, 20e-3, 30e-3)
FRONT_TOKEN_S = (0.0, 2e-6, 4e-6, 8e-6, 12e-6, 16e-6, 24e-6)
STEP, SEQUENCE = 0.5e-3, 15e-6

Floats = NDArray[np.float64]
Rows = NDArray[np.bool_]
Forms = Callable[[float, float], Floats]


class Runs(NamedTuple):
    """Measured seconds of runs of several devices, labels, and what is simulated of them.

    tpot, ttft: columns are without host time, per second of a step's, per second of a sequence's; `ttft` without the
    server's own time.  shipped: step and sequence, front and front of a token.
    """

    models: NDArray[np.str_]
    devices: NDArray[np.str_]
    prompts: Floats
    measured_tpot: Floats
    measured_ttft: Floats
    tpot: Floats
    ttft: Floats
    shipped: tuple[tuple[float, float], tuple[float, float]]

    def per_token(self, step_s: float, sequence_s: float) -> Floats:
        """Predicted seconds per token over measured ones."""
        return self.tpot @ np.array([1.0, step_s, sequence_s]) / self.measured_tpot

    def first(self, host: tuple[float, float]) -> Forms:
        """Predicted seconds to the first token over measured ones, as a function of the server's own time."""
        rest = self.ttft @ np.array([1.0, *host])
        return lambda front_s, token_s: (rest + front_s + token_s * self.prompts) / self.measured_ttft


def read_runs(since: str) -> Runs:
    """All closed loads on several devices without data ranks, of versions that have the defaults of `since`."""
    rows, _ = read_rows(DATA / "fidelity" / "serving_e2e.csv")
    pairs: dict[Condition, dict[str, Row]] = {}
    for row in rows:
        condition = _condition(row)
        if condition is not None and engine_defaults("vLLM", condition.version).since == since:
            pairs.setdefault(condition, {})[row.metric] = row
    whole = {c: found for c, found in pairs.items() if found.keys() >= {"tpot_ms", "ttft_ms"}}
    predicted = np.array([_simulated(condition) for condition in whole])
    known = engine_defaults("vLLM", since)
    host = (known.step_s + known.joined_step_s, known.sequence_s + known.joined_sequence_s)
    return Runs(
        np.array([c.pools[0].model.name for c in whole]),
        np.array([c.pools[0].device.name for c in whole]),
        np.array([c.prompt for c in whole]),
        np.array([found["tpot_ms"].value / 1e3 for found in whole.values()]),
        np.array([found["ttft_ms"].value / 1e3 for found in whole.values()]),
        predicted[:, 0],
        predicted[:, 1],
        (host, (known.front_s, known.front_token_s)),
    )


def _condition(row: Row) -> Condition | None:
    if row.source != SOURCE or row.engine != "vLLM" or row.disagg or row.quality == "C":
        return None
    try:
        found = read_condition(row).condition
    except NotCoveredError:
        return None
    pool = found.pools[0]
    return found if found.load.kind == "closed" and pool.devices > 1 and pool.data == 1 else None


def _simulated(condition: Condition) -> Floats:
    """Time per token and to the first one without host time, and their slopes against a step's and a sequence's."""
    none, step, sequence = (_outcome(condition, *at) for at in ((0.0, 0.0), (STEP, 0.0), (0.0, SEQUENCE)))
    return np.stack([none, (step - none) / STEP, (sequence - none) / SEQUENCE], axis=1)


def _outcome(condition: Condition, step_s: float, sequence_s: float) -> Floats:
    def defaults(name: str, version: str = "") -> EngineDefaults:
        figures = {"step_s": step_s, "sequence_s": sequence_s, "joined_step_s": 0.0, "joined_sequence_s": 0.0}
        return replace(engine_defaults(name, version), front_s=0.0, front_token_s=0.0, **figures)

    with patch.object(engine_cost, "engine_defaults", defaults), patch.object(served, "engine_defaults", defaults):
        latency = served.served_outcome(condition).latency
    return np.array([latency["tpot"]["mean"], latency["ttft"]["mean"]])


def fit(forms: Forms, grid: list[tuple[float, float]], rows: Rows) -> tuple[float, float]:
    """The grid's point of the least mean log error over `rows`."""
    return min(grid, key=lambda at: float(np.abs(np.log(forms(*at)[rows])).mean()))


def held_out(forms: Forms, grid: list[tuple[float, float]], labels: NDArray[np.str_]) -> Floats:
    """Ratios of rows by the figures fitted to all rows with another label."""
    parts = [forms(*fit(forms, grid, labels != label))[labels == label] for label in np.unique(labels)]
    return np.concatenate(parts)


def _written(ratios: Floats) -> str:
    off = np.abs(ratios - 1)
    return f"{np.median(off):.1%}/{np.percentile(off, 90):.1%}"


def main(versions: list[str]) -> None:
    """Fit and print each version's figures."""
    for since in versions:
        runs = read_runs(since)
        whole = np.ones(len(runs.prompts), dtype=bool)
        host, front = list(product(STEP_S, SEQUENCE_S)), list(product(FRONT_S, FRONT_TOKEN_S))
        forms = (("per token", runs.per_token, host), ("first token", runs.first(runs.shipped[0]), front))
        for shipped, (what, form, grid) in zip(runs.shipped, forms, strict=True):
            best = fit(form, grid, whole)
            cells = [_written(form(*at)) for at in ((0.0, 0.0), shipped, best)]
            cells += [_written(held_out(form, grid, labels)) for labels in (runs.models, runs.devices)]
            print(f"vLLM {since}", what, len(whole), *cells, "ships", shipped, "fitted", best, flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or list(SINCE))
