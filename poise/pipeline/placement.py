"""Which node takes which place of a pipeline with replicas: a genetic search over the times between nodes.

After the placement of SkipPipe (Blagoev et al., 2025) and DT-FM (Yuan et al., NeurIPS 2022): messages between stages go
to the nearest nodes, gradients within a stage over its slowest link.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from poise.core.chance import Chance
from poise.core.errors import ScheduleError

Order = tuple[int, ...]
"""The node of each rank; ranks of a stage follow one another."""


def place(
    links: Sequence[Sequence[float]], sizes: Sequence[int], *, factor: float = 1.0, seed: int = 0,
    population: int = 200, trials: int = 8000,
) -> Order:  # fmt: skip
    """The order of nodes with the least `slowness` that was found; `sizes` are the ranks of each stage.

    `factor` is how much more the exchange of gradients within a stage takes than one message: its bytes over those of
    all messages of a step. A child has one parent's stages up to a cut and the other's order behind it, then two of its
    nodes in different stages may be swapped; it takes the place of the worst of the population if it is better.
    """
    nodes = len(links)
    if sum(sizes) != nodes or min(sizes, default=0) < 1 or any(len(row) != nodes for row in links):
        raise ScheduleError(f"placement: sizes {' '.join(map(str, sizes))} and links of {nodes} nodes do not agree")
    if population < 2 or trials < 0:
        raise ScheduleError(f"placement: population {population}, trials {trials}; give 2 or more, and 0 or more")
    chance = Chance(seed)
    kept = sorted((slowness(links, sizes, order, factor), order) for order in _start(chance, nodes, population))
    for trial in range(trials):
        chance.key = trial
        one, two = (kept[int(chance.draw(name) ** 2 * population)][1] for name in ("one", "two"))
        child = _child(chance, one, two)
        entry = slowness(links, sizes, child, factor), child
        if entry < kept[-1] and entry not in kept:
            kept[-1] = entry
            kept.sort()
    return kept[0][1]


def slowness(links: Sequence[Sequence[float]], sizes: Sequence[int], order: Sequence[int], factor: float) -> float:
    """The way through all stages, each step to the node that has the longest way from its nearest, and `factor` times
    the slowest link within a stage."""
    cuts = [0, *accumulate(sizes)]
    stages = [order[low:high] for low, high in pairwise(cuts)]
    way = sum(max(min(links[here][there] for here in one) for there in two) for one, two in pairwise(stages))
    within = max((links[here][there] for stage in stages for here in stage for there in stage), default=0.0)
    return way + factor * within


def _start(chance: Chance, nodes: int, population: int) -> list[Order]:
    found = []
    for number in range(population):
        keys = []
        for node in range(nodes):
            chance.key = number * nodes + node
            keys.append((chance.bits("start"), node))
        found.append(tuple(node for _, node in sorted(keys)))
    return found


def _child(chance: Chance, one: Order, two: Order) -> Order:
    cut = int(chance.draw("cut") * (len(one) + 1))
    head = one[:cut]
    child = [*head, *(node for node in two if node not in head)]
    if chance.draw("swap") < 0.7:
        a, b = (int(chance.draw(name) * len(child)) for name in ("first", "second"))
        child[a], child[b] = child[b], child[a]
    return tuple(child)
