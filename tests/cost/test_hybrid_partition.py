"""Cuts of a model: the search against every cut, memory, and limits that are known."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from poise.catalogue import device, model
from poise.core.errors import CapacityError
from poise.core.model import Model
from poise.core.spec import Pool
from poise.cost.hybrid_partition import Aim, Hybrid, Partition, Stage

SMALL = Model("small", 6, 1024, 8, 8, 128, 32_000, 4096, 4096)
ADA, LITTLE = device("RTX-4090"), replace(device("L4"), memory_bytes=150_000_000)


def cuts(layers: int, at: int, devices: int) -> Iterator[tuple[Stage, ...]]:
    """Every cut, without a search."""
    if not layers:
        yield ()
    for size in (1, 2, 4):
        for some in range(1, layers + 1) if at + size <= devices else ():
            for rest in cuts(layers - some, at + size, devices):
                yield (Stage(some, at, at + size), *rest)


@pytest.mark.parametrize("aim", ["latency", "throughput"])
@pytest.mark.parametrize("devices", [(ADA, ADA), (ADA, LITTLE, LITTLE), (LITTLE, LITTLE, ADA, ADA)])
def test_the_search_finds_the_best_of_all_cuts(aim: Aim, devices: tuple[object, ...]) -> None:
    hybrid = Hybrid(Pool(SMALL, ADA), devices, batch=2, context=128)  # type: ignore[arg-type]

    def figure(partition: Partition) -> float:
        return partition.latency_s if aim == "latency" else partition.slowest_s

    every = [hybrid.evaluated(stages) for stages in cuts(6, 0, len(devices))]
    assert figure(hybrid.best(aim, (1, 2, 4))) == pytest.approx(min(map(figure, every)))


def test_every_layer_is_placed_once() -> None:
    found = Hybrid(Pool(model("llama-2-13b"), ADA), (ADA, ADA, ADA)).best("throughput")
    assert sum(stage.layers for stage in found.stages) == 40
    assert found.slowest_s <= found.latency_s
    assert all(one.last == two.first for one, two in zip(found.stages, found.stages[1:], strict=False))


def test_a_small_device_gets_fewer_layers() -> None:
    found = Hybrid(Pool(SMALL, ADA), (LITTLE, ADA), batch=1, context=64).uniform(1)
    assert found.latency_s == float("inf")
    best = Hybrid(Pool(SMALL, ADA), (LITTLE, ADA), batch=1, context=64).best("throughput")
    assert len(best.stages) == 1 or best.stages[0].layers < best.stages[1].layers


def test_what_does_not_fit() -> None:
    with pytest.raises(CapacityError, match="fits no cut"):
        Hybrid(Pool(model("llama-2-70b"), ADA), (ADA, ADA)).best()
