"""PipeOffload: the peaks of its formulas, copies that cost no time, and what each of them may take."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Kind, check, make, time
from poise.pipeline.wave import wave

few = settings(max_examples=25, deadline=None)


def copies(each: str, shared: bool = False) -> Costs:
    return Costs.of(offload=each, reload=each, shared_copy=shared)


@pytest.mark.parametrize(("p", "v", "m"), [(4, 4, 32), (8, 2, 32), (8, 4, 64), (8, 16, 32), (12, 4, 32)])
def test_peaks_of_the_paper(p: int, v: int, m: int) -> None:
    """In chunks: (v + 1) p / 2 without copies, (v + 2) p / 8 with half of them, a few with all; plus some on the way.

    A wave may start a period later for each chunk that would meet another.
    """
    base = wave(p, m, v, "wave")
    assert abs(check(base).peak_memory[0] * v - Fraction((v + 1) * p, 2)) < v
    half = make("po_h", p, m, chunks=v, costs=copies("0.1"))
    assert check(half).peak_memory[0] * v <= Fraction((v + 2) * p, 8) + 3
    for each, most in (("0.75", 4), ("1.5", 5)):
        every = make("po_f", p, m, chunks=v, costs=copies(each))
        assert max(check(every).peak_memory) * v <= most


@few
@given(st.integers(1, 8), st.integers(1, 24), st.integers(2, 5), st.sampled_from(["0", "0.5", "1", "1.5"]))
def test_copies_within_the_compute_time_are_free(p: int, m: int, v: int, each: str) -> None:
    costs = copies(each)
    base = time(wave(p, m, v, "wave"), costs)
    assert base.bubble_global <= 3 * max(1, p - 1)
    for name in ("po_h", "po_f"):
        schedule = make(name, p, m, chunks=v, costs=costs)
        timing = time(schedule, costs)
        assert timing.makespan <= base.makespan + Fraction(3 * p, v)
        assert all(now <= then for now, then in zip(check(schedule).peak_memory, base.memory.peaks, strict=True))


@few
@given(st.integers(1, 6), st.integers(1, 16), st.integers(2, 4), st.booleans(), st.data())
def test_any_times(p: int, m: int, v: int, shared: bool, data: st.DataObject) -> None:
    each = st.lists(st.integers(1, 9), min_size=p, max_size=p)
    costs = Costs.of(*(data.draw(each) for _ in range(3)), data.draw(st.integers(0, 3)), offload=data.draw(each),
                     reload=data.draw(each), shared_copy=shared)  # fmt: skip
    for name in ("po_h", "po_f"):
        schedule = make(name, p, m, chunks=v, costs=costs)
        timing = time(schedule, costs)
        assert list(check(schedule).peak_memory) == timing.memory.peaks
        kinds = Counter(op.kind for row in schedule.ranks for op in row)
        assert kinds[Kind.OFFLOAD] == kinds[Kind.RELOAD] == len(timing.copies) / 2


def test_half_of_the_chunks_are_the_longest_lived() -> None:
    schedule = make("po_h", 8, 32, chunks=4)
    copied = {op.stage for row in schedule.ranks for op in row if op.kind is Kind.OFFLOAD}
    assert copied == set(range(16))


def test_one_chunk_cannot_be_halved() -> None:
    with pytest.raises(ScheduleError, match=r"po_h: 1 chunks; .* give 2 or more"):
        make("po_h", 4, 8, chunks=1)
