"""Random small worlds under every batcher: the fast path equals the reference, and everything balances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any, ClassVar

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from poise.core.action import Batch
from poise.core.estimate import Store
from poise.core.view import LaneView
from poise.policies.batch.batch_llm import BatchLlm
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.flow_prefill import FlowPrefill
from poise.policies.batch.laps import Laps
from poise.policies.batch.layered_prefill import LayeredPrefill
from poise.policies.batch.medha import Medha
from poise.policies.batch.nexus import Nexus
from poise.policies.batch.sarathi import Sarathi
from poise.policies.batch.seesaw import Seesaw
from poise.policies.batch.semi_pd import SemiPd
from poise.policies.batch.sglang import SGLang
from poise.policies.batch.static_batch import StaticBatch
from poise.testing.cost import LinearCost
from tests.depth import examples
from tests.sim.cases import Case, cases
from tests.sim.test_exact import assert_equal, compare

Batchers = Callable[[float], tuple[Callable[[], Any], ...]]
"""Batchers whose times are so many ticks of a world's clock."""


def layered(tick: float) -> tuple[Callable[[], Any], ...]:
    return (partial(LayeredPrefill, 3, 4), partial(LayeredPrefill, 16, 2, 9))


def stall_free(tick: float) -> tuple[Callable[[], Any], ...]:
    return (
        partial(Sarathi, tbt_s=20 * tick, decodes=2, context=9, tile=2),
        partial(Sarathi, tbt_s=9 * tick, decodes=1, context=5, tile=3, mixed=False),
    )


def left_between_layers(tick: float) -> tuple[Callable[[], Any], ...]:
    return (
        partial(FlowPrefill, ttft_s=40 * tick),
        partial(FlowPrefill, ttft_s=90 * tick, chunk=7, rank="deadline", sigma=0.5),
    )


def adaptive(tick: float) -> tuple[Callable[[], Any], ...]:
    return (
        partial(Medha, tbt_s=20 * tick, ttft_s=50 * tick, long_tokens=20, least=2),
        partial(Medha, tbt_s=12 * tick, ttft_s=9 * tick, stretch=3.0, rank="lrs", least=1, constant_s=9 * tick),
    )


def split(tick: float) -> tuple[Callable[[], Any], ...]:
    return (partial(SemiPd, ttft_s=30 * tick, tpot_s=5 * tick, window_s=25 * tick), Nexus)


def gathered(tick: float) -> tuple[Callable[[], Any], ...]:
    return (
        partial(Laps, short_tokens=9, window_s=7 * tick, depth=3, ttft_s=50 * tick, margin_s=5 * tick),
        partial(Laps, window_s=30 * tick, depth=2, ttft_s=20 * tick),
    )


def planned(tick: float) -> tuple[Callable[[], Any], ...]:
    return (partial(BatchLlm, outputs=9), partial(StaticBatch, 3))


def of_sglang(tick: float) -> tuple[Callable[[], Any], ...]:
    return (
        SGLang,
        partial(SGLang, mixed=True, conservativeness=0.05),
        partial(SGLang, order="lpm", prefills=2, recv_interval=2),
        partial(SGLang, ignore_eos=True, order="lof", chunked=False, max_prefill=20),
    )


class Fussy(Chunked):
    """Sets up for every few prompts, and whenever others decode than before."""

    decodes_alone: ClassVar[bool] = False

    def __init__(self, tick_s: float) -> None:
        super().__init__()
        self.tick = round(tick_s * 1e12)
        self.before: list[int] = []

    def batch(self, lane: LaneView) -> Batch:
        batch, now = super().batch(lane), [sequence.id for sequence in lane.decodes()]
        other, self.before = now != self.before, now
        turns = lane.now // self.tick % 4 if batch.entries else 3 * other * bool(now)
        return batch._replace(setup=turns * self.tick)


def in_phases(tick: float) -> tuple[Callable[[], Any], ...]:
    return (Seesaw, partial(Seesaw, until=0.4, long_prefill=5), partial(Fussy, tick))


@dataclass(frozen=True, slots=True)
class Kept(LinearCost):
    """A cost whose KV is kept in a host's memory."""

    store: Store | None = None


ALL: tuple[Batchers, ...] = (
    layered,
    stall_free,
    left_between_layers,
    adaptive,
    split,
    gathered,
    planned,
    in_phases,
    of_sglang,
)


def ticks(case: Case) -> float:
    """Seconds of a tick of the case's clock."""
    return case.cost.step_s


@pytest.mark.deep
@pytest.mark.parametrize("batchers", ALL)
def test_fast_path_equals_reference(batchers: Batchers) -> None:
    @given(cases(), st.integers(0, 9))
    @settings(max_examples=examples(120), deadline=None)
    def check(case: Case, which: int) -> None:
        some = batchers(ticks(case))
        assume(getattr(some[0], "pairs", True) or set(case.roles) == {"mixed"})
        compare(replace(case, batcher=some[which % len(some)]))

    check()


class WithoutLengths:
    """A batcher that nobody tells who waits, so that it looks at the whole queue in each step."""

    def __init__(self, batcher: Any) -> None:
        self.batch = batcher.batch
        self.decodes_alone = getattr(batcher, "decodes_alone", False)


@pytest.mark.deep
@pytest.mark.parametrize("batchers", [adaptive, left_between_layers, gathered, planned])
def test_an_order_that_is_kept_is_that_of_a_look_at_everybody(batchers: Batchers) -> None:
    @given(cases(), st.integers(0, 9))
    @settings(max_examples=examples(60), deadline=None)
    def check(case: Case, which: int) -> None:
        some = batchers(ticks(case))
        batcher = some[which % len(some)]
        observed, plain = (
            replace(case, batcher=each).build(one_step=False, check=False).simulate()
            for each in (batcher, lambda: WithoutLengths(batcher()))
        )
        assert_equal(observed, plain)

    check()


@pytest.mark.deep
@given(
    cases(), st.sampled_from((0.0, 0.5)), st.integers(1, 40), st.integers(1, 9), st.integers(0, 20), st.integers(0, 9)
)
@settings(max_examples=examples(120), deadline=None)
def test_fast_path_equals_reference_under_a_store(
    case: Case, until: float, blocks: int, sequences: int, change: int, block: int
) -> None:
    """The devices hold few of the blocks of the store, and copies take from nothing to longer than steps."""
    tick = round(ticks(case) * 1e12)
    cost = Kept(
        **asdict(case.cost), store=Store(blocks, sequences, change * tick, 2 * change * tick, block * tick // 4)
    )
    compare(replace(case, cost=cost, batcher=partial(Seesaw, until=until)))
