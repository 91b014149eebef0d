"""The time between two tokens of a request, from the batches of a run; and the highest load under a limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from poise.core.units import SECOND
from poise.policies.place.distserve import goodput

if TYPE_CHECKING:
    from poise.scenario.python import Result


def tbt(result: Result, part: float = 0.99) -> float:
    """Seconds between two tokens of a request that `part` of all such times do not exceed; simulate with `slices`.

    A token that comes with a step of prompts waited for that step, and for those without decodes before it. Held
    decodes are one batch of many steps, of which only the first can have waited: of it the wait alone is counted, and
    of the others nothing. So a quantile that lies among them is told as 0.
    """
    waits: list[tuple[int, int]] = []
    ended: dict[tuple[int, int], int] = {}
    for start, end, replica, lane, decodes, tokens in result.run.slices:
        if not decodes:
            continue
        since = ended.get((replica, lane), start)
        waits.append(((end if tokens else start) - since, decodes))
        ended[replica, lane] = end
    left = (1 - part) * sum(each.decode_tokens for each in result.run.replicas)
    for wait, decodes in sorted(waits, reverse=True):
        left -= decodes
        if left <= 0:
            return wait / SECOND
    return 0.0


def capacity(meets: Callable[[float, int], bool], seeds: int, most: float, epsilon: float) -> list[float]:
    """For each seed the highest rate up to `most` at which `meets(rate, seed)`, to within `epsilon`."""
    return [goodput(lambda rate, seed=seed: meets(rate, seed), most, epsilon) for seed in range(seeds)]  # type: ignore[misc]
