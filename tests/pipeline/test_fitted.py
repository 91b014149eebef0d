"""ZB-V, V-Half and V-Min at given times: no slower than the authors' generators, within the published peak."""

from __future__ import annotations

from fractions import Fraction
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.errors import ScheduleError
from poise.pipeline import Costs, Schedule, check, make, time
from poise.pipeline.block import Block
from poise.pipeline.gathers import gathers
from poise.pipeline.reorder import reordered
from poise.sim.step import Traffic, Wiring, simulate_step
from tests.depth import examples

from .cases import schedules

NAMES = ("zb_v", "v_half", "v_min")

AUTHORS = [
    (5, 18, (30, 30, 34, 8), (1912, 2072, 2601)),
    (3, 6, (34, 32, 40, 0), (670, 722, 720)),
    (2, 15, (20, 10, 6, 8), (594, 879, 988)),
    (8, 23, (4, 40, 26, 3), (1849, 2547, 3388)),
    (7, 24, (40, 12, 40, 0), (2412, 2646, 3076)),
    (8, 17, (6, 4, 4, 0), (266, 294, 359)),
    (3, 20, (2, 30, 22, 3), (1128, 1572, 2033)),
    (6, 7, (34, 16, 20, 3), (628, 837, 950)),
    (2, 22, (6, 30, 18, 3), (1212, 1632, 1731)),
    (6, 3, (18, 22, 16, 8), (468, 530, 620)),
    (4, 1, (6, 38, 8, 3), (216, 220, 216)),
    (2, 10, (26, 6, 2, 0), (363, 499, 561)),
    (3, 7, (4, 32, 26, 3), (484, 617, 755)),
    (5, 3, (38, 14, 18, 1), (361, 388, 421)),
    (2, 10, (22, 2, 28, 0), (531, 597, 604)),
    (3, 8, (8, 2, 4, 3), (148, 214, 279)),
    (8, 16, (12, 36, 14, 3), (1259, 1698, 2294)),
    (6, 7, (10, 28, 26, 0), (518, 664, 717)),
    (5, 14, (14, 2, 18, 8), (619, 923, 1141)),
    (4, 1, (14, 12, 26, 8), (213, 226, 213)),
    (7, 19, (8, 4, 10, 0), (448, 482, 514)),
    (5, 9, (2, 40, 22, 1), (674, 961, 1201)),
    (5, 3, (6, 6, 14, 8), (223, 281, 299)),
    (7, 8, (2, 40, 24, 1), (676, 956, 1204)),
]
"""Ranks, microbatches, times and makespans of ZB-V, V-Half and V-Min in the orders that the authors' generators make.

Those of sail-sg/zero-bubble-pipeline-parallelism at 39f2c186 (zbv.py, zbv_greedy.py), timed by `poise.pipeline.time`.
"""


def blocks(name: str, p: int) -> list[Block]:
    """The paper's building block on each rank."""
    if name == "v_half":
        wait = 3 * (p % 2 == 0)
        return [Block(2 * r, 3 * p - r - 2, 3 * p + wait + 2 * r - 1, 6 * p + wait - r - 2) for r in range(p)]
    wait = 2 * (p % 3 == 0)
    return [Block(r, 2 * p - 1 - r, 2 * p + wait + r, 4 * p + wait - 1 - r) for r in range(p)]


@pytest.mark.parametrize(("p", "m", "times", "makespans"), AUTHORS)
def test_no_slower_than_the_authors_generators(
    p: int, m: int, times: tuple[int, ...], makespans: tuple[int, ...]
) -> None:
    costs = Costs.of(*times)
    for name, most in zip(NAMES, makespans, strict=True):
        assert time(make(name, p, m, costs=costs), costs).makespan <= most, name
    for name, makespan in zip(NAMES[1:], makespans[1:], strict=True):
        assert time(reordered(blocks(name, p), m, name), costs).makespan == makespan, "the same order as theirs"


