"""Static batches against sums step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.validation.batch import decode_s, prefill_s, static_outcome

LLAMA = Pool(model("llama-3.1-8b"), device("H100"), engine=Engine(token_budget=2048))
WINDOWED = Pool(model("mistralai/Mistral-7B-v0.1"), device("H100"))


@given(st.integers(1, 300), st.integers(1, 6000), st.integers(0, 40), st.sampled_from([LLAMA, WINDOWED]))
def test_decoding_is_the_sum_of_its_steps(clients: int, prompt: int, steps: int, pool: Pool) -> None:
    estimator = Roofline().build(pool)
    piece, window = estimator.step(StepShape(clients)), estimator.window
    contexts = range(prompt + 1, prompt + steps + 1)
    summed = sum(piece.base + clients * (piece.per_kv * x + piece.per_window * min(x, window)) for x in contexts)
    assert decode_s(estimator, clients, prompt, steps) == pytest.approx(summed / SECOND)


def test_prompts_go_in_whole_up_to_the_budget_and_in_chunks_beyond() -> None:
    estimator = Roofline().build(LLAMA)

    def step(*chunks: tuple[int, int]) -> float:
        return estimator.step(StepShape(0, tuple(Chunk(*each) for each in chunks))).base / SECOND

    assert prefill_s(estimator, 5, 1000, 2048) == pytest.approx(2 * step((1000, 0), (1000, 0)) + step((1000, 0)))
    assert prefill_s(estimator, 2, 3000, 2048) == pytest.approx(2 * (step((2048, 0)) + step((952, 2048))))


def test_flows_count_what_their_names_say() -> None:
    found = static_outcome(Roofline().build(LLAMA), LLAMA, 8, 512, 64, 1)
    total = found.latency["e2e"]["mean"]
    assert found.flow["output"] == pytest.approx(8 * 64 / total)
    assert found.flow["total"] == pytest.approx(8 * (512 + 64) / total)
    assert total == pytest.approx(found.latency["ttft"]["mean"] + 63 * found.latency["tpot"]["mean"])


def test_one_token_has_no_time_between_tokens() -> None:
    found = static_outcome(Roofline().build(LLAMA), LLAMA, 1, 512, 1, 1)
    assert found.figure("tpot_ms", "ms") is None
    assert found.figure("ttft_ms", "ms") == pytest.approx(found.latency["e2e"]["mean"] * 1e3)
