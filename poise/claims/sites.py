"""A pipeline over nodes of several sites, whose links differ: an iteration with skipped stages or without."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from poise.pipeline import Costs, make, time
from poise.pipeline.placement import place

SIZES = (5, 3, 3, 3, 3, 3)
"""Nodes of each stage, as in the reference run of SkipPipe."""
SITES = 5
WORK = 10
"""Of a forward, of the gradient of its input and of its weights, in the unit of links."""
NEAR, FAR = (1, 3), (5, 40)
"""Times of a message within a site and between two."""


def links(seed: int, slower: int = 1) -> list[list[int]]:
    """Times of a message between all nodes: drawn once for each pair of sites, for each pair of nodes within one."""
    draw, count = Random(seed), sum(SIZES)
    sites = [node % SITES for node in range(count)]
    between = {(one, two): slower * draw.randint(*FAR) for one in range(SITES) for two in range(one)}
    found = [[0] * count for _ in range(count)]
    for one in range(count):
        for two in range(one):
            pair = max(sites[one], sites[two]), min(sites[one], sites[two])
            found[one][two] = found[two][one] = between.get(pair) or draw.randint(*NEAR)
    return found


def iteration(skip: float, placed: bool, seed: int, *, microbatches: int = 20, slower: int = 1) -> float:
    """The makespan of an iteration in which each microbatch skips a part of the stages.

    placed: whether nodes take the places that the genetic search finds, or stand in the order of their numbers.
    slower: times between sites, over those in `FAR`.
    """
    times = links(seed, slower)
    order: Sequence[int] = range(sum(SIZES))
    if placed:
        order = place(times, SIZES, population=60, trials=1500, seed=seed)
    costs = Costs.of(WORK, WORK, WORK, links=[[times[one][two] for two in order] for one in order])
    made = make("skippipe", sum(SIZES), microbatches, costs=costs, skip=skip, replicas=SIZES)
    return float(time(made, costs).makespan)
