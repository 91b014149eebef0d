"""The published figures of schedules, exactly: makespan, span bubble and peak on every rank at T_F = T_B = T_W = 1."""

from __future__ import annotations

from typing import Any

import pytest

from poise.pipeline import Costs, Schedule, check, make, time

Peaks = list[float]


def measured(schedule: Schedule, costs: Costs | None = None) -> tuple[float, float, Peaks]:
    timing = time(schedule, costs)
    peaks = [float(each) for each in check(schedule).peak_memory]
    assert peaks == [float(each) for each in timing.memory.peaks]
    return float(timing.makespan), float(timing.bubble_span), peaks


def down(first: float, last: float) -> Peaks:
    """From the first to the last rank in steps of one."""
    return [first - step for step in range(int(first - last) + 1)]


GOLDEN: list[tuple[str, dict[str, Any], tuple[float, float, Peaks], tuple[float, float, Peaks]]] = [
    ("gpipe", {}, (33, 9, [8] * 4), (117, 21, [32] * 8)),
    ("one_f_one_b", {}, (33, 9, down(4, 1)), (117, 21, down(8, 1))),
    ("interleaved", {"chunks": 2}, (28.5, 4.5, down(5.5, 2.5)), (106.5, 10.5, down(11.5, 4.5))),
    ("interleaved", {"chunks": 4}, (26.25, 2.25, [4.75, 4.25, 3.75, 3.25]),
     (101.25, 5.25, [9.75 - s / 2 for s in range(8)])),
    ("breadth_first", {"chunks": 2}, (28.5, 4.5, [8] * 4), (106.5, 10.5, [32] * 8)),
    ("zb_h1", {}, (27, 3, [4] * 4), (103, 7, [8] * 8)),
    ("zb_h2", {}, (27, 0, [7] * 4), (103, 0, [15] * 8)),
    ("v_min", {}, (29.5, 5.5, [2] * 4), (109.5, 13.5, [3, 4, 4, 3, 4, 4, 3, 4])),
    ("v_half", {}, (26.5, 2.5, [3] * 4), (104.5, 8.5, [5] * 8)),
    ("zb_v", {}, (25.5, 0, [4] * 4), (99.5, 0, [8] * 8)),
]  # fmt: skip


@pytest.mark.parametrize(("name", "given", "small", "large"), GOLDEN, ids=lambda each: str(each)[:24])
def test_the_golden_table(
    name: str, given: dict[str, Any], small: tuple[float, float, Peaks], large: tuple[float, float, Peaks]
) -> None:
    assert measured(make(name, 4, 8, **given)) == small
    assert measured(make(name, 8, 32, **given)) == large


@pytest.mark.parametrize(
    ("name", "microbatches", "given", "makespan", "span", "peak"),
    [
        ("gpipe", 6, {}, 27, 9, 6),
        ("one_f_one_b", 6, {}, 27, 9, 4),
        ("interleaved", 6, {"group": 4}, 27.5, 9.5, None),
        ("interleaved", 6, {"group": 6}, 22.5, 4.5, 6),
        ("interleaved", 6, {}, 22.5, 4.5, 6),
        ("breadth_first", 6, {}, 22.5, 4.5, 6),
        ("breadth_first", 6, {"chunks": 4}, 20.25, 2.25, 6),
        ("zb_h1", 6, {}, 21, 3, 4),
        ("zb_h2", 6, {}, 21, 1, 6),
        ("v_min", 6, {}, 23.5, 5.5, 2),
        ("one_f_one_b", 10, {}, 39, 9, 4),
        ("interleaved", 10, {"group": 4}, 39.5, 9.5, None),
        ("interleaved", 10, {"group": 5}, 34.5, 4.5, 6),
        ("interleaved", 10, {"group": 10}, 34.5, 4.5, 8.5),
        ("interleaved", 10, {}, 34.5, 4.5, 6),
        ("interleaved", 10, {"chunks": 4, "group": 5}, 32.25, 2.25, None),
        ("breadth_first", 10, {}, 34.5, 4.5, 10),
        ("breadth_first", 10, {"chunks": 4}, 32.25, 2.25, 10),
        ("zb_h1", 10, {}, 33, 3, 4),
        ("zb_h2", 10, {}, 33, 0, 7),
        ("v_min", 10, {}, 35.5, 5.5, 2),
        ("interleaved", 3, {}, 15, 6, None),
    ],
)
def test_microbatches_that_are_no_multiple_of_the_stages(
    name: str, microbatches: int, given: dict[str, Any], makespan: float, span: float, peak: float | None
) -> None:
    found = measured(make(name, 4, microbatches, **given))
    assert found[:2] == (makespan, span)
    assert peak is None or found[2][0] == peak


