"""One tenant floods: what the others notice, and what becomes of the prefix caches, is what docs/fairness.md states."""

from __future__ import annotations

import numpy as np
import pytest

from bench.fairness import CASES, FLOODER, QUIET, Figures, bound, figures, simulated, workload
from poise.core.records.records import Run


@pytest.fixture(scope="module", params=[0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2, 3))])
def runs(request: pytest.FixtureRequest) -> tuple[dict[str, Run], dict[str, Figures], dict[str, float]]:
    """The runs of a seed, their figures and the bounds."""
    load = workload(request.param)
    done = {name: simulated(each, load) for name, each in CASES.items()}
    bounds = {name: bound(run, load, name) for name, run in done.items() if name.startswith(("vtc", "dlpm"))}
    return done, {name: figures(run, load) for name, run in done.items()}, bounds


Runs = tuple[dict[str, Run], dict[str, Figures], dict[str, float]]


def test_the_flood_is_one() -> None:
    load = workload()
    assert load.tenant is not None
    counts = np.bincount(load.tenant)
    assert len(counts) == QUIET + 1
    assert counts[FLOODER] > 5 * sum(counts[1:])


def test_everybody_is_served_in_the_end(runs: Runs) -> None:
    assert all(each.finished for each in runs[1].values())


def test_others_are_held_within_the_bound(runs: Runs) -> None:
    _, result, bounds = runs
    assert bounds
    for name, most in bounds.items():
        assert result[name].held_s <= most, name


def test_foretelling_makes_the_bound_tight(runs: Runs) -> None:
    _, _, bounds = runs
    assert bounds["vtc, oracle"] < bounds["vtc"] / 5
    assert bounds["dlpm, oracle"] < bounds["dlpm"] / 5


def test_others_hardly_notice_the_flood(runs: Runs) -> None:
    """By arrival they wait as long as the flooder; with shares their TTFT is a small part of that."""
    _, result, _ = runs
    assert result["fcfs"].others_p99 > 0.7 * result["fcfs"].flooder_p99
    for name in ("vtc", "vtc, history", "dlpm", "dlpm, history"):
        assert result[name].others_p99 < result["fcfs"].others_p99 / 8


def test_dlpm_keeps_the_prefix_hits(runs: Runs) -> None:
    """At least nine tenths of what affinity alone finds; a share that is blind to prefixes does not."""
    _, result, _ = runs
    for name in ("dlpm", "dlpm, history", "dlpm, oracle"):
        assert result[name].hits >= 0.9 * result["affinity only"].hits
    assert result["vtc"].hits < 0.9 * result["affinity only"].hits
