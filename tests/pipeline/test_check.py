"""The proof refuses every schedule that would not run or would train wrongly, and says where it is wrong."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Kind, Op, Schedule, Weights, check, make, names
from poise.pipeline.communicate import communicate
from poise.pipeline.op import MESSAGES
from poise.pipeline.text import read_text

from .cases import schedules


def text(*rows: str) -> Schedule:
    return read_text("\n".join(rows))


def changed(schedule: Schedule, rank: int, row: list[Op]) -> Schedule:
    rows = list(schedule.ranks)
    rows[rank] = tuple(row)
    return replace(schedule, ranks=tuple(rows))


@settings(max_examples=150, deadline=None)
@given(schedules)
def test_what_runs_is_proven_with_and_without_messages(schedule: Schedule) -> None:
    bare, full = check(schedule), check(communicate(schedule))
    assert bare == full
    sent = sum(op.kind in (Kind.SEND_F, Kind.SEND_B) for row in communicate(schedule).ranks for op in row)
    assert sent == bare.messages
    assert communicate(schedule).compute() == schedule


@settings(max_examples=150, deadline=None)
@given(schedules, st.data())
def test_a_lost_or_doubled_operation_is_named(schedule: Schedule, data: st.DataObject) -> None:
    full = data.draw(st.sampled_from([schedule, communicate(schedule)]))
    rank = data.draw(st.integers(0, len(full.ranks) - 1))
    slot = data.draw(st.integers(0, len(full.ranks[rank]) - 1))
    row = list(full.ranks[rank])
    lost = changed(full, rank, row[:slot] + row[slot + 1 :])
    if lost.communicates == full.communicates:  # else its only reduction was lost, which then follows again
        with pytest.raises(ScheduleError):
            check(lost)
    with pytest.raises(ScheduleError, match=r"repeats|has no|nothing left|comes before"):
        check(changed(full, rank, [*row, row[slot]]))


@settings(max_examples=150, deadline=None)
@given(schedules, st.data())
def test_two_receives_of_one_sender_may_not_be_swapped(schedule: Schedule, data: st.DataObject) -> None:
    """PyTorch runs such a schedule to its end, with wrong gradients."""
    full = communicate(schedule)
    home = {(op.stage, op.microbatch): rank for rank, row in enumerate(full.ranks) for op in row if op.kind is Kind.F}
    pairs = [
        (rank, one, two)
        for rank, row in enumerate(full.ranks)
        for one, two in _receives(row, home)
    ]  # fmt: skip
    if not pairs:
        return
    rank, one, two = data.draw(st.sampled_from(pairs))
    row = list(full.ranks[rank])
    row[one], row[two] = row[two], row[one]
    with pytest.raises(ScheduleError, match=rf"and {rank}: message|stands before it"):
        check(changed(full, rank, row))


def _receives(row: tuple[Op, ...], home: dict[tuple[int, int | None], int]) -> list[tuple[int, int]]:
    """Pairs of receives that follow one another from the same sender."""
    found, last = [], {}
    for slot, op in enumerate(row):
        if op.kind in (Kind.RECV_F, Kind.RECV_B):
            sender = home[op.stage + (1 if op.kind is Kind.RECV_B else -1), op.microbatch]
            if sender in last:
                found.append((last[sender], slot))
            last[sender] = slot
    return found


def test_swapped_receives_name_the_pair() -> None:
    full = communicate(make("one_f_one_b", 2, 3))
    row = list(full.ranks[1])
    one, two = row.index(Op(1, Kind.RECV_F, 0)), row.index(Op(1, Kind.RECV_F, 1))
    row.insert(1, row.pop(two))
    row[one], row[1] = row[1], row[one]
    with pytest.raises(
        ScheduleError, match=r"ranks 0 and 1: message 0 is sent by 0SEND_F0 .* but received by 1RECV_F1"
    ):
        check(changed(full, 1, row))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("0F0 0B0 0F1", "1F0 1B0 1F1 1B1"), "0B1 never runs: stage 0 .rank 0. has no backward of microbatch 1"),
        (("0F0 0B0", "1F0 1B0 1F1 1B1"), "0F1 never runs"),
        (("0F0 0B0 0F999999999", "1F0 1B0"), "0F1 never runs: 5 operations are too few for 2 stages and 1000000000"),
        (("0F0 0I0", "1F0 1B0"), "0W0 never runs: stage 0 .rank 0. has no weight gradient"),
        (("0F0 0B0 0B0", "1F0 1B0"), "rank 0, slot 2: 0B0 repeats 0B0"),
        (("0F0 0I0 0B0 0W0", "1F0 1B0"), "repeats|beside an I"),
        (("0F0 0W0 0I0", "1F0 1B0"), "0W0 .rank 0, slot 1. comes before 0I0"),
        (("0B0 0F0", "1F0 1B0"), "0B0 .rank 0, slot 0. comes before 0F0"),
        (("0F0", "1F0 1B0 0B0"), "0B0 .rank 1, slot 2. is not on the rank of 0F0"),
        (("0F0 0B0 0F1 0B1", "1F1 1F0 1B0 1B1"), "deadlock: .*1F1 .rank 1, slot 0. waits for 0F1"),
        (("0F0 2F0 2B0 0B0 0F1 2F1 2B1 0B1", "1F1 1F0 1B0 1B1"), "deadlock: .*waits for .*move"),
    ],
)
def test_faults_are_named(rows: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(text(*rows))


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (("0F0 0SEND_F0 0RECV_B0 0B0", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "0REDUCE_GRAD is missing on rank 0"),
        (("0F0 0SEND_F0 0RECV_B0 0REDUCE_GRAD 0B0", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "comes before 0B0"),
        (("0SEND_F0 0F0 0RECV_B0 0B0 0REDUCE_GRAD", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "makes what it sends"),
        (("0F0 0SEND_F0 0B0 0RECV_B0 0REDUCE_GRAD", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "no 0RECV_B0 stands"),
        (("0F0 0RECV_B0 0B0 0REDUCE_GRAD", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "1RECV_F0 .* has no send"),
        (
            ("0F0 0SEND_F0 0SEND_B0 0RECV_B0 0B0 0REDUCE_GRAD", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"),
            "no other rank",
        ),
        (("0F0 1SEND_F0 0RECV_B0 0B0 0REDUCE_GRAD", "1RECV_F0 1F0 1B0 1SEND_B0 1REDUCE_GRAD"), "on another rank"),
    ],
)
def test_faulty_messages_are_named(rows: tuple[str, ...], message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(text(*rows))


def test_deadlock_only_where_sends_wait() -> None:
    """Both ranks send before they receive: well with buffers, and a hang with large messages."""
    rows = (
        "0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0RECV_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0 1F0 1B0 1SEND_B0 1RECV_F1 1F1 1B1 1SEND_B1 1REDUCE_GRAD",
    )
    with pytest.raises(ScheduleError, match=r"deadlock where sends wait .*rank 0 at 0SEND_F1 .*rank 1 at 1SEND_B0"):
        check(text(*rows))


def test_deadlock_even_with_buffers() -> None:
    rows = (
        "0F0 0SEND_F0 0RECV_B0 0F1 0SEND_F1 0B0 0RECV_B1 0B1 0REDUCE_GRAD",
        "1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1B1 1SEND_B1 1REDUCE_GRAD",
    )
    with pytest.raises(ScheduleError, match="deadlock even with buffered sends"):
        check(text(*rows))


def test_memory_is_held_to_its_limit_at_every_instant() -> None:
    schedule = make("one_f_one_b", 4, 8)
    check(schedule, memory_limit=4)
    with pytest.raises(ScheduleError, match=r"0F3 .rank 0, slot 3. takes rank 0 to 4 .* of 3.5; the schedule needs 4"):
        check(schedule, memory_limit=3.5)
    assert schedule.check(4).peak_memory == (4, 3, 2, 1)


def test_an_operation_needs_a_microbatch() -> None:
    with pytest.raises(ScheduleError, match="0F has no microbatch; only REDUCE_GRAD, UNSHARD, RESHARD do without"):
        check(Schedule(((Op(0, Kind.F, None), Op(0, Kind.B, 0)),), 1, 1))


def test_memory_by_weights() -> None:
    schedule = make("zb_h1", 4, 8)
    half = check(schedule, weights=Weights(kept=Fraction(1, 2))).peak_memory
    assert half == (4, Fraction(7, 2), 3, Fraction(5, 2)), "the input gradient frees half"
    assert check(schedule, weights=Weights((Fraction(2),) * 4)).peak_memory == (8, 8, 8, 8)


@pytest.mark.parametrize("name", names())
def test_every_schedule_is_proven_with_its_messages(name: str) -> None:
    for stages, microbatches in ((2, 4), (4, 8), (6, 12), (4, 16)):
        schedule = make(name, stages, microbatches)
        full = communicate(schedule)
        assert check(full) == check(schedule)
        for row in full.ranks:
            assert {op.kind for op in row if op.kind in MESSAGES} <= MESSAGES


def test_skipped_stages_pass_the_microbatch_on() -> None:
    schedule = read_text("# path 1: 0 2\n0F0 0F1 0B1 0B0\n1F0 1B0\n2F1 2F0 2B1 2B0")
    assert check(schedule).messages == 6
    with pytest.raises(ScheduleError, match="1F1 never runs"):
        check(replace(schedule, paths=None))
    with pytest.raises(ScheduleError, match="is to be skipped"):
        check(replace(schedule, paths=((0, 2), (0, 2))))


def test_a_rank_without_operations_is_named() -> None:
    """It is allowed, since nothing waits for it."""
    assert check(read_text("0F0 0B0\n\n")).idle == (1,)
    assert check(read_text("0F0 0B0\n1F0 1B0")).idle == ()
