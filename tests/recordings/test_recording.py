"""From lines to requests: all that is told, and nothing that is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from poise.core.action import Dispatch, Refuse
from poise.core.errors import TraceError, UserError
from poise.core.event import (
    Arrived,
    Cancelled,
    Exchanged,
    Failed,
    Finished,
    FirstToken,
    Moved,
    Refused,
    ReplicaJoined,
    ReplicaLost,
    ReplicaUpdated,
)
from poise.core.records.header import header
from poise.core.records.trace import Trace
from poise.core.request import RequestView
from poise.core.spec import Belief, Fault, ReplicaSpec
from poise.core.units import SECOND
from poise.recordings.cluster import cluster_of, unknown
from poise.recordings.recording import recorded
from tests.recordings.days import a_day

COLUMNS = (
    "arrived_at",
    "dispatched_at",
    "first_token_at",
    "ended_at",
    "replica",
    "prompt_tokens",
    "output_tokens",
    "status",
)


@pytest.mark.parametrize("gateways", [1, 3])
def test_a_recorded_simulation_is_what_was_simulated(gateways: int) -> None:
    day = a_day(requests=300, belief=Belief(gateways=gateways))
    found = recorded(day.trace)
    for name in ("arrival", "prompt", "output"):
        assert (getattr(found.workload, name) == getattr(day.workload, name)).all()
    assert found.workload.prefixes is not None and day.workload.prefixes is not None
    for name in ("offsets", "ids", "ends"):
        assert (getattr(found.workload.prefixes, name) == getattr(day.workload.prefixes, name)).all()
    for name in COLUMNS:
        assert getattr(found.observed.records, name) == getattr(day.run.records, name)
    assert found.counts["finished"] == 300 and not found.resent.any() and found.fair.all()
    assert not found.notes and not found.faults


def a_trace(*content: Any, began: int = 100, part: int = 0, replicas: int = 2, **more: Any) -> Trace:
    specs = [ReplicaSpec(blocks=64)] * replicas
    head = header(specs, Belief(), {"router": {"least_requests": {}}}, began={"at": began}, part=part, **more)
    trace = Trace(head)
    for item in content:
        trace.add(item)
    return trace


def a_life(number: int, at: int, tokens: int = 5, **request: Any) -> list[Any]:
    view = RequestView(number, at, 20, **request)
    return [
        Arrived(at, view),
        Dispatch(number, 0, 0),
        FirstToken(at + 10, number, 0),
        Finished(at + 20, number, tokens),
    ]


def test_who_did_not_finish_is_counted_and_left_out() -> None:
    views = [RequestView(number, 100, 20) for number in range(9)]
    trace = a_trace(
        *a_life(8, 100),
        *[Arrived(100, view) for view in views[:6]],
        *[item for number in (0, 1, 2) for item in (Dispatch(number, 0, 0), FirstToken(150, number, 0))],
        Cancelled(160, 0, "left"),
        Cancelled(160, 1, "timed out"),
        Failed(170, 2, 0, "cut"),
        Refuse(3, "full"),
        Dispatch(4, 1, 1),
        Arrived(200, views[7]),
        Dispatch(7, 1, 1),
        Finished(210, 7, 4),  # its first token was never told
        Finished(220, 99, 5),
        *a_life(6, 300, tokens=0),
    )
    found = recorded(trace)
    assert found.counts == {
        "finished": 3, "rejected": 1, "timed_out": 1, "cancelled": 1, "lost": 1, "unfinished": 2, "uncounted": 2,
        "began_before": 1,
    }  # fmt: skip
    assert len(found.workload) == 1 and found.workload.arrival.tolist() == [0]


def test_edges_leave_out_what_met_others_that_are_not_there() -> None:
    lives = [item for number in range(40) for item in a_life(number, 100 + 10 * number)]
    cut = [Arrived(510, RequestView(50, 510, 20)), Dispatch(50, 0, 0)]
    assert recorded(a_trace(*lives)).edges == (0, 410)
    assert recorded(a_trace(*lives, *cut)).edges == (0, 390)
    part = recorded(a_trace(Finished(99, 77, 3), *lives, *cut, began=0, part=3))
    assert part.edges == (20, 391) and part.workload.arrival[0] == 1, "counted from its first line"
    assert part.fair.sum() == 38


def test_who_was_sent_again() -> None:
    view = RequestView(0, 100, 20)
    resumed = [
        Arrived(100, view),
        Dispatch(0, 0, 0),
        FirstToken(110, 0, 0),
        ReplicaLost(120, 0),
        Dispatch(0, 1, 1, True),
    ]
    tried = [Arrived(100, view), Dispatch(0, 0, 0), Refused(110, 0, 0, "busy", True), Dispatch(0, 1, 1)]
    moved = [Arrived(100, view), Dispatch(0, 0, 0), FirstToken(110, 0, 0), Moved(120, 0, 0, 1)]
    for expected, first in ((resumed, 10), (tried, 30), (moved, 10)):
        found = recorded(a_trace(*expected, FirstToken(130, 0, 1), Finished(200, 0, 9)))
        records = found.observed.records
        assert found.resent.tolist() == [True]
        assert (found.sent_at[0], records.first_token_at[0], records.ended_at[0]) == (0, first, 100)


def test_a_client_that_tries_again_is_one_request() -> None:
    view = RequestView(0, 100, 20)
    events = [Arrived(100, view), Refuse(0, "full"), Arrived(150, view, 1), Dispatch(0, 0, 0), FirstToken(160, 0, 0)]
    found = recorded(a_trace(*events, Finished(200, 0, 9)))
    assert found.counts["finished"] == 1 and not found.counts["rejected"]
    assert found.workload.arrival.tolist() == [0] and found.sent_at.tolist() == [50]


def test_extents_are_kept_as_they_are_or_numbered_anew() -> None:
    small = recorded(a_trace(*a_life(0, 100, ids=(7, 9), ends=(8, 16)))).workload.prefixes
    large = recorded(
        a_trace(*a_life(0, 100, ids=(7, 1 << 63), ends=(8, 16)), *a_life(1, 200, ids=(7, 5), ends=(8, 12)))
    ).workload.prefixes
    assert small is not None and small.ids.tolist() == [7, 9]
    assert large is not None and large.ids.tolist() == [0, 1, 0, 2]


def test_extents_that_contradict_others_are_cut_and_noted() -> None:
    found = recorded(
        a_trace(
            *a_life(0, 100, ids=(1, 2), ends=(8, 16)),
            *a_life(1, 200, ids=(1, 2, 3), ends=(8, 15, 20)),
            *a_life(2, 300, ids=(1, 4), ends=(8, 21)),
            *a_life(3, 400, ids=(2,), ends=(16,)),
        )
    )
    assert found.workload.prefixes is not None and found.workload.prefixes.counts.tolist() == [2, 1, 1, 0]
    assert found.notes == ["3 prompts have extents that do not fit together; they count as unshared from there on"]


def test_who_a_request_is_of() -> None:
    found = recorded(
        a_trace(
            *a_life(0, 100, session=1 << 40, tenant=3, lora=2, priority=-1, max_tokens=3, deadline_at=700, model=1),
            *a_life(1, 200, session=5, tenant=4, max_tokens=9),
            models=["a", "b"],
        )
    ).workload
    assert found.session is not None and found.session.tolist() == [0, 1]
    assert found.tenant is not None and found.tenant.tolist() == [3, 4]
    assert found.max_tokens is not None and found.max_tokens.tolist() == [5, 9], "an answer may be longer than told"
    assert found.deadline is not None and found.deadline.tolist() == [600, 0]
    assert found.priority is not None and found.priority.tolist() == [-1, 0]
    assert found.model is not None and found.model.tolist() == [1, 0] and found.models == ("a", "b")


def test_replicas_that_come_and_go() -> None:
    late = a_trace(replicas=3)
    late.header["replicas"][2]["up"] = False
    spec = ReplicaSpec(blocks=99)
    came = [
        ReplicaUpdated(100, 0, spec),
        ReplicaLost(SECOND + 100, 0),
        ReplicaJoined(SECOND + 100, 2),
        ReplicaLost(200, 1),
        ReplicaJoined(300, 1),
    ]
    for item in (*a_life(0, 100), *came):
        late.add(item)
    found = recorded(late)
    assert found.faults == (Fault(1.0, "lost", 0), Fault(1.0, "join", 2))
    assert found.notes == ["replica 1 went away and came back; the simulation has it there all along"]
    assert [replica.blocks for replica in found.replicas] == [99, 64, 64]


def test_events_of_each_gateway_happened_once() -> None:
    late = a_trace(replicas=2)
    late.header["belief"]["gateways"] = 2
    late.header["replicas"][1]["up"] = False
    for gateway in (0, 1):
        late.add(ReplicaJoined(SECOND + 100, 1), gateway)
    for item in a_life(0, 100):
        late.add(item, 1)
    late.add(ReplicaJoined(2 * SECOND + 100, 0))
    found = recorded(late)
    assert found.faults == (Fault(1.0, "join", 1),)
    assert found.observed.ended_at == 2 * SECOND


def test_nothing_to_read() -> None:
    with pytest.raises(TraceError, match=r"has 1 requests, and none that finished.*; give one"):
        recorded(a_trace(Arrived(100, RequestView(0, 100, 20))))


def test_answers_that_were_not_streamed_are_named_where_there_are_no_others() -> None:
    whole = [each for each in a_life(0, 100) if type(each) is not FirstToken]
    with pytest.raises(
        TraceError,
        match=r"has 1 requests, .*; 1 were not streamed, so their first token is not known: record some with stream",
    ):
        recorded(a_trace(*whole))


def test_a_cluster_is_what_the_header_says_of_it() -> None:
    day = a_day(requests=60, engine={"token_budget": 2048, "block_tokens": 32})
    cluster, specs = cluster_of(recorded(day.trace).replicas, day.trace.header)
    assert [pool.engine.token_budget for pool in cluster.pools] == [2048, 2048]
    assert cluster.pools[0].engine.kv_blocks == specs[0].blocks
    assert cluster.pools[0].model.max_context == specs[0].capacity_tokens
    assert not unknown(day.trace.header)
    cluster, specs = cluster_of(specs, {}, (Fault(1.0, "lost", 1),), 1)
    assert len(cluster.pools) == len(specs) == 1 and not cluster.faults
    assert cluster_of(specs, {}, count=3)[1] == specs * 3
    assert unknown({}) == ["token_budget", "max_sequences", "block_tokens", "prefix_caching", "reserve_prompt"]
    with pytest.raises(UserError, match="--replicas 0"):
        cluster_of(specs, {}, count=0)
    with pytest.raises(TraceError, match="engine x has 2 lanes"):
        cluster_of(specs, {"engines": [{"name": "x", "lanes": [{}, {}]}]})


def test_latencies_are_in_picoseconds_from_the_beginning() -> None:
    day = a_day(requests=60)
    assert np.asarray(recorded(day.trace).observed.records.ended_at).max() == day.run.ended_at


def test_policies_that_were_exchanged_are_noted() -> None:
    """Figures are of all of it, and the header names the policies of its beginning alone."""
    change = Exchanged(100 + 2 * SECOND, {"router": {"prefix_cache": {}}, "order": None})
    found = recorded(a_trace(*a_life(0, 100), change, *a_life(1, 100 + 3 * SECOND)))
    (note,) = found.notes
    assert note.startswith("policies were exchanged at 2.0 s (router, order); the recorded ones are those until then")
    assert len(found.workload) == 2
