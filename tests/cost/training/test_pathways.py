"""Pathways: dispatch by closed forms, and gangs against the proof of a Program."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.errors import ProgramError
from poise.cost.training.pathways import blocked, chain_s, deadlocks, masked_s
from poise.program import Task
from poise.program.content import Content
from poise.program.program import Builder
from poise.program.task import at

seconds = st.floats(0, 10)


@given(st.integers(1, 50), seconds, seconds, seconds)
def test_dispatch_has_its_closed_forms(nodes: int, compute_s: float, host_s: float, hop_s: float) -> None:
    times = {way: chain_s(nodes, compute_s, host_s, hop_s, way) for way in ("multi", "parallel", "sequential")}
    assert times["parallel"] == pytest.approx(hop_s + host_s + nodes * compute_s)
    assert times["multi"] == pytest.approx(host_s + nodes * compute_s)
    slower = max(compute_s, host_s + hop_s)
    assert times["sequential"] == pytest.approx(hop_s + host_s + (nodes - 1) * slower + compute_s)


@given(st.integers(1, 512), st.integers(1, 512), seconds)
def test_what_is_masked_grows_with_hosts(one: int, more: int, fixed_s: float) -> None:
    assert masked_s(one + more, 1e-4, fixed_s) - masked_s(one, 1e-4, fixed_s) == pytest.approx(more * 1e-4)


def runs(queues: list[list[int]]) -> bool:
    """The same by a Program: each queue is the lane of one rank, each number an all-reduce of all ranks."""
    ranks, made = tuple(range(len(queues))), Builder()
    for rank, queue in enumerate(queues):
        for number in queue:
            made.give(at(f"g{number}", rank), Content({}))
            name = at(f"s{number}", rank)
            made.add(Task("all_reduce", rank, "group", (at(f"g{number}", rank),), (name,), 0.0, ranks, number))
    try:
        made.build().prove()
    except ProgramError:
        return False
    return True


@given(st.integers(2, 4), st.data())
def test_queues_block_where_the_proof_of_a_program_refuses_them(programs: int, data: st.DataObject) -> None:
    orders = st.permutations(range(programs))
    queues = data.draw(st.lists(orders, min_size=2, max_size=3))
    assert blocked(queues) != runs(queues)


def test_gangs_never_block() -> None:
    assert deadlocks(4, 4, gang=True, seed=0) == 0 < deadlocks(2, 2, gang=False, seed=0) < 1
