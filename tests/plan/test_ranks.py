"""Plans of data ranks: each rank has the limits that the engine has by itself, and the files say them again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.spec import Engine
from poise.plan.deploy.scenario import _own
from poise.plan.fleet import Fleet
from poise.plan.fleet_template import Single
from poise.plan.local_search import Variant
from poise.plan.unit import units
from tests.plan.deploy.test_commands import of_sglang, of_vllm

ENGINE = Engine(token_budget=1000, max_sequences=30)
PRICES = {"H200": 1.0}


@pytest.mark.parametrize("name", ["vllm", "sglang"])
def test_a_rank_s_limits_come_back_in_its_command(name: str) -> None:
    command = {"vllm": of_vllm, "sglang": of_sglang}[name]
    budget = {"vllm": "max-num-batched-tokens", "sglang": "chunked-prefill-size"}[name]
    sequences = {"vllm": "max-num-seqs", "sglang": "max-running-requests"}[name]
    found = units(model("qwen3-30b-a3b"), [device("H200")], PRICES, engine=replace(ENGINE, name=name), widest=4).able
    assert {pool.data for pool in found} == {1, 2, 4}
    for pool in found:
        flags = command(pool)
        assert (flags[budget], flags[sequences]) == ("1000", "30")
        assert (_own(pool).token_budget, _own(pool).max_sequences) == (1000, 30)


def test_other_limits_are_a_rank_s_too() -> None:
    able = units(model("qwen3-30b-a3b"), [device("H200")], PRICES, engine=ENGINE, widest=4).able
    pool = next(pool for pool in able if pool.data == 4)
    (made,) = Variant(Single(Fleet((pool,))), 1, 1, token_budget=2048).fleet(1).pools
    assert (made.engine.token_budget, made.engine.max_sequences) == (8192, 120)
    (made,) = Variant(Single(Fleet((pool,))), 1, 1, max_sequences=64).fleet(1).pools
    assert (made.engine.token_budget, made.engine.max_sequences) == (4000, 256)
