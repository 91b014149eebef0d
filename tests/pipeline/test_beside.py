"""Recomputing, copies to the host, vocabulary passes, paths and versions: the rules, the times and the memory."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import pytest

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Schedule, Weights, check, make, time
from poise.pipeline.communicate import communicate
from poise.pipeline.csv import write_csv
from poise.pipeline.text import parse_json, read_text, write_json, write_text

COPIED = "0F0 0F1 0OFFLOAD0 0F2 0B1 0RELOAD0 0B2 0B0"
SHARDS = "# barriers {}\n0F0 0F1 0S0 0T0 0S1 0B0 0T1 0B1\n1F0 1S0 1F1 1T0 1B0 1S1 1T1 1B1"


def text(*rows: str) -> Schedule:
    return read_text("\n".join(rows))


def test_copies_run_beside_and_are_waited_for() -> None:
    """Away: from the end of F0 at 1, two units, while F1 runs; back: from 6 on, while B2 runs, which ends at 8."""
    timing = time(text(COPIED), Costs.of(f=1, b=1, w=1, offload=2, reload=3))
    assert [(start, end) for _, start, end in timing.copies] == [(1, 3), (6, 9)]
    assert timing.starts == [0, 1, 3, 3, 4, 6, 6, 9] and timing.makespan == 11
    assert timing.busy == [9] and timing.bubble_span == 2
    assert timing.memory.levels.tolist() == [1, 2, 1, 2, 1, 2, 1, 0]


def test_one_copy_at_a_time_on_a_shared_link() -> None:
    rows = "0F0 0OFFLOAD0 0F1 0RELOAD0 0F2 0OFFLOAD1 0B0 0RELOAD1 0B1 0B2"
    apart, shared = (time(text(rows), Costs.of(offload=4, reload=4, shared_copy=each)) for each in (False, True))
    assert [(each.start, each.end) for each in apart.copies] == [(1, 5), (6, 10), (6, 10), (12, 16)]
    assert [(each.start, each.end) for each in shared.copies] == [(1, 5), (6, 10), (10, 14), (16, 20)]


def test_recomputed_stages_hold_their_input_in_between() -> None:
    schedule = text("0F0 0F1 0R0 0B0 0R1 0B1")
    held = check(schedule, weights=Weights(boundary=Fraction(1, 8)))
    assert held.peak_memory == (Fraction(9, 8),)
    timing = time(schedule, Costs.of(f=2, r=1))
    assert timing.makespan == 2 * 2 + 2 * 1 + 2 * 2
    assert time(schedule, Costs.of(f=2)).makespan == 2 * 2 + 2 * 2 + 2 * 2
    assert timing.memory.highest.tolist() == [1, 1, 1, 1, 1, 1] and timing.memory.levels.tolist() == [0, 0, 1, 0, 1, 0]
    assert timing.held(0) == [(0, 1), (2, 0), (2, 1), (4, 0), (4, 1), (7, 0), (7, 1), (10, 0)]


@pytest.mark.parametrize(("barriers", "ends"), [(1, 14), (2, 16)])
def test_barriers_wait_for_the_last_shard(barriers: int, ends: int) -> None:
    schedule = read_text(SHARDS.format(barriers))
    timing = time(schedule, Costs.of(s=1, t=1, barrier=1))
    assert timing.makespan == ends
    assert check(schedule).messages == 4


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ("0F0 0B0 0R0", r"0B0 .rank 0, slot 1. comes before 0R0"),
        ("0R0 0F0 0B0", r"0R0 .rank 0, slot 0. comes before 0F0"),
        ("0F0 0OFFLOAD0 0B0", "0OFFLOAD0 .rank 0, slot 1. has no RELOAD"),
        ("0F0 0RELOAD0 0B0", "0RELOAD0 .* what no OFFLOAD has taken away"),
        ("0F0 0RELOAD0 0OFFLOAD0 0B0", "0RELOAD0 .rank 0, slot 1. comes before 0OFFLOAD0"),
        ("0F0 0OFFLOAD0 0R0 0RELOAD0 0B0", "0OFFLOAD0 .rank 0, slot 1. comes before 0R0"),
        ("0F0 0OFFLOAD0 0B0 0RELOAD0", "0B0 .rank 0, slot 2. comes before 0RELOAD0"),
        ("0F0 0B0 0F1 0B1\n0R0 1F0 1B0 1F1 1B1", "is not on the rank of|0F0 .rank 0, slot 0."),
        ("0F0 0S0 0T0 0B0", "0S0 .rank 0, slot 1. is a vocabulary pass; say barriers"),
        ("# barriers 3\n0F0 0S0 0T0 0B0", "3 barriers; vocabulary passes have 1 or 2"),
        ("# barriers 1\n0F0 0S0 0B0", "0T0 never runs on rank 0"),
        ("# barriers 1\n0F0 0B0", "0S0 never runs on rank 0"),
        ("# barriers 1\n0F0 0T0 0S0 0B0", "0T0 .rank 0, slot 1. comes before 0S0"),
        ("# barriers 1\n0F0 1S0 0T0 0B0\n1F0 0S0 1T0 1B0", "1S0 .rank 0, slot 1. is of shard 1, which rank 1 has"),
        ("# barriers 2\n0F0 0S0 0T0 0B0\n1F0 1S0 1B0 1T0", "deadlock: 1B0 .* waits for the barrier behind T0, .*1T0"),
        (
            "# barriers 1\n0F0 0F1 0S1 0S0 0T0 0T1 0B0 0B1\n1F0 1F1 1S0 1S1 1T0 1T1 1B0 1B1",
            "rank 1 runs 1S0 where rank 0 runs 0S1; the barrier behind S",
        ),
        ("# updates often\n0F0 0B0", "updates 'often'; give flush, stash"),
        ("# updates stash\n0F0 0F1 0B1 0B0", "0B0 .rank 0, slot 3. comes after 0B1 .* order of the microbatches"),
        ("# updates stash\n0F0 0B0 0REDUCE_GRAD", "0REDUCE_GRAD .* every backward changes the weights"),
        ("# updates vertical\n0F0 1F1 1B1 0B0\n1F0 0F1 1B0 0B1\n2F0 2B0 2F1 2B1", "stage 2 has copies on 1 ranks and"),
        ("# path 0: 0 1\n0F0 0B0\n1F0 1B0\n2F0 2B0", "microbatch 0 has the path 0 1; a path goes from"),
        ("# path 0: 0 2\n0F0 0B0\n1F0 1B0\n2F0 2B0", "1F0 .rank 1, slot 0. runs, though stage 1 is to be skipped"),
        ("# path 4: 0 2\n0F0 0B0", "path 4: there are but 1 microbatches"),
        ("# way 4: 0 2\n0F0 0B0", "'# way 4: 0 2' says nothing known"),
    ],
)  # fmt: skip
def test_faults_are_named(rows: str, message: str) -> None:
    with pytest.raises(ScheduleError, match=message):
        check(read_text(rows))


def test_a_barrier_and_a_message_may_deadlock_together() -> None:
    """Rank 1 waits for a message that rank 0 sends behind a T, which waits for rank 1's S."""
    full = communicate(text("# barriers 2", "0F0 0S0 0T0 0F1 0S1 0T1 0B0 0B1", "1F0 1S0 1T0 1B0 1F1 1S1 1T1 1B1"))
    assert check(full).messages == 4
    row = list(full.ranks[1])
    receive = next(op for op in row if str(op) == "1RECV_F1")
    row.remove(receive)
    row.insert(next(slot for slot, op in enumerate(row) if str(op) == "1S0"), receive)
    with pytest.raises(ScheduleError, match=r"deadlock even with buffered sends: rank 0 at 0T0 .*rank 1 at 1RECV_F1"):
        check(replace(full, ranks=(full.ranks[0], tuple(row))))


