"""Costs of several pieces: held batches end where a piece does, so the fast path still equals the reference."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.scenario.simulate import simulate
from poise.testing.cost import LinearCost
from poise.workload import Workload, all_at_once
from tests.depth import examples
from tests.sim.cases import DEVICE, MODEL, Case, cases
from tests.sim.test_exact import compare


@dataclass(frozen=True, slots=True)
class Bent(LinearCost):
    """A cost that grows by `bend` picoseconds a token more with each of three pieces, the first two of `length`."""

    length: int = 1
    bend: int = 1

    def step(self, shape: StepShape) -> Piece:
        base, slope, window, *_ = LinearCost.step(self, shape)
        once, twice = base - self.length * self.bend, base - 3 * self.length * self.bend
        last = Piece(twice, slope + 2 * self.bend, window)
        return Piece(base, slope, window, self.length, Piece(once, slope + self.bend, window, 2 * self.length, last))


@pytest.mark.deep
@given(cases(), st.integers(1, 60), st.integers(1, 50))
@settings(max_examples=examples(150), deadline=None)
def test_fast_path_equals_reference_over_pieces(case: Case, length: int, bend: int) -> None:
    compare(replace(case, cost=Bent(**asdict(case.cost), length=length, bend=bend)))


def test_a_request_decodes_through_all_pieces() -> None:
    """Context 8 after the prompt: each of 30 steps costs what the line at its context says."""
    cost = Bent(step_s=1e-9, kv_s=1e-12, length=10, bend=7)
    recipe = type("Recipe", (), {"build": lambda self, pool: cost})()
    cluster = Cluster((Pool(MODEL, DEVICE, engine=Engine(kv_blocks=100, block_tokens=4)),))
    run = simulate(cluster, all_at_once(requests=1, prompt_tokens=8, output_tokens=31), cost=recipe)
    (took,) = run.records.ended_at
    lines = [cost.step(StepShape(1)).at(kv) for kv in range(9, 39)]
    assert took == cost.step(StepShape(0, (Chunk(8, 0),))).base + sum(
        line.base + line.per_kv * kv for kv, line in zip(range(9, 39), lines, strict=True)
    )
    assert len(set(lines)) == 3


def test_decodes_beside_a_prompt_have_their_piece_too() -> None:
    """Budget 8: a prompt of 8, then its decode beside 7 and 1 tokens of the next, one step of both, then it alone."""
    cost = Bent(step_s=1e-9, kv_s=1e-12, length=3, bend=7)
    recipe = type("Recipe", (), {"build": lambda self, pool: cost})()
    engine = Engine(kv_blocks=100, block_tokens=4, token_budget=8)
    rows = Workload(np.zeros(2, "i8"), np.full(2, 8, "i4"), np.array([20, 2], "i4"))
    run = simulate(Cluster((Pool(MODEL, DEVICE, engine=engine),)), rows, cost=recipe)
    read = [9, 10, 11 + 9, *range(12, 28)]
    lines = [cost.step(StepShape(1)).at(kv) for kv in read]
    alone = cost.step(StepShape(0, (Chunk(8, 0),))).base
    assert max(run.records.ended_at) == alone + sum(
        line.base + line.per_kv * kv for kv, line in zip(read, lines, strict=True)
    )
