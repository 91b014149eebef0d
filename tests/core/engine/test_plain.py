"""Who promises what the plain step needs: a batcher that it fills a budget, an estimator that it times one chunk."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.core.engine.plain import budgeted, fill
from poise.core.engine.replica import Replica
from poise.core.estimate import Chunk, Piece, StepShape, one_chunk
from poise.core.policy import Batcher
from poise.core.request import Sequence
from poise.core.spec import Engine, Lane, Pool
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.roofline import Roofline
from poise.live.emulator.slow import Slow as LiveSlow
from poise.policies.batch.asynchronous import Asynchronous
from poise.policies.batch.batch_llm import BatchLlm
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.gathered import Gathered
from poise.policies.batch.sarathi import Sarathi
from poise.policies.queue.virtual_token_counter import VirtualTokenCounter
from poise.testing import a_request
from poise.testing.cost import LinearCost
from tests.core.scripted import bundled
from tests.cost.pools import H100, REAL, pools

COST = LinearCost()
ENGINE = Engine(token_budget=8, max_sequences=4, block_tokens=1)


class Fewer(Chunked):
    """Somebody's batcher that takes part in the composing; it did not promise anything."""

    def _ready(self, lane: Any) -> Any:
        return iter(list(lane.queue())[:1])


class Promising(Fewer):
    """The same with a promise of its own."""

    budgeted: ClassVar[bool] = True


def replica(batcher: Batcher, blocks: int = 100, **options: Any) -> Replica:
    engine = options.pop("engine", ENGINE)
    policies = bundled(options, batcher=batcher)
    return Replica(engine, options.pop("cost", COST), blocks, policies, **options)


@pytest.mark.parametrize("batcher", [Asynchronous(), BatchLlm(), Gathered(), Sarathi(), Fewer()])
def test_a_subclass_does_not_inherit_the_promise_of_a_budget(batcher: Batcher) -> None:
    assert not budgeted(batcher) and not replica(batcher).lanes[0].fills


@pytest.mark.parametrize("batcher", [Chunked(), Promising()])
def test_a_batcher_of_a_class_that_promises_a_budget_is_not_called(batcher: Batcher) -> None:
    assert budgeted(batcher) and replica(batcher).lanes[0].fills


def test_steps_are_plain_only_on_one_lane_in_a_fixed_order_and_not_in_the_reference() -> None:
    lanes = Lane("p", True, False, 0.5), Lane("d", False, True, 0.5)
    assert not any(lane.fills for lane in replica(Chunked(), engine=Engine(lanes=lanes)).lanes)
    assert not replica(Chunked(), queue=VirtualTokenCounter()).lanes[0].fills
    assert not replica(Chunked(), one_step=True).lanes[0].fills


def test_where_the_bound_does_not_say_that_all_fits_nothing_is_done() -> None:
    engine = replica(Chunked(), blocks=10)
    lane = engine.lanes[0]
    for number, prompt in enumerate((3, 5)):
        engine.add(Sequence(a_request(id=number, prompt_tokens=prompt), 5), 0)
    assert fill(lane, 7) == -1
    assert not lane.chunks and len(engine.waiting) == 2 and not engine.running and not engine.pool.explicit
    assert fill(lane, 8) == 0
    assert [entry[:2] for _, entry in lane.chunks] == [(0, 3), (1, 5)] and engine.pool.explicit + engine.pool.held == 8


class Doubled(LinearCost):
    """Twice as long; it says nothing of single chunks."""

    def step(self, shape: StepShape) -> Piece:
        piece = super().step(shape)
        return piece._replace(base=2 * piece.base)


class Open:
    """Hands on whatever it does not know."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def step(self, shape: StepShape) -> Piece:
        piece: Piece = self.inner.step(shape)
        return piece._replace(base=2 * piece.base)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


@pytest.mark.parametrize("estimator", [EstimatorWrapper(COST), LiveSlow(COST), Doubled(), Open(COST)])
def test_what_answers_for_another_never_hands_on_its_single_chunks(estimator: Any) -> None:
    assert one_chunk(COST) is not None
    assert one_chunk(estimator) is None


def test_with_a_window_there_are_no_single_chunks() -> None:
    assert one_chunk(LinearCost(window=16)) is None


def test_a_slow_device_has_no_single_chunks() -> None:
    engine = replica(Chunked())
    engine.slowed = 3.0
    engine.retime()
    engine.add(Sequence(a_request(prompt_tokens=4), 1), 0)
    engine.turn(0)
    assert engine.next_at == 3 * COST.step(StepShape(0, (Chunk(4, 0),))).base


@given(
    st.one_of(pools(), pools(spread=False), st.sampled_from([Pool(model, H100) for model in REAL])),
    st.integers(0, 300),
    st.integers(1, 8192),
    st.integers(0, 100_000),
)
def test_one_chunk_is_the_step_of_one_chunk(pool: Pool, decodes: int, tokens: int, context: int) -> None:
    estimator = Roofline().build(pool)
    base, per_kv, _, until_kv, _ = estimator.step(StepShape(decodes, (Chunk(tokens, context),)))
    assert estimator.one_chunk(decodes, tokens, context) == (base, per_kv)
    assert until_kv == Piece(0).until_kv
