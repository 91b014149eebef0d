"""Effects that are planted come back, and intervals miss them as seldom as they say."""

from __future__ import annotations

import random

import pytest

from poise.experiment.tournament.design import balanced
from poise.experiment.tournament.effects import Fit, Row, fit
from poise.report.intervals import over_seeds

LEVELS = (4, 3, 2)
MAIN = ((0.0, 0.1, -0.2, 0.3), (0.0, 0.2, 0.0), (0.0, 0.0))


def planted(seed: int, blocks: int = 8, noise: float = 0.02, spread: float = 0.0) -> list[Row]:
    """Rows of main effects, a pair that does 0.5 more, blocks and loads; `spread`: effects differ by block."""
    chance = random.Random(seed)
    rows = []
    cells = balanced(LEVELS, blocks * 2, 12, seed)
    own = [[[chance.gauss(0, spread) for _ in range(levels)] for levels in LEVELS] for _ in range(blocks)]
    for at, cell in enumerate(cells):
        block, load = divmod(at, 2)
        for levels in cell:
            value = block - 3 * load + sum(MAIN[i][level] + own[block][i][level] for i, level in enumerate(levels))
            value += 0.5 * (levels[1:] == (2, 1)) + chance.gauss(0, noise)
            rows.append(Row(block, load, levels, value))
    return rows


def test_effects_come_back_exactly_without_noise() -> None:
    found = fit(planted(0, noise=0.0), LEVELS)
    assert [found.against(0, level).value for level in range(4)] == pytest.approx([0, 0.1, -0.2, 0.3])
    # on average over the other factor the pair adds half, or a third, of its 0.5
    assert found.against(1, 2).value == pytest.approx(0.25)
    assert found.against(2, 1).value == pytest.approx(0.5 / 3)
    assert found.joint((1, 2), 2, 1).value == pytest.approx(0.5 * (1 - 1 / 3) * (1 - 1 / 2))
    assert found.joint((0, 1), 3, 1).value == pytest.approx(0)
    assert sum(found.shares.values()) == pytest.approx(1, abs=0.05)


def test_a_prediction_counts_the_pairs_it_is_given() -> None:
    found = fit(planted(0, noise=0.0), LEVELS)
    bare = found.predicted((3, 2, 1)) - found.predicted((0, 0, 0))
    assert bare == pytest.approx(0.3 + 0.25 + 0.5 / 3)
    pairs = [((1, 2), one, two) for one in range(3) for two in range(2)]
    whole = found.predicted((3, 2, 1), pairs) - found.predicted((0, 0, 0), pairs)
    assert whole == pytest.approx(0.3 + 0.5)


@pytest.mark.slow
def test_intervals_over_blocks_hold_what_another_block_may_do() -> None:
    """Effects that differ from block to block: the interval of 95 % misses the mean in about one of twenty trials."""
    missed = 0
    for seed in range(200):
        found: Fit = fit(planted(seed, spread=0.2), LEVELS, interactions=False)
        each = found.against(0, 3)
        assert each.value is not None and each.half is not None
        missed += abs(each.value - 0.3) > each.half
    assert 2 <= missed <= 22


def test_one_block_has_no_interval() -> None:
    assert fit(planted(0, blocks=1), LEVELS, interactions=False).against(0, 1).half is None


def test_with_whole_cells_it_is_the_t_interval_of_the_blocks() -> None:
    """Where every cell has every level once, the estimate and its interval are those of the differences by block."""
    chance = random.Random(3)
    rows = [Row(block, 0, (level,), chance.gauss(level, 1)) for block in range(6) for level in range(2)]
    gaps = [rows[at + 1].value - rows[at].value for at in range(0, 12, 2)]
    plain, found = over_seeds(gaps), fit(rows, (2,)).against(0, 1)
    assert found.value == pytest.approx(plain.value)
    assert found.half == pytest.approx(plain.half)
