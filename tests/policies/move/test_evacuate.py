"""The mover that empties replicas which drain."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

import poise as ps
from poise.policies.move.evacuate import Evacuate
from poise.policies.scale.elastic_moe import ElasticMoe
from poise.testing import a_cluster, a_flight, a_replica, a_request


def test_nothing_moves_where_no_replica_drains() -> None:
    flights = tuple(a_flight(a_request(id=number)) for number in range(3))
    assert list(Evacuate().move(a_cluster(a_replica(flights=flights), a_replica(), needs=Evacuate().needs))) == []


@given(seed=st.integers(0, 1000), rate=st.floats(2.0, 12.0))
def test_a_scale_down_loses_no_request_and_ends_sooner(seed: int, rate: float) -> None:
    """A pool of two, of which one is too many: its replica leaves as soon as it has handed its requests over."""
    cluster = ps.Cluster.of("A100", count=2).replicas(2, model="llama-3.1-8b", max_replicas=2, min_replicas=1)
    load = ps.workload.poisson(rate, requests=60, prompt_tokens=200, output_tokens=400, seed=seed)

    def left_at(mover: Evacuate | None) -> int:
        policies = ps.Policies(scaler=ElasticMoe(ttft_s=60.0, window_s=1.0, hold_s=1.0), mover=mover)
        run = ps.simulate(cluster, load, policies, seed=seed).run
        assert min(run.records.ended_at) >= 0 and list(run.records.output_tokens) == [400] * 60
        return next((note.at for note in run.scaled if note.at and not note.draining and note.serving == 1), 0)

    assert left_at(Evacuate()) <= left_at(None)
