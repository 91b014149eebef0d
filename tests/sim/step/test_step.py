"""One training step: equal to the plain timing where links are free, and closed forms where they are not."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.core.units import SECOND
from poise.pipeline import B, Costs, F, Schedule, make, names, time
from poise.pipeline.text import read_text
from poise.sim.step import Step, Traffic, Wiring, simulate_step

BASIC = ("gpipe", "one_f_one_b", "interleaved", "breadth_first", "zb_h1", "zb_v", "v_half", "hanayo", "dualpipe_v")


TWO = make("gpipe", 2, 2)


def free(ranks: int) -> Wiring:
    return Wiring.nodes(ranks, ranks, scaleup_bw=1e9, scaleout_bw=1e9)


def one_by_one(ranks: int, bandwidth: float = 1.0, latency_s: float = 0.0) -> Wiring:
    """Every rank a node with a NIC of its own."""
    return Wiring.nodes(ranks, 1, scaleup_bw=1.0, scaleout_bw=bandwidth, latency_s=(0.0, latency_s))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(BASIC), st.lists(st.integers(1, 9), min_size=12, max_size=12), st.integers(0, 5))
def test_without_bytes_it_is_the_plain_timing(name: str, work: list[int], latency: int) -> None:
    assert name in names()
    schedule = make(name, 4, 8)
    f, b, w = (work[at : at + 4] for at in (0, 4, 8))
    timing = time(schedule, Costs.of(f, b, w, latency))
    step = simulate_step(schedule, Costs.of(f, b, w), Traffic(), one_by_one(4, latency_s=float(latency)))
    assert step.makespan_s == pytest.approx(float(timing.makespan), rel=1e-9)
    assert step.busy_s == pytest.approx([float(busy) for busy in timing.busy], rel=1e-9)


TWICE = "0F0 0OFFLOAD0 0F1 0RELOAD0 0F2 0OFFLOAD1 0B0 0RELOAD1 0B1 0B2"
SHARDS = "# barriers {}\n0F0 0F1 0S0 0T0 0S1 0B0 0T1 0B1\n1F0 1S0 1F1 1T0 1B0 1S1 1T1 1B1"


@pytest.mark.parametrize(
    ("text", "costs"),
    [
        ("0F0 0F1 0OFFLOAD0 0F2 0B1 0RELOAD0 0B2 0B0", Costs.of(offload=2, reload=3)),
        (
            "0F0 0OFFLOAD0 0F1 0RELOAD0 0F2 0OFFLOAD1 0B0 0RELOAD1 0B1 0B2",
            Costs.of(offload=4, reload=4, shared_copy=True),
        ),
        ("0F0 0F1 0R0 0B0 0R1 0B1", Costs.of(f=2, r=1)),
        (SHARDS.format(1), Costs.of(s=1, t=1, barrier=1)),
        (SHARDS.format(2), Costs.of(s=1, t=1, barrier=1, microbatch=[1, 2])),
    ],
)
def test_copies_recomputation_and_barriers_are_those_of_the_plain_timing(text: str, costs: Costs) -> None:
    schedule = read_text(text)
    timing = time(schedule, costs)
    step = simulate_step(schedule, costs, Traffic(), free(len(schedule.ranks)))
    assert [at // SECOND for at in step.ends] == [at // timing.scale for at in timing.ends]
    assert step.makespan_s == timing.makespan


def test_a_message_takes_its_bytes_and_its_latency() -> None:
    schedule = Schedule.of([[F(0, 0), B(0, 0)], [F(1, 0), B(1, 0)]])
    step = simulate_step(schedule, Costs(), Traffic(message_bytes=4.0), one_by_one(2, 2.0, 0.5))
    assert step.makespan_s == 1 + 2.5 + 1 + 2 + 2.5 + 2
    assert step.exposed_s == [2.5, 2.5]
    assert [(each.what, each.rank, each.peer) for each in step.transfers] == [("0F0", 0, 1), ("1B0", 1, 0)]


def test_messages_share_a_nic() -> None:
    """Two pairs of ranks on two nodes with one NIC each: both messages at once take twice as long."""
    rows = [[F(0, 0), B(0, 0)], [F(0, 1), B(0, 1)], [F(1, 0), B(1, 0)], [F(1, 1), B(1, 1)]]
    schedule = Schedule.of(rows)
    alone = Wiring.nodes(4, 2, scaleup_bw=1.0, scaleout_bw=1.0)
    shared = Wiring.nodes(4, 2, scaleup_bw=1.0, scaleout_bw=1.0, ranks_per_nic=2)
    traffic = Traffic(message_bytes=1.0)
    costs = Costs.of("0.5", "0.5", "0.5")  # of full stages, of which two stages on four ranks are two each
    assert simulate_step(schedule, costs, traffic, alone).makespan_s == 1 + 1 + 1 + 2 + 1 + 2
    assert simulate_step(schedule, costs, traffic, shared).makespan_s == 1 + 2 + 1 + 2 + 2 + 2


def test_gradients_and_optimizer_follow_the_last_backward() -> None:
    step = simulate_step(
        make("one_f_one_b", 4, 8), Costs(), Traffic(sync_bytes=2.0, optimizer_s=0.5, update_bytes=1.0), one_by_one(4)
    )
    ends = [3 * (8 + 3) - 2 * rank for rank in range(4)]  # of the last backwards: 2 later on each rank before
    assert step.finish == [round((end + 2 + 0.5 + 1) * SECOND) for end in ends]
    assert step.exposed_s == [3.0] * 4
    assert step.bubble_s == step.makespan_s - 3 * 8 - 0.5


def test_a_reduction_hides_behind_what_is_left() -> None:
    """Of two chunks on a rank the last one's gradients are there first, while the first one's are still computed."""
    schedule = make("breadth_first", 2, 4, chunks=2)
    none = simulate_step(schedule, Costs(), Traffic(), one_by_one(2))
    with_them = simulate_step(schedule, Costs(), Traffic(sync_bytes=1.0), one_by_one(2))
    assert with_them.makespan_s == none.makespan_s + 1  # not + 2


def test_weights_are_gathered_once_a_run() -> None:
    """Breadth-first gathers each chunk once a direction, and the last one only once (Lamy-Poirier 2023, section 4)."""

    def gathers(step: Step, rank: int) -> int:
        return sum(each.kind == "gather" and each.rank == rank for each in step.transfers)

    traffic = Traffic(gather_bytes=0.1)
    broad = simulate_step(make("breadth_first", 4, 16, chunks=2), Costs(), traffic, one_by_one(4))
    deep = simulate_step(make("interleaved", 4, 16, chunks=2), Costs(), traffic, one_by_one(4))
    assert [gathers(broad, rank) for rank in range(4)] == [2 * 2 - 1] * 4
    assert all(gathers(deep, rank) > 16 // 4 * 2 for rank in range(4))


def test_a_gather_hides_behind_the_run_before() -> None:
    schedule = make("breadth_first", 1, 4, chunks=2)
    shown = simulate_step(schedule, Costs.of(2, 2, 2), Traffic(gather_bytes=3.0), one_by_one(1))
    assert shown.exposed_s == [3.0]  # the first one; the others take less than four forwards
    assert shown.makespan_s == 2 * 4 * 3 + 3


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(BASIC), st.floats(0.1, 3), st.floats(0.1, 3), st.integers(1, 4))
def test_every_message_is_sent_once_and_no_link_carries_more_than_it_can(
    name: str, size: float, sync: float, shared: int
) -> None:
    schedule = make(name, 4, 8)
    wiring = Wiring.nodes(4, 2, scaleup_bw=2.0, scaleout_bw=1.0, ranks_per_nic=min(shared, 2))
    step = simulate_step(schedule, Costs(), Traffic(message_bytes=size, sync_bytes=sync), wiring)
    messages = [each for each in step.transfers if each.kind == "message"]
    assert len({(each.what, each.rank) for each in messages}) == len(messages) == schedule.check().messages
    carried = [0.0] * len(wiring.bytes_per_s)
    for each in step.transfers:
        path = wiring.path(each.rank, each.peer) if each.kind == "message" else wiring.outside(each.rank)
        for link in path:
            carried[link] += size if each.kind == "message" else sync
    assert all(
        sent <= speed * step.makespan_s * (1 + 1e-9) for sent, speed in zip(carried, wiring.bytes_per_s, strict=True)
    )
    assert step.makespan_s >= float(time(schedule).makespan) * (1 - 1e-9)


def test_measured_links_are_each_pair_s_own() -> None:
    schedule = Schedule.of([[F(0, 0), B(0, 0)], [F(1, 0), B(1, 0)]])
    wiring = Wiring.measured([[0, 4.0], [2.0, 0]])
    step = simulate_step(schedule, Costs(), Traffic(message_bytes=4.0), wiring)
    assert step.makespan_s == 1 + 1 + 1 + 2 + 2 + 2
    with pytest.raises(ScheduleError, match="diagonal"):
        simulate_step(schedule, Costs(), Traffic(sync_bytes=1.0), wiring)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate_step(TWO, Costs.of([1, 2, 3]), Traffic(), free(2)), "f: 3 values for 2 stages"),
        (lambda: simulate_step(TWO, Costs(), Traffic(-1.0), free(2)), "message_bytes: -1 is negative"),
        (lambda: simulate_step(TWO, Costs(), Traffic(sync_bytes=[1.0]), free(2)), "sync_bytes: 1 values for 2 stages"),
        (lambda: simulate_step(TWO, Costs(), Traffic(), free(3)), "3 ranks for a schedule of 2"),
        (lambda: Wiring.nodes(2, scaleup_bw=0, scaleout_bw=1), "must be above 0"),
        (lambda: Wiring.measured([[0, 1], [0, 0]]), "from rank 1 to rank 0"),
    ],
)
def test_what_cannot_be(call: Callable[[], object], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        call()
