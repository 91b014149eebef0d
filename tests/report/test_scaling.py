"""What a scaler did, counted by hand, and drawn."""

from __future__ import annotations

import pytest

from poise.core.records.records import Records, ReplicaStats, Run, Scaled
from poise.core.spec import Cluster, Pool
from poise.core.units import SECOND, ps
from poise.report.figures import Case
from poise.report.scaling import POOL, pool_curves, replica_hours, scaling_section, scalings
from tests.sim.cases import DEVICE, MODEL

CLUSTER = Cluster((Pool(MODEL, DEVICE, replicas=0, min_replicas=0, max_replicas=2),))


def a_run() -> Run:
    """None serve until 20 s and from 50 s to 60 s; two are wanted from 30 s to 40 s. They come at 5, 19.5 and 55 s."""
    records = Records(3)
    for row, (arrived, sent) in enumerate(((5.0, 20.0), (19.5, 20.5), (55.0, 60.0))):
        records.arrived_at[row], records.dispatched_at[row], records.replica[row] = ps(arrived), ps(sent), 0
    notes = [
        (0, 0, 0, 0, 0, 1), (6, 1, 0, 1, 0, 0), (20, 1, 1, 0, 0, 0), (30, 2, 1, 1, 0, 0), (40, 1, 1, 0, 0, 0),
        (50, 0, 0, 0, 0, 0), (56, 1, 0, 1, 0, 0), (60, 1, 1, 0, 0, 0), (90, 0, 0, 0, 0, 0),
    ]  # fmt: skip
    scaled = [Scaled(at * SECOND, 0, *rest) for at, *rest in notes]
    stats = [ReplicaStats(up_from=ps(56), up_until=ps(80), before=[(0, ps(50))]), ReplicaStats(up_from=-1)]
    return Run(records, stats, ended_at=80 * SECOND, offered=3, scaled=scaled)


def test_figures() -> None:
    found = scalings(a_run(), CLUSTER)
    assert found is not None
    assert (found.scale_ups, found.scale_downs) == (3, 2), "what came after the end is left out"
    assert (found.starting_s, found.warm_s) == (14 + 10 + 4, 6)
    assert (found.cold_requests, found.cold_wait_s) == (3, 15 + 0.5 + 5)
    assert replica_hours(a_run()) == pytest.approx((50 + 24) / 3600)


def test_warm_up_is_left_out() -> None:
    found = scalings(a_run(), CLUSTER, warmup_s=35)
    assert found is not None
    assert (found.scale_ups, found.scale_downs, found.starting_s) == (1, 2, 5 + 4)
    assert (found.cold_requests, found.cold_wait_s) == (1, 5)
    assert replica_hours(a_run(), 35 * SECOND) == pytest.approx((15 + 24) / 3600)


def test_nothing_is_shown_without_a_scaler() -> None:
    assert scalings(Run(Records(0), []), CLUSTER) is None
    assert scaling_section([Case("kpa", {}, timeline={})]) == "" == scaling_section([Case("kpa", {})])


def test_lines_hold_until_the_next_change() -> None:
    curves = pool_curves(a_run(), ["a/b"])
    assert list(curves) == [POOL + "a-b"]
    assert curves[POOL + "a-b"]["wanted"] == ([0, 6, 20, 30, 40, 50, 56, 60, 80], [0, 1, 1, 2, 1, 0, 1, 1, 1])


def test_a_page_shows_each_pool() -> None:
    html = scaling_section([Case("kpa", {}, timeline=pool_curves(a_run(), ["chat"]))])
    assert "Size of the pools" in html and html.count("<figure>") == 1 and "pre-warmed" in html
