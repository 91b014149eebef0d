"""Pipelined speculation as a step: the closed form for one request, and what is left of it for many."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Cluster, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.drafted import attention_grows
from poise.cost.pipe_infer import Stream
from poise.cost.term import Termed
from poise.cost.terms.pipe_infer import PipeInfer
from poise.scenario.simulate import simulate
from poise.workload import all_at_once

POOL = Pool(model("llama-3.1-70b"), device("L40S"), pipeline=8)
INNER = Roofline().build(POOL)


def stream(term: PipeInfer, context: int) -> Stream:
    """The closed form of one request: what a run takes longer is what its tokens do in a microbatch of so many."""
    one, wide, narrow = (INNER.step(StepShape(decodes)) for decodes in (1, 8 * term.run, 8))
    pass_s = (one.base + one.per_kv * context) / SECOND
    kv = one.per_kv * context * (attention_grows(POOL, term.run - 1) - 1)
    longer = (wide.base - narrow.base + kv) / SECOND
    grows = longer / pass_s / max(1, term.run - 1)
    return Stream(8, pass_s / 8, term.acceptance, draft_s=term.draft * pass_s, grows=grows)


@given(st.floats(0, 0.95), st.integers(1, 8), st.floats(0, 0.3), st.integers(1, 100_000))
def test_one_request_is_the_closed_form(a: float, run: int, draft: float, context: int) -> None:
    """But for its being no slower than without proposals, whatever the run."""
    term = PipeInfer(a, run, draft)
    piece = term.around(INNER, POOL).step(StepShape(1)).at(context)
    best = max(stream(term, context).pipelined(run), stream(term, context).plain())
    assert (piece.base + piece.per_kv * context) / SECOND == pytest.approx(1 / best, rel=1e-5)


@given(st.floats(0, 0.95), st.integers(1, 300), st.integers(0, 500_000))
def test_no_request_is_slower_and_more_requests_gain_less(a: float, decodes: int, kv: int) -> None:
    estimator = PipeInfer(a).around(INNER, POOL)

    def gain(n: int) -> float:
        plain, piece = INNER.step(StepShape(n)), estimator.step(StepShape(n)).at(kv)
        return (plain.base + plain.per_kv * kv) / (piece.base + piece.per_kv * kv)

    assert gain(decodes) >= 1 - 1e-6
    assert gain(decodes) <= gain(1) * 1.02 + 1e-6


def test_full_stages_gain_nothing_by_runs_of_one() -> None:
    assert PipeInfer(0.8, run=1).around(INNER, POOL).step(StepShape(8)).base == INNER.step(StepShape(8)).base
    assert PipeInfer(0.8, run=1).around(INNER, POOL).step(StepShape(4)).base < INNER.step(StepShape(4)).base


def test_prompts_cost_what_they_did() -> None:
    for shape in (StepShape(0, (Chunk(512, 0),)), StepShape(3, (Chunk(512, 0),))):
        assert PipeInfer().around(INNER, POOL).step(shape) == INNER.step(shape)


@pytest.mark.parametrize("a", [0.1, 0.5, 0.8])
def test_a_request_in_the_simulator_takes_the_sum_of_its_tokens(a: float) -> None:
    term = PipeInfer(a, run=2)
    load = all_at_once(requests=1, prompt_tokens=1000, output_tokens=200)
    run = simulate(Cluster((POOL,)), load, cost=Termed(Roofline(), (term,)))
    took = (run.records.ended_at[0] - run.records.first_token_at[0]) / SECOND
    assert took == pytest.approx(sum(1 / stream(term, at).pipelined(2) for at in range(1001, 1200)), rel=1e-6)


@pytest.mark.parametrize("pool", [replace(POOL, pipeline=1, tensor=8), replace(POOL, pipeline=2, data=2)])
def test_pools_without_one_pipeline(pool: Pool) -> None:
    with pytest.raises(ScenarioError, match="give pipeline: 2 or more, and data: 1"):
        PipeInfer().around(Roofline().build(pool), pool)


@pytest.mark.parametrize("wrong", [{"acceptance": 1.0}, {"acceptance": -0.1}, {"run": -1}, {"draft": -1.0}])
def test_parameters(wrong: dict[str, float]) -> None:
    with pytest.raises(ScenarioError, match=r"give 0 up to 1|correct them"):
        PipeInfer(**wrong)  # type: ignore[arg-type]
