"""What a step of data parallelism hides: closed forms, and two servers that stand for many."""

from __future__ import annotations

import pytest

from poise.program.passes import data_parallel
from poise.sim.step import overlap
from poise.sim.step.overlap import Decoder, Machine, ddp, fsdp

MODEL = Decoder(layers=3, hidden=64, ffn=256, vocab=1000)
MACHINE = Machine(flops=1e9, per_node=2, ranks_per_nic=2, scaleup_bw=2e8, scaleout_bw=1e8, latency_s=1e-3)
BYTES = 4 * sum(MODEL.weights().values)


@pytest.mark.parametrize("replicas", [2, 4, 16])
def test_one_bucket_is_seen_whole(replicas: int) -> None:
    found = ddp(MODEL, 32, replicas, bucket_mb=1e6, first_mb=1e6, machine=MACHINE)
    sent = 2 * (replicas - 1) / replicas * BYTES
    assert found.computing_s == pytest.approx(3 * 32 * sum(MODEL.weights().flops) / MACHINE.flops)
    assert found.sent_bytes == pytest.approx(sent)
    slowest = MACHINE.scaleup_bw if replicas == 2 else MACHINE.scaleout_bw
    assert found.step_s == pytest.approx(found.computing_s + MACHINE.latency_s + sent / slowest)
    assert found.exposed() == pytest.approx(1 - found.computing_s / found.step_s)


@pytest.mark.parametrize("bucket_mb", [0.0, 0.1, 1.0])
def test_two_servers_stand_for_all_of_a_ring(bucket_mb: float) -> None:
    """Eight servers, simulated whole, take the same time."""
    weights = MODEL.weights()
    cap = bucket_mb * overlap.MIB
    sizes = [4 * each for each in weights.values]
    whole = data_parallel(overlap._alone(weights, 1), 16, sizes, cap=cap, first=cap)
    whole.prove()
    found = ddp(MODEL, 32, 16, bucket_mb=bucket_mb, machine=MACHINE)
    assert found == pytest.approx(overlap._run(whole, weights, 32, MACHINE))


def test_accumulating_sends_once() -> None:
    once, each = (ddp(MODEL, 32, 4, microbatches=4, accumulate=way, machine=MACHINE) for way in (True, False))
    assert each.sent_bytes == pytest.approx(4 * once.sent_bytes)
    assert once.sent_bytes == pytest.approx(ddp(MODEL, 32, 4, machine=MACHINE).sent_bytes)
    assert once.step_s < each.step_s


@pytest.mark.parametrize("merge", [True, False])
def test_sharded_weights_are_gathered_twice_and_scattered_once(merge: bool) -> None:
    """The last matrix of the forward is the first of the backward, and gathered once."""
    found = fsdp(MODEL, 4096, 2, merge=merge, machine=MACHINE)
    values = MODEL.weights().values
    assert found.sent_bytes == pytest.approx(((2 * sum(values) - values[-1]) * 2 + sum(values) * 4) / 2)
    assert found.collectives <= (2 * len(values) - 1) + len(values)


def test_merging_hides_the_start_of_collectives() -> None:
    """Without bytes: the embedding, the first norms and Q at either end are seen, as the first two compute nothing."""
    slow = MACHINE._replace(scaleup_bw=1e15, latency_s=5e-3)
    tokens = 65536
    plain, merged = (fsdp(MODEL, tokens, 2, merge=way, machine=slow) for way in (False, True))
    assert merged.step_s - merged.computing_s == pytest.approx(6 * slow.latency_s)
    assert merged.collectives < plain.collectives / 2 and merged.step_s < plain.step_s