@pytest.mark.parametrize(
    ("name", "p", "m", "most"),
    [
        ("zb_v", 8, 32, 0.0552), ("zb_v", 16, 128, 0.0303), ("zb_v", 32, 256, 0.0317),
        ("v_half", 8, 32, 0.1333), ("v_half", 16, 128, 0.0809), ("v_half", 32, 256, 0.0851),
        ("v_min", 8, 32, 0.3089), ("v_min", 16, 128, 0.2742), ("v_min", 32, 256, 0.2782),
    ],
)  # fmt: skip
def test_the_published_profile(name: str, p: int, m: int, most: float) -> None:
    """Bubbles of their generators for the 1.5B model of the Zero Bubble paper."""
    costs = Costs.of(18522, 18086, 9337, 601)
    assert round(float(time(make(name, p, m, costs=costs), costs).bubble_global_fraction), 4) <= most


@pytest.mark.deep
@settings(max_examples=examples(160))
@given(st.sampled_from(NAMES), st.integers(1, 8), st.integers(1, 24), st.data())
def test_never_slower_and_never_larger_than_published(name: str, p: int, m: int, data: st.DataObject) -> None:
    """On any times of stages and messages, beside every published order."""
    each = st.lists(st.integers(1, 20), min_size=p, max_size=p)
    costs = Costs.of(data.draw(each), data.draw(each), data.draw(each), data.draw(st.integers(0, 8)))
    published = [make(name, p, m)] + [reordered(blocks(name, p), m, name)] * (name != "zb_v")
    schedule = make(name, p, m, costs=costs)
    assert time(schedule, costs).makespan <= min(time(each, costs).makespan for each in published)
    assert max(check(schedule).peak_memory) <= max(max(check(each).peak_memory) for each in published)


@pytest.mark.deep
@settings(max_examples=examples(240))
@given(st.integers(1, 6), st.integers(1, 24), st.integers(1, 3), st.data())
def test_zeropp_uses_the_times(p: int, m: int, chunks: int, data: st.DataObject) -> None:
    """Its order for given times is never slower than that for equal ones, and holds no more than its unit."""
    each = st.lists(st.integers(1, 20), min_size=p, max_size=p)
    costs = Costs.of(data.draw(each), data.draw(each), data.draw(each), data.draw(st.integers(0, 8)))
    unit = data.draw(st.integers(p, 2 * p))
    one, two = (make("zeropp", p, m, costs=each, chunks=chunks, unit=unit) for each in (costs, None))
    assert time(one, costs).makespan <= time(two, costs).makespan
    assert max(check(one).peak_memory) <= unit


def test_a_long_run_repeats_the_short_one() -> None:
    """The order of all microbatches, made from that of a few."""
    for name in ("v_half", "v_min"):
        costs = Costs.of(18522, 18086, 9337, 601)
        whole = reordered(blocks(name, 8), 400, name)
        assert time(make(name, 8, 400, costs=costs), costs).makespan <= time(whole, costs).makespan


@settings(max_examples=40)
@given(schedules, st.integers(1, 3))
def test_gathers_are_what_a_step_transfers(schedule: Schedule, kept: int) -> None:
    """With one stage kept; with more kept they are no more, and never less than each stage once."""
    found = gathers(schedule)
    traffic = Traffic(gather_bytes=1.0)
    wiring = Wiring.nodes(len(found), per_node=1, scaleup_bw=1e9, scaleout_bw=1e9)
    step = simulate_step(schedule, Costs.of(f=1, b=1, w=1), traffic, wiring)
    moved = [sum(each.kind == "gather" and each.rank == rank for each in step.transfers) for rank in range(len(found))]
    assert [each / schedule.chunk for each in found] == moved
    own = [len({op.stage for op in row}) for row in schedule.ranks]
    fewer = gathers(schedule, kept)
    assert all(
        one <= two <= three for one, two, three in zip(map(schedule.chunk.__mul__, own), fewer, found, strict=True)
    )


@pytest.mark.parametrize("chunks", [1, 2, 4])
def test_breadth_first_saves_gathers(chunks: int) -> None:
    """Each chunk once each way but the last, which turns round; interleaved 1F1B gathers in every group."""
    depth = partial(make, stages=4, microbatches=16, chunks=chunks)
    assert set(gathers(depth("breadth_first"))) == {2 - Fraction(1, chunks)}
    assert min(gathers(depth("interleaved"))) >= max(gathers(depth("breadth_first")))
    with pytest.raises(ScheduleError, match="kept 0: a rank keeps at least the stage that it works on"):
        gathers(depth("breadth_first"), 0)
