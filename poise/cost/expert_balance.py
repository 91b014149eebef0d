"""Which ranks hold which experts, some of them more than once, so that the most loaded rank has as little as may be.

The greedy of EPLB (deepseek-ai/EPLB, global policy; DeepSeek-V3, arXiv 2412.19437, section 3.4): spare slots go one by
one to the expert with the most tokens a copy; then copies, the most loaded first, go to the least loaded rank that has
a slot.
"""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.errors import UserError
from poise.core.experts import ExpertLoad, Placement
from poise.cost.expert_load import inclusion


def balanced(load: ExpertLoad, experts: int, active: int, ranks: int, spare: int = 0) -> Placement:
    """A placement for each layer of a load. spare: slots beyond one an expert; all slots are a multiple of `ranks`."""
    if spare < 0 or ranks < 1 or (experts + spare) % ranks:
        raise UserError(
            f"{experts} experts with {spare} spare slots do not fill {ranks} ranks evenly; give a multiple of the ranks"
        )
    chances = inclusion(load, experts, active)
    return tuple(layer([float(each) for each in row], ranks, spare) for row in chances)


def layer(popularity: Sequence[float], ranks: int, spare: int = 0) -> tuple[tuple[int, ...], ...]:
    """The ranks of each expert of one layer, by popularity; an expert may be on a rank twice."""
    copies = [1] * len(popularity)
    for _ in range(spare):
        fullest = max(range(len(copies)), key=lambda expert: popularity[expert] / copies[expert])
        copies[fullest] += 1
    each = [(popularity[expert] / count, expert) for expert, count in enumerate(copies) for _ in range(count)]
    slots, loads = [len(each) // ranks] * ranks, [0.0] * ranks
    held: list[list[int]] = [[] for _ in popularity]
    for part, expert in sorted(each, key=lambda copy: (-copy[0], copy[1])):
        rank = min((rank for rank in range(ranks) if slots[rank]), key=lambda rank: (loads[rank], rank))
        slots[rank] -= 1
        loads[rank] += part
        held[expert].append(rank)
    return tuple(map(tuple, held))
