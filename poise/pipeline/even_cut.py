"""A row of costs as parts one after the other, so that the dearest part is as cheap as can be."""

from __future__ import annotations

from collections.abc import Sequence


def even_cut(costs: Sequence[float], parts: int) -> list[tuple[int, int]]:
    """Where parts begin and end: of all cuts into `parts` that are not empty one with the least largest sum.

    Dynamic programming over (parts, ends); of equal cuts the one whose last parts are shortest.
    """
    count = len(costs)
    sums = [0.0]
    for each in costs:
        sums.append(sums[-1] + each)
    best = [[float("inf")] * (count + 1) for _ in range(parts + 1)]
    came = [[0] * (count + 1) for _ in range(parts + 1)]
    best[0][0] = 0.0
    for part in range(1, parts + 1):
        for end in range(part, count + 1):
            for begin in range(part - 1, end):
                worst = max(best[part - 1][begin], sums[end] - sums[begin])
                if worst <= best[part][end]:
                    best[part][end], came[part][end] = worst, begin
    found: list[tuple[int, int]] = []
    end = count
    for part in range(parts, 0, -1):
        found.append((came[part][end], end))
        end = came[part][end]
    return found[::-1]
