"""What the flags come to, and what is said of flags that cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from poise.core.errors import CapacityError, UserError
from poise.core.estimate import Chunk, StepShape
from poise.cost import Roofline
from poise.live.emulator.fault import Fault, Faults, read_fault
from poise.live.emulator.options import Options, plan
from poise.live.emulator.publish import parse_kv_events
from poise.live.emulator.slow import Slow
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked


def test_defaults_are_vllms() -> None:
    made = plan(Options())
    engine = made.pool.engine
    assert (engine.token_budget, engine.max_sequences, engine.block_tokens) == (8192, 256, 16)
    assert (made.name, made.names, made.context) == ("llama-3.1-8b", ("llama-3.1-8b",), 131_072)
    assert made.blocks * 16 > made.context


def test_the_context_is_what_the_cache_holds() -> None:
    assert plan(Options(num_gpu_blocks_override=100)).context == 1600
    assert plan(Options(num_gpu_blocks_override=100, max_model_len=1000)).context == 1000
    with pytest.raises(UserError, match="--max-model-len 2000 is more than the KV cache holds, 1600 tokens"):
        plan(Options(num_gpu_blocks_override=100, max_model_len=2000))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"block_size": 0}, "--block-size 0 must be 1 or more"),
        ({"max_model_len": -1}, "--max-model-len -1 must not be negative"),
        ({"port": 70_000}, "--port 70000 is not a port"),
        ({"speed": 0.0}, "--speed 0 must be above 0"),
        ({"gpu_memory_utilization": 1.5}, "--gpu-memory-utilization 1.5 must be above 0, up to 1"),
        ({"max_num_batched_tokens": 100}, "--max-num-batched-tokens 100 must not be below --max-num-seqs 256"),
    ],
)
def test_flags_that_cannot_be(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        Options(**given)


def test_models_and_devices_are_found_or_named() -> None:
    with pytest.raises(UserError, match="llama"):
        plan(Options(model="lama-3"))
    with pytest.raises(UserError, match="H1000"):
        plan(Options(device="H1000"))
    with pytest.raises(CapacityError, match="tensor"):
        plan(Options(model="llama-3.1-405b"))


def test_each_replica_has_policies_of_its_own() -> None:
    batcher = Chunked()
    one, _ = plan(Options()).replica(Policies(batcher=batcher))
    other, _ = plan(Options()).replica(Policies(batcher=batcher))
    assert one.batcher is not other.batcher is not batcher


def test_kv_events_config() -> None:
    config = parse_kv_events('{"enable_kv_cache_events": true, "endpoint": "tcp://127.0.0.1:5601", "topic": "kv@1"}')
    assert (config.on, config.binds, config.buffer_steps) == (True, False, 10_000)
    assert parse_kv_events('{"endpoint": "tcp://*:5557"}').binds
    assert parse_kv_events('{"endpoint": "tcp://[::]:5557"}').binds
    assert parse_kv_events('{"endpoint": "ipc:///tmp/x"}').binds
    assert not parse_kv_events('{"enable_kv_cache_events": true, "publisher": "null"}').on
    for text in ("{", "[]", '{"endpoint": 5}'):
        with pytest.raises(UserError, match="--kv-events-config"):
            parse_kv_events(text)


def test_slowness_is_a_factor_of_every_part() -> None:
    slow = Slow(Roofline().build(plan(Options()).pool))
    shape = StepShape(4, (Chunk(100, 50),))
    before = slow.step(shape)
    slow.factor = 3.0
    after = slow.step(shape)
    assert (after.base, after.per_kv) == (3 * before.base, 3 * before.per_kv)
    assert slow.describe()["slow_factor"] == 3.0
    assert slow.kv_bytes(10) == slow.estimator.kv_bytes(10) and slow.swap(1000) == 3 * slow.estimator.swap(1000)


def test_faults_are_read() -> None:
    assert read_fault(b'{"kind": "slow", "factor": 3, "for_s": 1.5}') == Fault("slow", 1.5, factor=3.0)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"{}",
        b'{"kind": "flood"}',
        b'{"kind": "cut", "count": 0}',
        b'{"kind": "cut", "after_tokens": -1}',
        b'{"kind": "stall", "for_s": -1}',
        b'{"kind": "slow", "factor": 0}',
        b'{"kind": "reject", "status": 200}',
        b'{"kind": "garbage", "form": "poem"}',
        b'{"kind": "stall", "for_s": "long"}',
    ],
)
def test_faults_that_cannot_be(body: bytes) -> None:
    with pytest.raises(UserError, match="fault"):
        read_fault(body)


def test_a_fault_meets_so_many_requests() -> None:
    faults = Faults()
    faults.begin(Fault("cut", count=2))
    faults.begin(Fault("reject"))
    assert [faults.meet("cut") is not None for _ in range(4)] == [True, True, False, False]
    assert "cut" not in faults and all(faults.meet("reject") for _ in range(5))
    faults.begin(Fault("reject", count=1))
    assert faults.meet("reject") is not None and faults.meet("reject") is None
    assert faults.end("reject") is None