def test_a_path_may_take_stages_in_another_order() -> None:
    schedule = text("# path 1: 0 2 1 3", "0F0 0F1 0B0 0B1", "1F0 1F1 1B1 1B0", "2F1 2F0 2B0 2B1", "3F0 3F1 3B0 3B1")
    timing = time(schedule)
    at = {str(op): timing.starts[index] for index, op in enumerate(op for row in schedule.ranks for op in row)}
    assert at["2F1"] < at["1F1"] < at["3F1"] < at["3B1"] < at["1B1"] < at["2B1"] < at["0B1"]
    assert check(communicate(schedule)) == check(schedule)


def test_versions_are_counted_on_the_rank() -> None:
    schedule = replace(make("one_f_one_b", 3, 6), updates="stash")
    for (stage, batch), version in schedule.versions.items():
        assert version.forward == version.backward == max(0, batch - (2 - stage))
        assert version.newest == batch
    latest = replace(schedule, updates="latest").versions
    assert all(version.backward == version.newest for version in latest.values())
    vertical = replace(schedule, updates="vertical").versions
    assert {version.forward for (_, batch), version in vertical.items() if batch == 5} == {3}


WIDE = [COPIED, "0F0 0F1 0R0 0B0 0R1 0B1", SHARDS.format(1), SHARDS.format(2), "# updates latest\n0F0 0B0",
        "# path 0: 0 2\n0F0 0B0\n1F1 1B1\n2F0 2B0 2F1 2B1\n".replace("0F0 0B0", "0F0 0B0 0F1 0B1", 1)]  # fmt: skip


@pytest.mark.parametrize("rows", WIDE)
def test_every_form_but_pytorchs_reads_back(rows: str) -> None:
    schedule = read_text(rows, "made")
    assert read_text(write_text(schedule), "made") == schedule
    assert parse_json(write_json(schedule)) == schedule
    full = communicate(schedule)
    assert check(full) == check(schedule) and parse_json(write_json(full)) == full
    with pytest.raises(ScheduleError, match="keep the text or JSON form"):
        write_csv(schedule)
