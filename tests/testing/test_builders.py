"""Inputs in one call each: what they show to a policy is what a world would show."""

from __future__ import annotations

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.action import ALL, Entry, Hold, Route
from poise.core.chance import Chance
from poise.core.control.state import State
from poise.core.request import RequestView
from poise.core.spec import Belief, Engine, Lane, ReplicaSpec
from poise.core.view import REPORTED, ClusterView
from poise.policies.batch.chunked import Chunked
from poise.testing import RuleBroken, a_chance, a_cluster, a_lane, a_replica, a_request, check_replica, check_router


@dataclass(slots=True)
class PrefixAware:
    """The router of the style guide: least work ahead, cached prompt tokens being work already done."""

    needs: tuple[str, ...] = ("queued_tokens", "cached_tokens")

    def route(self, request: RequestView, cluster: ClusterView, chance: Chance) -> Route | Hold:
        queued, cached = cluster.queued_tokens, cluster.cached_tokens(request)
        return Route(chance.least(cluster.able(request), lambda replica: queued[replica] - cached[replica]))


def test_a_policy_is_tested_in_three_lines() -> None:
    cluster = a_cluster(a_replica(cached_tokens=900), a_replica())
    assert PrefixAware().route(a_request(prompt_tokens=1000), cluster, a_chance()) == Route(0)
    check_router(PrefixAware)


# Requests -------------------------------------------------------------------------------------------------------------


def test_a_request_has_identity_unless_it_is_taken_away() -> None:
    assert (a_request(id=3).ids, a_request(id=3).ends) == ((3,), (100,))
    assert a_request(ids=()).ids == a_request(ids=()).ends == ()
    assert a_request(prompt_tokens=90, ids=(5, 6, 7)).ends == (30, 60, 90)
    assert a_request(prompt_tokens=90, ids=(5, 6), ends=(16, 32)).ends == (16, 32)
    assert a_request() == a_request()


@pytest.mark.parametrize("ends", [(10,), (20, 10), (50, 101)])
def test_extents_that_cannot_be_are_refused(ends: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="must rise, one for each of the ids"):
        a_request(ids=(1, 2), ends=ends)


# Clusters -------------------------------------------------------------------------------------------------------------


def test_columns_are_over_replicas_in_order() -> None:
    cluster = a_cluster(a_replica(requests=2, free_blocks=7), a_replica(tokens=5), now=12)
    assert (list(cluster.requests), list(cluster.tokens), list(cluster.free_blocks)) == ([2, 0], [0, 5], [7, 1000])
    assert (cluster.now, cluster.stage) == (12, "serve")
    assert list(a_cluster().able(a_request())) == [0]


def test_cached_tokens_are_of_the_requested_prompt() -> None:
    cluster = a_cluster(a_replica(cached_tokens=500), a_replica())
    assert cluster.cached_tokens(a_request(prompt_tokens=100)) == [100, 0]
    assert cluster.cached_tokens(a_request(ids=())) == [0, 0]


specs = st.lists(
    st.builds(
        ReplicaSpec,
        st.integers(-1, 1),
        st.sampled_from(["mixed", "prefill", "decode"]),
        st.integers(1, 60),
        up=st.booleans(),
        tenants=st.sampled_from([(), (0,), (0, 1)]),
    ),
    min_size=1,
    max_size=6,
)


@given(specs, st.integers(0, 1), st.integers(-1, 2), st.integers(1, 60), st.sampled_from(["serve", "decode"]))
def test_able_agrees_with_the_state_that_control_keeps(
    specs: list[ReplicaSpec], model: int, tenant: int, prompt: int, stage: str
) -> None:
    state = State(specs, Belief(), ())
    cluster = a_cluster(
        *[
            a_replica(
                model=spec.model,
                role=spec.role,
                capacity_tokens=spec.capacity_tokens,
                able=spec.up,
                tenants=spec.tenants,
            )
            for spec in specs
        ],
        stage=stage,
    )
    request = a_request(prompt_tokens=prompt, model=model, tenant=tenant)
    able = state.partners if stage == "decode" else state.able
    assert list(cluster.able(request)) == list(able(request))
    assert list(cluster.partners(request)) == list(state.partners(request))
    for replica in range(len(specs)):
        assert list(cluster.peers(request, replica)) == list(state.peers(request, replica))


