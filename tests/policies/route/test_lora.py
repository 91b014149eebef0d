"""Routers that heed adapters: the scores of LoRA affinity, and CaraServe's cost by ranks."""

from __future__ import annotations

import pytest

from poise.policies.route.caraserve import Caraserve
from poise.policies.route.lora_affinity import LoraAffinity
from poise.testing import a_chance, a_cluster, a_flight, a_replica, a_request

WANTED = a_request(prompt_tokens=100, ids=(), lora=7)


@pytest.mark.parametrize(
    ("replica", "score"),
    [
        (a_replica(adapter_slots=2, running_adapters=(7, 8)), 1.0),
        (a_replica(adapter_slots=2, running_adapters=(8,)), 0.8),
        (a_replica(adapter_slots=0, running_adapters=(8, 9)), 0.8),
        (a_replica(adapter_slots=2, running_adapters=(8, 9), waiting_adapters=(7,)), 0.6),
        (a_replica(adapter_slots=2, running_adapters=(8, 9)), 0.0),
        (a_replica(adapter_slots=2, running_adapters=(8,), waiting_adapters=(9,)), 0.0),
    ],
)
def test_scores_of_the_inference_extension(replica: object, score: float) -> None:
    cluster = a_cluster(replica)  # type: ignore[arg-type]
    assert LoraAffinity().affinity(7, cluster.adapters(0)) == score


def test_an_idle_adapter_on_the_device_counts_only_with_resident() -> None:
    there = a_cluster(a_replica(adapter_slots=1, running_adapters=(8,), resident_adapters=(8, 7))).adapters(0)
    assert (LoraAffinity().affinity(7, there), LoraAffinity(resident=True).affinity(7, there)) == (0.0, 1.0)


def test_affinity_yields_to_a_long_queue_by_the_weights() -> None:
    has = a_replica(adapter_slots=1, running_adapters=(7,), waiting=9)
    lacks = a_replica(adapter_slots=1, running_adapters=(8,))
    assert LoraAffinity(lora=0.9).route(WANTED, a_cluster(has, lacks), a_chance()).replica == 1
    assert LoraAffinity(lora=1.1).route(WANTED, a_cluster(has, lacks), a_chance()).replica == 0


def test_without_an_adapter_the_other_scores_decide() -> None:
    base = a_request(ids=())
    replicas = a_replica(adapter_slots=1, running_adapters=(7,), free_blocks=10), a_replica(free_blocks=900)
    assert LoraAffinity().route(base, a_cluster(*replicas), a_chance()).replica == 1


def _busy(*adapters: int) -> object:
    return a_replica(flights=tuple(a_flight(a_request(id=at + 1, lora=each)) for at, each in enumerate(adapters)))


def test_caraserve_counts_ranks_as_the_kernel_does() -> None:
    """Ranks 64 and 8: to the large one, padding adds 64 for each; to two small ones the large request adds 128 more."""
    ranks, large = (8, 64), a_request(id=9, lora=1, prompt_tokens=1)
    cluster = a_cluster(_busy(1, 1), _busy(0, 0), adapter_ranks=ranks)  # type: ignore[arg-type]
    assert Caraserve("bgmv").route(large, cluster, a_chance()).replica == 0
    small = a_request(id=9, lora=0, prompt_tokens=1)
    assert Caraserve("bgmv").route(small, cluster, a_chance()).replica == 1
    chosen = {Caraserve("mbgmv").route(large, cluster, a_chance(key=key)).replica for key in range(40)}
    assert chosen == {0, 1}, "a sum grows alike at both"


def test_caraserve_leaves_a_replica_that_would_miss_the_slo() -> None:
    """At 50 tokens a second a step takes 20 ms; 64 · 3 more ranks of 10 µs each bring it to 21.9 ms."""
    ranks = (64,)
    cluster = a_cluster(_busy(0, 0), a_replica(flights=_busy(-1, -1, -1).flights), adapter_ranks=ranks)  # type: ignore[attr-defined,arg-type]
    request = a_request(id=9, lora=0, prompt_tokens=1)
    assert Caraserve(rank_s=1e-5, tpot_s=0.022).route(request, cluster, a_chance()).replica == 0
    assert Caraserve(rank_s=1e-5, tpot_s=0.0215).route(request, cluster, a_chance()).replica == 1


def test_caraserve_prefers_the_device_that_has_the_adapter_when_idle() -> None:
    cluster = a_cluster(a_replica(), a_replica(resident_adapters=(7,)), a_replica())
    assert {Caraserve().route(WANTED, cluster, a_chance(key=key)).replica for key in range(9)} == {1}
