"""Power of a replica by hand: by busy time alone, and by phases where a cap is stated."""

from __future__ import annotations

from dataclasses import replace

import pytest

import poise as ps
from poise.catalogue import device, model
from poise.core.records.records import ReplicaStats
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.report.rates import Window
from poise.report.spending import load

POOL = Pool(model("llama-3.1-8b"), device("H100"))
STATS = ReplicaStats(busy=6 * SECOND, prompting=2 * SECOND, up_until=10 * SECOND)
"""Ten seconds, two of them with prompts and four without."""


@pytest.mark.parametrize(
    ("watts", "joules"),
    [
        (0.0, 4 * 0.2 + 6 * 1.0),
        (700.0, 4 * 0.2 + 2 * 1.0 + 4 * 0.6),
        (560.0, 4 * 0.2 + 2 * 0.8 + 4 * 0.6),
        (350.0, 4 * 0.2 + 6 * 0.5),
    ],
)
def test_a_step_draws_what_its_phase_and_the_cap_allow(watts: float, joules: float) -> None:
    assert load(STATS, replace(POOL, power_cap_w=watts), Window(0, 0, 10 * SECOND)) == pytest.approx(joules / 10)


def test_prompting_is_the_time_of_steps_with_prompts() -> None:
    cluster = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
    run = ps.simulate(cluster, ps.workload.poisson(20, requests=60), slices=True).run
    (stats,) = run.replicas
    assert stats.prompting == sum(end - start for start, end, _, _, _, tokens in run.slices if tokens)
    assert 0 < stats.prompting < stats.busy
