"""Fit what engines' kernels reach on devices, and print how far off that is on models, lengths and devices held out.

Reads the static batches of LLM-Inference-Bench (BSD-3) in the fidelity set under POISE_DATA (default ../shared/data).
Four figures a group (`poise.catalogue.engines.Reached`), by the least mean log error over a grid; launch times add up.

    python bench/fit_reached.py [ENGINE DEVICE [DEVICE]]

With two devices each is also answered by the other's figures. Columns: rows, then median/90th percentile of absolute
errors: as measured relatives have it, as fitted, and with each model, each prompt length held out.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from math import ceil
from pathlib import Path
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from numpy.typing import NDArray

from poise.catalogue.engines import EngineDefaults, Reached, engine_defaults
from poise.core.estimate import Estimator
from poise.scenario import engine_cost
from poise.validation.batch import decode_s, prefill_s
from poise.validation.condition import Condition, read_condition
from poise.validation.row import read_rows

DATA = Path(os.environ.get("POISE_DATA", Path(__file__).parents[1] / "../shared/data"))
SOURCE = "llm_inference_bench"
GROUPS = [
    ("llama.cpp", "H100 (variant not stated)", "A100 (memory size not stated)"),
    ("llama.cpp", "MI300X", "MI250"),
    ("vLLM", "MI300X", "MI250"),
    ("Deepspeed-MII", "A100 (memory size not stated)"),
    ("Deepspeed", "Gaudi2"),
    ("vLLM", "Intel-Max-1550"),
    ("llama.cpp", "Intel-Max-1550"),
]
SHARES = (1.0, 0.8, 0.65, 0.5, 0.4, 0.3, 0.2, 0.12, 0.08)
LAYER_S = (0.0, 50e-6, 100e-6, 200e-6, 350e-6, 600e-6, 1e-3, 2e-3, 4e-3)
JOINED_S = (0.0, 50e-6, 100e-6, 200e-6, 400e-6, 1e-3, 3e-3, 1e-2)

Floats = NDArray[np.float64]


class Group(NamedTuple):
    """Static batches of one engine on one device: seconds measured, models, prompts, and seconds for each grid point.

    times: (arithmetic, bandwidth) → seconds without launches, layers passed, and those passed by joined devices.
    """

    measured: Floats
    models: NDArray[np.str_]
    prompts: Floats
    times: dict[tuple[float, float], Floats]

    def off(self, found: Reached, rows: NDArray[np.bool_]) -> Floats:
        """Absolute relative errors of throughput."""
        return np.abs(self.measured[rows] / self._seconds(found, rows) - 1)

    def loss(self, found: Reached, rows: NDArray[np.bool_]) -> float:
        """The mean absolute log error."""
        return float(np.abs(np.log(self._seconds(found, rows) / self.measured[rows])).mean())

    def _seconds(self, found: Reached, rows: NDArray[np.bool_]) -> Floats:
        times = self.times[found.arithmetic, found.bandwidth][rows]
        return times @ np.array([1.0, found.layer_s, found.joined_s])


def read_group(engine: str, device: str) -> Group:
    """All static batches of an engine on a device."""
    rows, _ = read_rows(DATA / "fidelity" / "serving_e2e.csv")
    mine = [r for r in rows if (r.source, r.engine, r.device) == (SOURCE, engine, device) and r.quality != "C"]
    found = [(row, read_condition(row).condition) for row in mine]
    tokens = [c.load.clients * (c.prompt + c.output) for _, c in found]
    times = {at: np.array(list(_times([c for _, c in found], Reached(*at)))) for at in product(SHARES, SHARES)}
    return Group(
        np.array(tokens) / np.array([row.value for row, _ in found]),
        np.array([c.pools[0].model.name for _, c in found]),
        np.array([c.prompt for _, c in found]),
        times,
    )


def _times(conditions: list[Condition], reached: Reached) -> Iterator[tuple[float, float, float]]:
    estimators: dict[tuple[object, ...], Estimator] = {}
    for condition in conditions:
        pool = condition.pools[0]
        key = (pool.model.name, pool.tensor, pool.pipeline, pool.replicas)
        if key not in estimators:
            with patch.object(engine_cost, "engine_defaults", lambda *arguments: _reaching(*arguments, reached)):
                estimators[key] = engine_cost.cost_for(pool, condition.engine, condition.version)
        estimator, each = estimators[key], ceil(condition.load.clients / pool.replicas)
        prompt, output = round(condition.prompt), round(condition.output)
        budget = max(pool.engine.token_budget, prompt)
        seconds = prefill_s(estimator, each, prompt, budget) + decode_s(estimator, each, prompt, output - 1)
        passed = float(pool.model.layers * (ceil(each / (budget // prompt)) + output - 1))
        yield seconds, passed, passed * (pool.devices > 1)


def _reaching(engine: str, version: str, reached: Reached) -> EngineDefaults:
    return replace(engine_defaults(engine, version), reached={"": reached})


def fit(parts: list[tuple[Group, NDArray[np.bool_]]]) -> Reached:
    """The figures of the least loss over groups, each with the rows that count."""
    grid = (Reached(*at) for at in product(SHARES, SHARES, LAYER_S, JOINED_S))
    return min(grid, key=lambda found: sum(group.loss(found, rows) for group, rows in parts))


def held_out(group: Group, labels: NDArray[np.generic]) -> Floats:
    """Errors of rows by the figures fitted to all rows with another label."""
    parts = [(fit([(group, labels != label)]), labels == label) for label in np.unique(labels)]
    return np.concatenate([group.off(found, rows) for found, rows in parts])


def _written(off: Floats) -> str:
    return f"{np.median(off):.0%}/{np.percentile(off, 90):.0%}"


def main(groups: list[tuple[str, ...]]) -> None:
    """Fit and print each group."""
    for engine, *devices in groups:
        found = {device: read_group(engine, device) for device in devices}
        whole = {device: np.ones(len(group.measured), dtype=bool) for device, group in found.items()}
        for device, group in found.items():
            best = fit([(group, whole[device])])
            cells = [_written(group.off(each, whole[device])) for each in (Reached(), best)]
            cells += [_written(held_out(group, labels)) for labels in (group.models, group.prompts)]
            others = [(other, whole[name]) for name, other in found.items() if name != device]
            if others:
                cells.append(f"by the other {_written(group.off(fit(others), whole[device]))}")
            print(engine, device, len(group.measured), *cells, best, flush=True)
        if len(found) > 1:
            print(engine, "of the maker", fit([(group, whole[device]) for device, group in found.items()]), flush=True)


if __name__ == "__main__":
    main([tuple(sys.argv[1:])] if len(sys.argv) > 1 else GROUPS)  # type: ignore[list-item]
