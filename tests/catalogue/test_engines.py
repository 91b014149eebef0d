"""An engine's limits on one data rank or on all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.catalogue.engines import apart, engine_defaults, handing_over, limit_ranks, on_ranks
from poise.core.spec import Cluster, Engine, Pool

MIXTURE = Pool(model("qwen3-30b-a3b"), device("H100"), data=4, expert=4)
DENSE = Pool(model("llama-3.1-8b"), device("H100"), data=4)


@pytest.mark.parametrize(
    "pool, name, ranks",
    [
        (MIXTURE, "vllm", 4),
        (MIXTURE, "TensorRT-LLM", 4),
        (MIXTURE, "SGLang", 1),
        (DENSE, "SGLang", 4),
        (DENSE, "vllm", 4),
        (replace(MIXTURE, data=1, tensor=4), "vllm", 1),
    ],
)
def test_limits_hold_for_each_rank_but_those_of_sglang_are_shared(pool: Pool, name: str, ranks: int) -> None:
    pool = replace(pool, engine=Engine(name, token_budget=1000, max_sequences=30, kv_blocks=77))
    assert limit_ranks(pool) == ranks
    made = on_ranks(pool).engine
    assert (made.token_budget, made.max_sequences, made.kv_blocks) == (1000 * ranks, 30 * ranks, 77)
    assert made.rank_budget == (1000 * ranks // pool.data if pool.data > 1 else 0)


def test_data_ranks_of_a_dense_model_are_replicas_with_their_own_blocks() -> None:
    made = apart(replace(DENSE, replicas=3, data=4, engine=Engine(max_sequences=30, kv_blocks=80)))
    assert (made.replicas, made.data, made.devices * made.replicas) == (12, 1, 3 * 4 * DENSE.tensor)
    assert (made.engine.max_sequences, made.engine.kv_blocks) == (30, 20)
    assert apart(MIXTURE) is MIXTURE


def test_prompts_are_handed_over_as_an_engine_does_it_where_pools_compute_them_alone() -> None:
    known = engine_defaults("TensorRT-LLM", "1.0")
    alone = Cluster((DENSE,))
    pair = Cluster((replace(DENSE, role="prefill"), replace(DENSE, role="decode")))
    assert handing_over(alone, known) is alone
    assert handing_over(pair, known).link_latency_s == known.handed_s > pair.link_latency_s
    assert handing_over(pair, engine_defaults("llama.cpp")) is pair