@pytest.mark.parametrize(
    ("stages", "microbatches", "given", "makespan", "peak"),
    [
        (4, 1, {"base": "gpipe"}, 9, 1),
        (8, 1, {"base": "gpipe"}, 17, 1),
        (4, 4, {"base": "gpipe"}, 18, 4),
        (8, 8, {"base": "gpipe"}, 38, 8),
        (4, 8, {"fill": False}, 30, 8),
        (8, 32, {"fill": False}, 110, 32),
        (4, 4, {}, 15, 4),
        (4, 8, {}, 27, 8),
        (8, 16, {}, 55, 16),
        (8, 32, {}, 103, 32),
    ],
)
def test_2bp(stages: int, microbatches: int, given: dict[str, Any], makespan: float, peak: float) -> None:
    found = measured(make("two_bp", stages, microbatches, **given))
    assert found[0] == makespan and max(found[2]) == peak


@pytest.mark.parametrize(
    ("stages", "microbatches", "makespans"),
    [
        (4, 4, (18, 15.25, 13.625)),
        (8, 8, (38, 31.5, 27.75)),
        (4, 8, (29.5, 30.25, 27.375)),
        (8, 32, (115, 110.5, 108.125)),
        (4, 6, (24.5, 22.75, 21.875)),
    ],
)
def test_hanayo(stages: int, microbatches: int, makespans: tuple[float, ...]) -> None:
    assert tuple(measured(make("hanayo", stages, microbatches, chunks=2 * w))[0] for w in (1, 2, 4)) == makespans


@pytest.mark.parametrize(("stages", "makespan"), [(4, 16), (8, 36)])
def test_chimera(stages: int, makespan: float) -> None:
    found = measured(make("chimera", stages, stages))
    assert found[0] == makespan
    assert (found[2][0], max(found[2])) == (stages / 2 + 1, stages)


@pytest.mark.parametrize(
    ("name", "p", "m", "share"),
    [
        ("zb_h1", 16, 128, 0.0376), ("zb_h1", 32, 256, 0.0388), ("zb_v", 16, 128, 0.0192), ("zb_v", 32, 256, 0.0198),
        ("v_half", 16, 128, 0.0507), ("v_half", 32, 256, 0.0548),
        ("v_min", 16, 128, 0.0713), ("v_min", 32, 256, 0.0741),
    ],
)  # fmt: skip
def test_the_size_of_a_cluster(name: str, p: int, m: int, share: float) -> None:
    """Bubbles as parts of the makespan, as the schedulers of the papers' authors give them."""
    assert round(float(time(make(name, p, m)).bubble_global_fraction), 4) == share


@pytest.mark.parametrize(
    ("stages", "microbatches", "makespan"),
    [(4, 4, 14), (8, 8, 30), (16, 16, 62), (4, 8, 27), (4, 16, 53), (8, 16, 57), (8, 32, 111)],
)
def test_bitpipe(stages: int, microbatches: int, makespan: float) -> None:
    found = measured(make("bitpipe", stages, microbatches))
    assert found[0] == makespan
    if stages < 16:
        assert found[2] == {4: [3.5, 4, 4, 3.5], 8: [6.5, 7, 7.5, 8, 8, 7.5, 7, 6.5]}[stages]


@pytest.mark.parametrize(
    ("name", "small", "large"), [("one_f_one_b", 47.6, 123.8), ("interleaved", 37.5, 109.5), ("bitpipe", 33.3, 122.4)]
)
def test_with_a_tenth_per_hop(name: str, small: float, large: float) -> None:
    costs = Costs.of(comm="0.1")
    assert float(time(make(name, 8, 8), costs).makespan) == pytest.approx(small, abs=1e-9)
    assert float(time(make(name, 8, 32), costs).makespan) == pytest.approx(large, abs=1e-9)


@pytest.mark.parametrize(
    ("stages", "microbatches", "unit", "makespan", "span"),
    [(4, 8, 4, 25.5, 1.5), (4, 8, 7, 25.5, 0), (8, 32, 8, 99.5, 3.5), (8, 32, 15, 99.5, 0)],
)
def test_zeropp(stages: int, microbatches: int, unit: int, makespan: float, span: float) -> None:
    found = measured(make("zeropp", stages, microbatches, unit=unit))
    assert found == (makespan, span, [unit] * stages)
