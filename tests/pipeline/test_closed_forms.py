"""What papers prove of their schedules holds for every size, exactly, at any durations that the formula covers."""

from __future__ import annotations

from fractions import Fraction

from hypothesis import given, settings
from hypothesis import strategies as st

from poise.pipeline import Costs, Weights, check, make, time

few = settings(max_examples=40, deadline=None)
ranks = st.integers(2, 10)
ticks = st.integers(1, 9)


@few
@given(ranks, st.integers(1, 30), ticks, ticks, ticks)
def test_gpipe_and_1f1b(p: int, m: int, f: int, b: int, w: int) -> None:
    costs = Costs.of(f, b, w)
    for name in ("gpipe", "one_f_one_b"):
        timing = time(make(name, p, m), costs)
        assert timing.makespan == (m + p - 1) * (f + b + w)
        assert timing.bubble_global == (p - 1) * (f + b + w)
    assert list(check(make("one_f_one_b", p, m)).peak_memory) == [min(m, p - s) for s in range(p)]
    assert set(check(make("gpipe", p, m)).peak_memory) == {m}


@few
@given(ranks, st.integers(1, 30), ticks, ticks, ticks, st.integers(1, 9))
def test_gpipe_that_recomputes(p: int, m: int, f: int, b: int, r: int, part: int) -> None:
    schedule, costs = make("gpipe", p, m, recompute=True), Costs.of(f, b, b, r=r)
    assert time(schedule, costs).makespan == (m + p - 1) * (f + 2 * b) + m * r
    boundary = Fraction(1, part)
    peaks = check(schedule, weights=Weights(boundary=boundary)).peak_memory
    assert set(peaks) == {m * boundary + 1 - boundary}


@few
@given(ranks, st.integers(1, 5), st.integers(1, 5), ticks, ticks, ticks)
def test_interleaved_and_breadth_first(p: int, rounds: int, v: int, f: int, b: int, w: int) -> None:
    m = p * rounds
    costs = Costs.of(f, b, w)
    for name in ("interleaved", "breadth_first"):
        timing = time(make(name, p, m, chunks=v), costs)
        assert timing.bubble_global == timing.bubble_span == Fraction((p - 1) * (f + b + w), v)
    peak = check(make("interleaved", p, m, chunks=v)).peak_memory[0]
    assert peak == min(m, Fraction(2 * (p - 1) + (v - 1) * p + 1, v))
    assert set(check(make("breadth_first", p, m, chunks=v)).peak_memory) == {m}


@few
@given(ranks, st.integers(0, 25), st.integers(1, 4), ticks, ticks, ticks)
def test_interleaved_keeps_its_bubble_when_the_stages_do_not_divide(
    p: int, more: int, v: int, f: int, b: int, w: int
) -> None:
    timing = time(make("interleaved", p, p + more, chunks=v), Costs.of(f, b, w))
    assert timing.bubble_global == Fraction((p - 1) * (f + b + w), v)


@few
@given(ranks, st.integers(0, 20), ticks)
def test_zero_bubble_at_equal_times(p: int, more: int, f: int) -> None:
    m = 2 * p - 1 + more
    costs = Costs.of(f, f, f)
    one, two, folded = (time(make(name, p, m), costs) for name in ("zb_h1", "zb_h2", "zb_v"))
    assert one.bubble_span == (p - 1) * f and set(one.memory.peaks) == {p}
    assert two.bubble_span == 0 and two.makespan == (3 * m + p - 1) * f and set(two.memory.peaks) == {2 * p - 1}
    assert folded.bubble_span == 0 and folded.makespan == (3 * m + Fraction(p - 1, 2)) * f
    assert max(folded.memory.peaks) <= p


@few
@given(ranks, st.integers(0, 20))
def test_controllable_memory(p: int, more: int) -> None:
    m = 2 * p + more
    least, half = make("v_min", p, m), make("v_half", p, m)
    assert max(check(least).peak_memory) <= (p + 4) // 3
    assert max(check(half).peak_memory) <= (p + 2) // 2
    assert time(half).bubble_span <= Fraction(3 * p, 2)
    assert time(least).bubble_span <= 2 * p


@few
@given(ranks, st.integers(0, 20))
def test_2bp(p: int, more: int) -> None:
    m = p + more
    assert time(make("two_bp", p, m)).makespan == 3 * m + p - 1
    assert time(make("two_bp", p, m, fill=False)).makespan == 3 * m + 2 * (p - 1)
    assert time(make("two_bp", p, 1, base="gpipe")).makespan == 2 * p + 1


@few
@given(st.integers(1, 6), st.integers(0, 12))
def test_dualpipe(half: int, more: int) -> None:
    p = 2 * half
    m = 2 * p + 2 * more
    timing = time(make("dualpipe", p, m))
    assert timing.bubble_global == timing.bubble_span == half - 1
    assert set(timing.memory.peaks) == {p + 1}
    folded = time(make("dualpipe_v", p, m))
    assert folded.bubble_global == folded.bubble_span == Fraction(p - 1, 2)
    assert set(folded.memory.peaks) == {p + Fraction(1, 2)}


@few
@given(ranks, st.integers(1, 40))
def test_the_lower_bound_of_the_fill(p: int, m: int) -> None:
    """No schedule ends before the first microbatch has come down and the last one gone up again."""
    for name in ("gpipe", "one_f_one_b", "zb_h1", "zb_h2", "zb_v", "v_half", "v_min", "two_bp"):
        timing = time(make(name, p, m))
        assert timing.makespan >= max(2 * p + timing.graph.schedule.chunk, 3 * m)


@few
@given(st.integers(1, 5), st.integers(2, 6), st.integers(2, 4), ticks, ticks, ticks)
def test_gis(half: int, rounds: int, v: int, f: int, b: int, w: int) -> None:
    p = 2 * half
    m = p * rounds
    costs = Costs.of(f, b, w)
    plain, halved = time(make("gis", p, m, chunks=v), costs), time(make("gis_h", p, m, chunks=v), costs)
    assert plain.memory.peaks[0] == p and halved.memory.peaks[0] == Fraction((v - 1) * half + p, v)
    if w <= min(f, b) and f == b:
        assert plain.bubble_global == Fraction((p - 1) * (f + b), v)
        assert halved.bubble_global == Fraction((p - 1) * (f + b) + (v - 1) * half * (f + b - w), v)
