"""The reachable hit rate against a cache that compares tokens one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from poise.catalogue import device, model
from poise.core.errors import TraceError
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND
from poise.scenario.simulate import simulate
from poise.workload import Workload, poisson, read, sessions, shared_prefixes, uniform
from poise.workload.reuse import shared_tokens
from tests.workload.trees import Tokenized, Tokens, predecessors, prefix_trees, slow_hits, unique


@given(prefix_trees(), st.integers(1, 50))
def test_equals_the_slow_cache(tree: Tokenized, block_tokens: int) -> None:
    assert tree.workload.reachable_tokens(block_tokens).tolist() == slow_hits(tree, block_tokens)


@given(st.integers(0, 1000), st.integers(1, 40))
def test_sessions_equal_the_slow_cache(seed: int, block_tokens: int) -> None:
    """The tokens are put together from the meaning of a session, not from its ids."""
    starts = poisson(1.0, requests=4, prompt_tokens=uniform(1, 20), output_tokens=uniform(1, 9), seed=seed)
    workload = sessions(starts, turns=uniform(1, 4), think_s=1, user_tokens=uniform(1, 9), seed=seed)
    prompts: list[Tokens] = []
    outputs: list[Tokens] = []
    for row in range(len(workload)):
        before: Tokens = ()
        for earlier in predecessors(workload, row):
            before = prompts[earlier] + outputs[earlier]
        prompts.append(before + unique(("user", row), int(workload.prompt[row]) - len(before)))
        outputs.append(unique(("answer", row), int(workload.output[row])))
    slow = slow_hits(Tokenized(workload, prompts, outputs), block_tokens)
    assert workload.reachable_tokens(block_tokens).tolist() == slow
    assert workload.reachable_hit_rate(block_tokens) == pytest.approx(sum(slow) / workload.prompt.sum())


@given(st.integers(0, 1000), st.integers(1, 40))
def test_an_engine_that_never_evicts_finds_just_that(seed: int, block_tokens: int) -> None:
    """One replica with room for everything, one request at a time: then rows are computed in their order."""
    starts = poisson(1.0, requests=4, prompt_tokens=uniform(1, 90), output_tokens=uniform(1, 30), seed=seed)
    rich = shared_prefixes(starts, groups=2, prefix_tokens=uniform(1, 70), depth=2, seed=seed)
    workload = sessions(rich, turns=uniform(1, 4), think_s=1, user_tokens=uniform(1, 40), seed=seed)
    apart = replace(workload, arrival=np.arange(len(workload)) * 1000 * SECOND, after_offsets=None, after_ids=None)
    engine = Engine(block_tokens=block_tokens, kv_blocks=10**6)
    run = simulate(Cluster((Pool(model("poise/tiny"), device("H100"), engine=engine),)), apart)
    assert list(run.records.cached_tokens) == workload.reachable_tokens(block_tokens).tolist()


def test_without_identity_nothing_is_found() -> None:
    assert poisson(1.0, requests=10).reachable_hit_rate() == 0.0


def test_one_prefix_for_all_is_missed_once() -> None:
    base = poisson(1.0, requests=10, prompt_tokens=16)
    workload = shared_prefixes(base, groups=1, prefix_tokens=48)
    assert workload.reachable_hit_rate(16) == pytest.approx(9 * 3 / (10 * 4))


def test_a_prefix_that_ends_inside_a_block_counts_its_whole_blocks() -> None:
    base = poisson(1.0, requests=2, prompt_tokens=64)
    workload = shared_prefixes(base, groups=1, prefix_tokens=63)
    assert workload.reachable_hit_rate(16) == pytest.approx(48 / (2 * 127))


def test_a_prompt_that_is_all_history_computes_its_last_token() -> None:
    base = poisson(1.0, requests=2, prompt_tokens=1)
    workload = shared_prefixes(base, groups=1, prefix_tokens=64)
    workload.prompt = workload.prompt - 1
    assert workload.check().reachable_tokens(16).tolist() == [0, 48]


def published_hit_rate(workload: Workload, block_tokens: int) -> float:
    """The share of blocks that extend an unbroken, already seen prefix, as Mooncake's figures count them."""
    assert workload.prefixes is not None
    shared, blocks = shared_tokens(workload.prefixes), -(-workload.prompt // block_tokens)
    return float(np.where(shared >= workload.prompt, blocks, shared // block_tokens).sum() / blocks.sum())


# From the README of the data.
@pytest.mark.parametrize(("name", "rate"), [("conversation", 0.351), ("synthetic", 0.428)])
def test_published_hits_of_an_infinite_cache(data_dir: Path, name: str, rate: float) -> None:
    trace = read(data_dir / f"mooncake/{name}_trace.jsonl.gz")
    assert published_hit_rate(trace, 512) == pytest.approx(rate, abs=0.0005)
    assert trace.reachable_hit_rate(512) == pytest.approx(rate, abs=0.03)


def test_ids_may_be_as_large_as_they_like() -> None:
    workload = shared_prefixes(poisson(1.0, requests=3), groups=1, prefix_tokens=512)
    before = workload.reachable_hit_rate(16)
    assert workload.prefixes is not None
    workload.prefixes.ids = workload.prefixes.ids + np.int64(2**60)
    assert workload.reachable_hit_rate(16) == before > 0


def test_a_block_has_a_token() -> None:
    with pytest.raises(TraceError, match="block_tokens is 0"):
        poisson(1.0, requests=3).reachable_hit_rate(0)