@pytest.mark.parametrize("column", ["requests", *REPORTED])
def test_what_was_not_declared_cannot_be_read(column: str) -> None:
    assert list(getattr(a_cluster(needs=[column]), column)) == [getattr(a_replica(), column)]
    with pytest.raises(RuleBroken, match=f"reads `cluster.{column}` but its `needs` are"):
        getattr(a_cluster(needs=["cached_tokens"]), column)


def test_the_cache_cannot_be_read_undeclared_either() -> None:
    with pytest.raises(RuleBroken, match=r"reads `cluster.cached_tokens\(request\)`.*add 'cached_tokens'"):
        a_cluster(needs=REPORTED).cached_tokens(a_request())


def test_chance_is_that_of_the_key() -> None:
    assert a_chance(key=5).bits() == Chance(0, 5).bits()
    assert a_chance(seed=1).bits() != a_chance().bits()


# Lanes ----------------------------------------------------------------------------------------------------------------


def test_a_lane_is_in_the_requested_situation() -> None:
    lane = a_lane(
        waiting=[a_request(id=5, prompt_tokens=40)],
        prefilling=[(a_request(id=3, prompt_tokens=100), 64), (a_request(id=4, prompt_tokens=20), 0)],
        decoding=[(a_request(id=1, prompt_tokens=30), 1), (a_request(id=2, prompt_tokens=50), 7)],
        engine=Engine(token_budget=128),
        blocks=100,
    )
    assert (lane.waiting, lane.decoding, lane.running, lane.preempted) == (1, 2, 4, False)
    assert [(each.id, each.computed) for each in lane.prefilling] == [(3, 64), (4, 0)]
    assert [(each.id, each.computed, each.produced) for each in lane.decodes()] == [(1, 30, 1), (2, 56, 7)]
    assert [each.id for each in lane.queue()] == [5]
    assert not lane.steps
    check_replica(lane.replica, 0)
    lane.until = 0
    held = 2 + 4 + 4  # 30 and 56 tokens of decodes, 64 of a prompt, in blocks of 16
    assert lane.room(100 - held) and not lane.room(101 - held)
    entries = (Entry(3, 36), Entry(4, 20), Entry(5, 40))
    assert Chunked().batch(lane)[:2] == (entries, ALL)


def test_a_lane_goes_on_from_where_it_stands() -> None:
    """It is a real one: its replica can be run to the end."""
    lane = a_lane(decoding=[(a_request(prompt_tokens=30), 3)], output_tokens=5)
    lane.compose = Chunked().batch
    replica = lane.replica
    lane.start(0)
    assert lane.until == 2 * 10**10, "two steps of 0.01 s are left"
    assert [sequence.id for _, sequence in replica.turn(lane.until)] == [0]


def test_a_lane_finds_what_others_cached() -> None:
    shared = a_request(id=2, ids=(7,), prompt_tokens=64)
    lane = a_lane(waiting=[shared._replace(id=3, prompt_tokens=80)], prefilling=[(shared, 48)])
    (waiting,) = lane.queue()
    assert lane.cached(waiting) == 48


def test_lanes_of_an_engine_with_two() -> None:
    engine = Engine(lanes=(Lane("p", True, False, 0.5), Lane("d", False, True, 0.5)))
    lane = a_lane(prefilling=[(a_request(id=1), 16)], decoding=[(a_request(id=2), 1)], engine=engine)
    assert (lane.spec.name, lane.decoding, len(lane.prefilling)) == ("p", 0, 1)
    other = lane.replica.decode_lane
    other.start(0)
    assert other.decoding == 1


@pytest.mark.parametrize(
    ("situation", "message"),
    [
        ({"decoding": [(a_request(id=4), 0)]}, "request 4 decodes, so it has produced at least 1 token, not 0"),
        ({"prefilling": [(a_request(id=4), 100)]}, "request 4: 100 of 100 prompt tokens leave nothing to prefill"),
        ({"decoding": [(a_request(id=4), 1)], "blocks": 5}, "request 4 does not fit .* give more `blocks`"),
    ],
)
def test_a_situation_that_cannot_be_is_refused(situation: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        a_lane(**situation)  # type: ignore[arg-type]
