"""BitPipe (Wu et al., 2024; order of the published code): two pipelines as Vs, in opposite directions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain

from poise.core.errors import ScheduleError
from poise.pipeline.op import B, F, Op
from poise.pipeline.schedule import Schedule

Pass = tuple[bool, bool]
"""(of the rank's own direction, through the second half of the model): what one chunk forward or backward is."""


def bitpipe(stages: int, microbatches: int) -> Schedule:
    """Bubble (p − 2) / (3m + p − 2) of the makespan at T_F = 1, T_B + T_W = 2 and m = p; weights twice.

    Rank r has chunks r and 2p − 1 − r of one copy, which takes the first half of the microbatches, and those of rank
    p − 1 − r of the other. p is even and m a multiple of p. Units of p microbatches are concatenated, each drained but
    for an overlap of the next one's start, which idles (p / 2 − 1)(m / p + 1). Peaks are 3p / 4 + 1 / 2 on the outer
    and p on the middle ranks for every m.
    """
    if stages % 2 or microbatches % stages:
        raise ScheduleError(
            f"bitpipe: {stages} stages must be even and {microbatches} microbatches a multiple of them; "
            f"give {stages + stages % 2} stages and {stages + stages % 2} or twice as many microbatches"
        )
    return Schedule.of((_rank(place, stages, microbatches) for place in range(stages)), "bitpipe")


def _rank(place: int, stages: int, microbatches: int) -> Iterator[Op]:
    half, late = stages // 2, place >= stages // 2
    edge = place - half + 1 if late else half - place
    units = microbatches // stages
    forwards = [_ops(F, list(_unit(edge, half, False)), place, stages, microbatches, each) for each in range(units)]
    backwards = [_ops(B, list(_unit(edge, half, True)), place, stages, microbatches, each) for each in range(units)]
    ahead = 3 * half + min(place, stages - 1 - place)
    yield from forwards[0][:ahead]
    for each in range(units):
        steady = forwards[each][ahead:]
        yield from chain.from_iterable(zip(steady, backwards[each], strict=False))
        drain = backwards[each][len(steady) :]
        following = forwards[each + 1][:ahead] if each + 1 < units else []
        yield from drain[: len(drain) - edge]
        for at, op in enumerate(drain[len(drain) - edge :]):
            yield op
            yield from following[at : at + 1]
        yield from following[edge:]


def _unit(edge: int, half: int, backward: bool) -> Iterator[Pass]:
    """The order of a unit's forwards; of its backwards, which begin where the forwards end, with the halves swapped."""
    first, second = backward, not backward
    yield from [(True, first)] * edge
    yield from [(False, first), (True, first)] * (half - edge)
    yield from [(False, first), (False, second)] * edge
    yield from [(True, second), (False, second)] * (half - edge)
    yield from [(True, second)] * edge


def _ops(
    make: Callable[[int, int], Op], unit: list[Pass], place: int, stages: int, microbatches: int, number: int
) -> list[Op]:
    """The operations of unit `number` on rank `place`."""
    done: Counter[Pass] = Counter()
    found = []
    for own, second in unit:
        up = own == (place >= stages // 2)
        near = stages - 1 - place if up else place
        batch = number * (stages // 2) + done[own, second] + (microbatches // 2 if up else 0)
        done[own, second] += 1
        found.append(make(2 * stages - 1 - near if second else near, batch))
    return found
