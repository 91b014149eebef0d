"""The selection: levels as even as can be within every cell and among one another."""

from __future__ import annotations

from collections import Counter

from poise.experiment.tournament.design import balanced, imbalance
from poise.experiment.tournament.factor import alone, every, label
from poise.scenario.tournament.factor import factor

LEVELS = (5, 3, 2, 2)


def test_levels_come_equally_often_in_every_cell_and_on_the_whole() -> None:
    cells = balanced(LEVELS, cells=6, each=10, seed=0)
    assert [len(cell) for cell in cells] == [10] * 6
    for at, levels in enumerate(LEVELS):
        whole = Counter(row[at] for cell in cells for row in cell)
        assert set(whole) == set(range(levels))
        assert max(whole.values()) - min(whole.values()) <= 1
        for cell in cells:
            own = Counter(row[at] for row in cell)
            assert max(own.values()) - min(own[level] for level in range(levels)) <= 2


def test_pairs_of_factors_meet_far_more_evenly_than_by_chance() -> None:
    rows = [row for cell in balanced(LEVELS, cells=6, each=30, seed=1) for row in cell]
    assert imbalance(rows, LEVELS) < 0.1
    assert imbalance([row for row in rows if row[0] != 4 or row[1] != 2], LEVELS) == 1


def test_a_cell_has_no_combination_twice_while_there_are_enough() -> None:
    for cell in balanced(LEVELS, cells=4, each=30, seed=2):
        assert len(set(cell)) == 30


def test_the_same_seed_selects_the_same() -> None:
    assert balanced(LEVELS, 3, 12, seed=5) == balanced(LEVELS, 3, 12, seed=5) != balanced(LEVELS, 3, 12, seed=6)


def test_one_factor_at_a_time() -> None:
    factors = [factor("router", ["least_requests", "pull"]), factor("engine.token_budget", [8192, 512, 256])]
    assert alone(factors) == [(0, 0), (1, 0), (0, 1), (0, 2)]
    assert len(every(factors)) == 6
    assert [label(factors, each) for each in alone(factors)] == ["reference", "pull", "512", "256"]
