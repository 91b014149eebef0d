"""Programs of agents for experiments: their tools, how long they take from first to last, which load is carried."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

import poise as ps
from poise.claims.answer import Answer, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.core.request import NO_TOOL
from poise.core.units import SECOND
from poise.report.intervals import over_seeds
from poise.workload.draw import stream

if TYPE_CHECKING:
    from poise.workload import Workload


def with_tool(workload: Workload, *, hung: float = 0.0, seed: int = 0) -> Workload:
    """Sessions whose every answer but the last calls one tool.

    hung: the share of calls that take 300 to 600 s instead.
    """
    assert workload.session is not None and workload.after_ids is not None and workload.delay is not None
    tool = np.full(len(workload), NO_TOOL, np.int16)
    tool[workload.after_ids] = 0
    delay = workload.delay.copy()
    if hung:
        rng = stream(seed, "hung tools")
        long = rng.uniform(300, 600, len(workload)) * SECOND
        chosen = (rng.random(len(workload)) < hung) & (delay > 0)
        delay = np.where(chosen, long.astype(np.int64), delay)
    return replace(workload, tool=tool, tools=("tool",), delay=delay)


def completion_s(result: Any, workload: Workload) -> NDArray[np.float64]:
    """Seconds from the first arrival of each session to its last end."""
    assert workload.session is not None
    records = result.run.records
    arrived, ended = (np.array(column, np.float64) for column in (records.arrived_at, records.ended_at))
    sessions = int(workload.session.max()) + 1
    first, last = np.full(sessions, np.inf), np.zeros(sessions)
    np.minimum.at(first, workload.session, arrived)
    np.maximum.at(last, workload.session, ended)
    took: NDArray[np.float64] = (last - first)[np.isfinite(first)] / SECOND
    return took


@dataclass(frozen=True, slots=True)
class Ladder:
    """Mean completion of programs in seconds, of each policy at each load, by seed."""

    across: str
    runs: Mapping[str, Mapping[float, Sequence[float]]]

    def curve(self, title: str) -> Curve:
        """All policies along the loads."""
        return Curve(title, self.across, "seconds", {name: self._line(by_load) for name, by_load in self.runs.items()})

    def _line(self, by_load: Mapping[float, Sequence[float]]) -> list[Point]:
        found = {load: over_seeds(list(seeds)) for load, seeds in by_load.items()}
        return [Point(load, each.value, each.half) for load, each in found.items()]

    def ratios(self, own: str, other: str) -> dict[float, Ratio]:
        """How many times as long programs take under `other`, by load."""
        return {load: ratio(seeds, self.runs[other][load]) for load, seeds in self.runs[own].items()}

    def faster(self, key: str, own: str, other: str) -> Answer:
        """How many times as long programs take under `other`, at each load."""
        ratios = self.ratios(own, other)
        told = f"{other} over {own}: " + "; ".join(f"at {load:g}: {times(each)}" for load, each in ratios.items())
        return Answer(key, told, list(ratios.values()))

    def carried(self, name: str, bound: float) -> float:
        """The highest load up to which programs take at most `bound` times as long as at the lowest; 0 for none."""
        means = {load: sum(seeds) / len(seeds) for load, seeds in self.runs[name].items()}
        highest, least = 0.0, next(iter(means.values()))
        for load, mean in means.items():
            if mean > bound * least:
                break
            highest = load
        return highest


def ladder(
    bench: Bench,
    across: str,
    loads: Sequence[float],
    policies: Mapping[str, ps.Policies],
    cluster: ps.Cluster,
    made: Callable[[float, int], Workload],
    seeds: int,
    **options: Any,
) -> Ladder:
    """Simulate each policy at each load with each seed; `made(load, seed)` draws the programs."""
    runs: dict[str, dict[float, list[float]]] = {name: {load: [] for load in loads} for name in policies}
    for load in loads:
        for seed in range(seeds):
            workload = made(load, seed)
            for name, each in policies.items():
                result = bench.simulate(cluster, workload, each, seed=seed, **options)
                runs[name][load].append(float(completion_s(result, workload).mean()))
    return Ladder(across, runs)
