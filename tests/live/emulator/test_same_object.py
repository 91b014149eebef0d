"""What the simulator drives and what the engine serves is one object: the same arrivals give the same instants."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from poise.core.request import RequestView
from poise.core.spec import Belief, Cluster
from poise.live.emulator.options import Options, plan
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.preempt.last_admitted import LastAdmitted
from poise.scenario.simulate import simulate
from poise.testing import Client
from poise.workload.table import Prefixes, Workload
from tests.live.emulator.hand import play


def a_workload(seed: int, count: int, rate: float, block: int) -> Workload:
    """Poisson arrivals, some of which share a prefix of whole blocks; each block an extent, as the engine has it."""
    rng = np.random.default_rng(seed)
    arrival = np.cumsum(rng.exponential(1e12 / rate, count)).astype(np.int64)
    prompt = rng.integers(1, 3000, count).astype(np.int32)
    family = rng.integers(0, 4, count)
    shared = np.minimum(rng.integers(0, 100, count), prompt // block)
    counts = prompt // block
    offsets = np.concatenate(([0], np.cumsum(counts)))
    ids = np.concatenate(
        [
            np.where(np.arange(n) < s, family[row] * 10_000 + np.arange(n), 100_000 * (row + 1) + np.arange(n))
            for row, (n, s) in enumerate(zip(counts, shared, strict=True))
        ]
    ).astype(np.int64)
    ends = np.concatenate([block * (1 + np.arange(n)) for n in counts]).astype(np.int32)
    output = rng.integers(1, 300, count).astype(np.int32)
    return Workload(arrival, prompt, output, prefixes=Prefixes(offsets, ids, ends)).check()


def clients(workload: Workload) -> list[Client]:
    prefixes = workload.prefixes
    assert prefixes is not None
    made = []
    for row in range(len(workload)):
        first, last = prefixes.offsets[row], prefixes.offsets[row + 1]
        ids, ends = tuple(prefixes.ids[first:last].tolist()), tuple(prefixes.ends[first:last].tolist())
        request = RequestView(row, int(workload.arrival[row]), int(workload.prompt[row]), 0, ids, ends)
        made.append(Client(request, int(workload.output[row])))
    return made


@pytest.mark.parametrize(
    ("options", "rate"),
    [
        (Options(), 20.0),
        (Options(model="qwen3-32b", tensor_parallel_size=2, max_num_batched_tokens=2048), 6.0),
        (Options(num_gpu_blocks_override=900, max_model_len=4096, block_size=32), 30.0),
        (Options(num_gpu_blocks_override=220, max_model_len=3500), 10.0),
    ],
    ids=("plain", "chunks", "short of blocks", "preempting"),
)
def test_instants_equal_those_of_the_simulation(options: Options, rate: float) -> None:
    """First token and finish of every request, to the picosecond."""
    made = plan(options)
    workload = a_workload(7, 300, rate, options.block_size)
    run = simulate(
        Cluster((made.pool,)), workload, Policies(batcher=Chunked(), preempt=LastAdmitted()), belief=Belief(0.0)
    )
    replica, _ = made.replica(Policies())
    kept = play(replica, clients(workload))
    records = run.records
    assert [each.at[0] for each in kept.values()] == list(records.first_token_at)
    assert [each.done_at for each in kept.values()] == list(records.ended_at)
    assert [each.made for each in kept.values()] == list(records.output_tokens)
    if made.blocks == 220:
        assert sum(records.preemptions) > 10, "the case is to preempt"
    assert sum(records.cached_tokens) > 1000, "the case is to hit the cache"


@given(st.integers(0, 1 << 30), st.integers(150, 600), st.floats(1.0, 200.0))
@settings(max_examples=10)
def test_instants_equal_under_any_load(seed: int, blocks: int, rate: float) -> None:
    options = Options(num_gpu_blocks_override=blocks + 60, max_model_len=3300, max_num_seqs=32)
    made = plan(options)
    workload = a_workload(seed, 60, rate, options.block_size)
    run = simulate(
        Cluster((made.pool,)), workload, Policies(batcher=Chunked(), preempt=LastAdmitted()), belief=Belief(0.0)
    )
    replica, _ = made.replica(Policies())
    kept = play(replica, clients(workload))
    assert [each.at[0] for each in kept.values()] == list(run.records.first_token_at)
    assert [each.done_at for each in kept.values()] == list(run.records.ended_at)
