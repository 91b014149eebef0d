"""ZB-V (Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024, section 6): two chunks per rank, placed as a V."""

from __future__ import annotations

from collections.abc import Iterator

from poise.pipeline.costs import Costs
from poise.pipeline.fitted import EFFORT, fitted
from poise.pipeline.op import F, I, Op, W
from poise.pipeline.schedule import Schedule


def zb_v(stages: int, microbatches: int, costs: Costs | None = None, effort: int = EFFORT) -> Schedule:
    """No bubble in the span at T_F = T_B = T_W, makespan 3m + (p − 1) / 2, peak p, for m ≥ 2p − 1.

    Rank r has chunks r and 2p − 1 − r. For fewer microbatches the operations of the missing ones are left out. With
    `costs` the order is squeezed at their times within its peak, as the paper's heuristic fits its own to them; it is
    the published one where that is as fast. `effort` are the operations that squeezing may place.
    """

    def published(count: int) -> Schedule:
        ranks = (_rank(place, stages, max(2 * stages - 1, count)) for place in range(stages))
        real = ([op for op in rank if op.microbatch is not None and op.microbatch < count] for rank in ranks)
        return Schedule.of(real, "zb_v")

    return fitted((published,), microbatches, costs, effort)


def _rank(place: int, stages: int, microbatches: int) -> Iterator[Op]:
    first, second = place, 2 * stages - 1 - place
    fill = 2 * (stages - place) - 1
    yield from (F(first, batch) for batch in range(fill))
    for batch in range(place):
        yield F(second, batch)
        yield F(first, fill + batch)
    for batch in range(stages - place):
        yield F(second, place + batch)
        yield I(second, batch)
        yield W(second, batch)
    began, turned = fill + place, stages
    for batch in range(microbatches - stages):
        if began < microbatches:
            yield F(first, began)
            began += 1
        yield I(first, batch)
        yield W(first, batch)
        yield F(second, turned)
        turned += 1
        yield I(second, turned - 1 - place)
        yield W(second, turned - 1 - place)
    yield from _drain(first, second, place, stages, microbatches)


def _drain(first: int, second: int, place: int, stages: int, microbatches: int) -> Iterator[Op]:
    """What is left: p input gradients of the first chunk and `place` of the second, then the weight gradients."""
    left = microbatches - stages
    for step in range(place):
        yield I(first, left + step)
        yield I(second, microbatches - place + step)
    for step in range(stages - place):
        yield I(first, left + place + step)
        yield W(first, left + step)
    yield from (W(second, batch) for batch in range(microbatches - place, microbatches))
    yield from (W(first, batch) for batch in range(microbatches - place, microbatches))
