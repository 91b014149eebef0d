"""The belief: what reports say, late, and what was sent since they were measured."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.control.prefix_index import PrefixIndex
from poise.core.control.state import DRAINING, GONE, SERVING, STARTING, State
from poise.core.errors import PolicyError
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec
from poise.core.view import REPORTED


def a_request(number: int = 0, prompt: int = 10, model: int = 0, ids: tuple[int, ...] = ()) -> RequestView:
    return RequestView(
        number, 0, prompt, model=model, ids=ids, ends=tuple(4 * (place + 1) for place in range(len(ids)))
    )


def a_state(*needs: str, replicas: int = 2, **belief: object) -> State:
    return State([ReplicaSpec()] * replicas, Belief(**belief), needs)  # type: ignore[arg-type]


def test_only_what_is_needed_is_reported() -> None:
    assert a_state().reported == ()
    assert a_state("free_blocks", "waiting").reported == ("waiting", "free_blocks")
    assert a_state("requests", "tokens").reported == ("tokens",), "dispatches in flight tell the requests"
    assert a_state("requests", "tokens", in_flight=False).reported == ("requests", "tokens")
    assert a_state("requests").prefix is None
    assert a_state("cached_tokens").prefix is not None


def test_roles_follow_what_is_known_of_a_replica() -> None:
    state = State([ReplicaSpec(), ReplicaSpec(role="prefill")], Belief(), ())
    assert state.roles == ["mixed", "prefill"]
    state.know(0, ReplicaSpec(role="decode"))
    assert state.roles == ["decode", "prefill"]


def test_a_column_that_does_not_exist_cannot_be_needed() -> None:
    with pytest.raises(PolicyError, match=r"needs \['queue'\]; the cluster view has .*'requests', 'tokens'"):
        a_state("tokens", "queue")


Step = tuple[str, int, int]
steps = st.lists(
    st.one_of(
        st.tuples(st.just("pass"), st.integers(1, 9), st.just(0)),
        st.tuples(st.just("send"), st.integers(0, 1), st.integers(1, 30)),
        st.tuples(st.just("report"), st.integers(0, 12), st.integers(0, 99)),
    ),
    max_size=30,
)


@given(steps, st.booleans())
def test_belief_is_the_last_report_and_what_was_sent_since(expected: list[Step], in_flight: bool) -> None:
    """A report shows how things were when it was measured; only the own dispatches since then are known besides."""
    state = a_state("requests", "tokens", "queued_tokens", "waiting", "running", in_flight=in_flight)
    now = measured_at = 0
    base = [0, 0]
    history: list[tuple[int, int, int]] = []
    for what, first, second in expected:
        if what == "pass":
            now += first
        elif what == "send":
            state.sent(now, a_request(prompt=second), first)
            history.append((now, first, second))
        else:
            measured_at, base = max(measured_at, now - first), [second, second + 1]
            state.report(measured_at, {name: list(base) for name in state.reported}, ())
        for replica in (0, 1):
            since = [prompt for at, number, prompt in history if number == replica and at >= measured_at and in_flight]
            assert state.tokens[replica] == base[replica] + sum(since)
            assert state.queued_tokens[replica] == base[replica] + sum(since)
            assert state.waiting[replica] == base[replica] + len(since)
            assert state.running[replica] == base[replica]
            flights = sum(number == replica for _, number, _ in history)
            assert state.requests[replica] == (flights if in_flight else base[replica])


def test_what_ended_leaves_requests_and_tokens_but_never_below_nothing() -> None:
    state = a_state("requests", "tokens", "queued_tokens")
    state.report(5, {name: [8, 0] for name in state.reported}, ())
    state.sent(6, a_request(prompt=10), 0)
    assert (state.requests[0], state.tokens[0], state.queued_tokens[0]) == (1, 18, 18)
    state.ended(7, a_request(prompt=10), 0)
    assert (state.requests[0], state.tokens[0], state.queued_tokens[0]) == (0, 8, 18), (
        "only a report tells what was computed"
    )
    state.ended(8, a_request(prompt=10), 0)
    assert state.tokens[0] == 0


columns = st.lists(
    st.builds(
        ReplicaSpec,
        st.integers(-1, 1),
        st.sampled_from(["mixed", "prefill", "decode"]),
        st.integers(1, 60),
        up=st.booleans(),
        tenants=st.lists(st.integers(0, 2), max_size=2).map(tuple),
    ),
    min_size=1,
    max_size=6,
)
statuses = st.lists(st.tuples(st.integers(0, 5), st.sampled_from([STARTING, SERVING, DRAINING, GONE])), max_size=5)


@given(columns, statuses, st.integers(0, 1), st.integers(1, 60), st.integers(-1, 2))
def test_able_is_who_serves_the_model_in_this_stage_is_up_and_can_hold_it(
    replicas: list[ReplicaSpec], changes: list[tuple[int, int]], model: int, prompt: int, tenant: int
) -> None:
    state = State(replicas, Belief(), ())
    status = [SERVING if replica.up else STARTING for replica in replicas]
    request = a_request(prompt=prompt, model=model)._replace(tenant=tenant)
    named = any(tenant in replica.tenants for replica in replicas)
    for number, change in [(0, status[0]), *changes]:
        state.set_status(number % len(replicas), change)
        status[number % len(replicas)] = change
        for able, roles in ((state.able, ("mixed", "prefill")), (state.partners, ("decode",))):
            assert list(able(request)) == [
                index
                for index, replica in enumerate(replicas)
                if status[index] == SERVING
                and replica.role in roles
                and replica.model in (-1, model)
                and (tenant in replica.tenants if named else not replica.tenants)
                and replica.capacity_tokens >= prompt + 1
            ]


@pytest.mark.parametrize(
    ("replicas", "prompt", "reason"),
    [
        ([ReplicaSpec(model=1)], 10, "no replica serves model 0"),
        ([ReplicaSpec(role="decode")], 10, "no replica serves model 0"),
        (
            [ReplicaSpec(capacity_tokens=10), ReplicaSpec(capacity_tokens=8)],
            10,
            "10 tokens",
        ),
        ([ReplicaSpec(capacity_tokens=11)], 10, ""),
        ([ReplicaSpec(up=False)], 10, ""),
    ],
)
def test_a_request_that_no_replica_will_ever_take_is_hopeless(
    replicas: list[ReplicaSpec], prompt: int, reason: str
) -> None:
    hopeless = State(replicas, Belief(), ()).hopeless(a_request(prompt=prompt))
    assert reason in hopeless if reason else not hopeless


def test_a_request_fits_to_the_last_token() -> None:
    state = State([ReplicaSpec(capacity_tokens=5), ReplicaSpec(capacity_tokens=11), ReplicaSpec()], Belief(), ())
    assert list(state.able(a_request(prompt=10))) == [1, 2]
    assert list(state.able(a_request(prompt=11))) == [2]


def test_who_is_gone_has_nothing_left() -> None:
    state = a_state("requests", *REPORTED, "cached_tokens")
    state.report(0, {name: [3, 4] for name in state.reported}, ())
    state.sent(1, a_request(ids=(5,)), 0)
    state.set_status(0, GONE)
    assert all(getattr(state, name)[0] == 0 for name in ("requests", *REPORTED))
    assert state.tokens[1] == 4
    assert state.cached_tokens(a_request(ids=(5,))) == [0, 0]


def test_the_own_index_knows_what_was_sent_where() -> None:
    state = a_state("cached_tokens", prefix="own")
    state.sent(1, a_request(ids=(5, 6)), 1)
    assert state.cached_tokens(a_request(ids=(5, 6, 7))) == [0, 8]
    assert state.cached_tokens(a_request()) == [0, 0]


def test_the_reported_index_knows_what_reports_say() -> None:
    state = a_state("cached_tokens", prefix="reported")
    state.sent(1, a_request(ids=(5,)), 1)
    assert state.cached_tokens(a_request(ids=(5,))) == [0, 0]
    state.report(2, {}, ((0, 5, True), (1, 5, True), (1, 5, False)))
    assert state.cached_tokens(a_request(ids=(5,))) == [4, 0]


def test_the_oracle_index_is_the_one_that_was_given() -> None:
    index = PrefixIndex(2)
    state = State([ReplicaSpec()] * 2, Belief(prefix="oracle"), ("cached_tokens",), index)
    index.add(1, 5)
    assert state.cached_tokens(a_request(ids=(5,))) == [0, 4]
