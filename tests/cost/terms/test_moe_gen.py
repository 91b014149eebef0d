"""MoE-Gen as a term: its closed form, growth, layer ranges, room on the host, and what it is compared with."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline, kv_blocks
from poise.cost.moe_gen import SHARES, Offloaded, Plan
from poise.cost.term import Termed, held
from poise.cost.terms.moe_gen import MoeGen
from tests.cost.pools import more_work, pools

POOL = Pool(model("mixtral-8x7b"), device("A10"))
OFFLOADED = Offloaded(POOL.model, POOL.device)


def built(pool: Pool = POOL, term: MoeGen | None = None) -> Estimator:
    return (term or MoeGen()).around(Roofline().build(pool), pool)


def seconds(estimator: Estimator, shape: StepShape, kv: int) -> float:
    piece = estimator.step(shape).at(kv)
    return (piece.base + piece.per_kv * kv) / SECOND


def time(estimator: Estimator, shape: StepShape, context: int) -> int:
    """Picoseconds of a step whose decodes all have `context` tokens."""
    kv, seen = shape.decodes * context, shape.decodes * min(context, estimator.window)
    piece = estimator.step(shape).at(kv)
    return piece.base + piece.per_kv * kv + piece.per_window * seen


requests = st.integers(1, 5000)
contexts = st.integers(1, 4000)
parts = st.floats(0, 1)
closely = 1e-6
"""Slopes are rounded to a picosecond of some millions."""


@given(requests, contexts, parts, parts)
def test_a_decode_step_is_that_of_the_plan(n: int, context: int, on_cpu: float, kept: float) -> None:
    predicted = seconds(built(term=MoeGen(on_cpu, kept)), StepShape(n), n * context)
    assert predicted == pytest.approx(OFFLOADED.decode_s(Plan(n, on_cpu, kept), context), rel=closely)


@given(requests, contexts)
def test_by_itself_it_is_no_longer_than_any_plan(n: int, context: int) -> None:
    predicted = seconds(built(), StepShape(n), n * context)
    plans = [Plan(n, share, OFFLOADED.keepable()) for share in SHARES]
    assert predicted <= min(OFFLOADED.decode_s(plan, context) for plan in plans) * (1 + closely)


@given(st.integers(1, 200), st.integers(1, 4000), parts)
def test_prompts_are_those_of_the_closed_form(n: int, prompt: int, kept: float) -> None:
    predicted = seconds(built(term=MoeGen(kept=kept)), StepShape(0, (Chunk(prompt, 0),) * n), 0)
    assert predicted == pytest.approx(OFFLOADED.prefill_s(n, prompt, kept), rel=closely)


@given(requests, contexts)
def test_whole_batches_are_those_of_the_closed_form(n: int, context: int) -> None:
    predicted = seconds(built(term=MoeGen(whole=True)), StepShape(n), n * context)
    assert predicted == pytest.approx(OFFLOADED.model_based_s(n, context), rel=closely)


sparse = (
    pools(spread=False)
    .filter(lambda pool: pool.model.moe is not None)
    .map(lambda pool: replace(pool, tensor=1, expert=1))
)
terms = st.builds(MoeGen, st.none() | parts, st.none() | parts, whole=st.booleans())


@given(
    sparse, terms, st.integers(0, 300), st.integers(1, 2000), st.integers(0, 3000), st.integers(0, 3000),
    st.integers(1, 500), st.sampled_from((0.3, 1.0)),
)  # fmt: skip
def test_more_work_takes_no_less(
    pool: Pool, term: MoeGen, decodes: int, new: int, earlier: int, context: int, extra: int, share: float
) -> None:
    estimator = built(pool, term)
    shapes = more_work(decodes, new, earlier, context, extra, share)
    more = (StepShape(decodes + 1, (Chunk(new, earlier),), share), context)
    least = time(estimator, StepShape(decodes, (Chunk(new, earlier),), share), context)
    for shape, longer in (*shapes, more):
        rounded = shape.decodes * longer + 2  # slopes are, to a picosecond
        assert time(estimator, shape, longer) >= least - rounded


@given(st.integers(0, 500), st.integers(1, 2000), st.integers(1, 31), st.integers(0, 1_000_000))
def test_a_prompt_by_layers_is_fetched_once_for_each(decodes: int, new: int, cut: int, kv: int) -> None:
    """Two ranges that cover all layers, each alone, take what the whole does; beside decodes no less than they do."""
    estimator = built()
    whole = seconds(estimator, StepShape(0, (Chunk(new, 0),)), 0)
    halves = [Chunk(new, 0, 0, cut), Chunk(new, 0, cut, 32)]
    assert sum(seconds(estimator, StepShape(0, (each,)), 0) for each in halves) == pytest.approx(whole, rel=closely)
    alone = seconds(estimator, StepShape(decodes), kv) if decodes else 0.0
    beside = [seconds(estimator, StepShape(decodes, (each,)), kv) for each in halves]
    together = seconds(estimator, StepShape(decodes, (Chunk(new, 0),)), kv)
    assert all(alone * (1 - closely) <= each <= together * (1 + closely) for each in beside)
    assert sum(beside) == pytest.approx(alone + together, rel=closely)


def test_memory_is_the_hosts() -> None:
    kept = held(Termed(Roofline(), (MoeGen(),)), POOL)
    assert kept.engine.kv_blocks == int(OFFLOADED.host_tokens() / 16)
    assert kv_blocks(kept) * 16 // 768 == pytest.approx(OFFLOADED.host_batch(768), abs=1)
    whole = held(Termed(Roofline(), (MoeGen(whole=True),)), POOL)
    assert kv_blocks(whole) * 16 // 768 == pytest.approx(OFFLOADED.model_batch(768), abs=1)
    with pytest.raises(CapacityError, match=r"host_gb 64: 93 GB of weights .* give more"):
        MoeGen(host_gb=64).held(POOL)


@pytest.mark.parametrize(
    ("pool", "message"),
    [
        (replace(POOL, model=model("llama-3.1-8b")), "no experts"),
        (replace(POOL, device=replace(POOL.device, host_bw=0.0)), "no link to the host; give host_bw"),
        (replace(POOL, tensor=2), "one device; the pool has tensor 2"),
    ],
)
def test_pools_that_it_cannot_serve(pool: Pool, message: str) -> None:
    for query in (lambda: built(pool), lambda: MoeGen().held(pool)):
        with pytest.raises(ScenarioError, match=message):
            query()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("on_cpu", 1.1),
        ("kept", -0.1),
        ("host_gb", 0.0),
        ("cpu_gb_s", -1.0),
        ("flops_part", 0.0),
        ("bandwidth_part", 2.0),
    ],
)
def test_what_cannot_be(name: str, value: float) -> None:
    with pytest.raises(ScenarioError, match=f"{name} .*give"):
        MoeGen(**{name: value})  # type: ignore[arg-type]


def test_prompts_and_decodes_share_one_fetch() -> None:
    estimator, kv = built(replace(POOL, engine=Engine(token_budget=65_536))), 1000 * 640
    apart = seconds(estimator, StepShape(1000), kv) + seconds(estimator, StepShape(0, (Chunk(512, 0),)), 0)
    together = seconds(estimator, StepShape(1000, (Chunk(512, 0),)), kv)
    assert together < 0.8 * apart
