"""The one loop over a schedule: every rank runs its operations in order, each as soon as what it needs is there."""

from __future__ import annotations

from collections.abc import Sequence


def walk(
    first: Sequence[int], needs: Sequence[int], ticks: Sequence[int], lags: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Start and end of every operation, and for each rank the index at which it stopped.

    `first[r]` to `first[r + 1]` are the operations of rank r; `needs` is the operation elsewhere that each waits for
    (−1: none), `ticks` how long each takes, `lags` how long what it needs takes to arrive. A rank that stops before its
    end is part of a deadlock. Each operation is looked at once or twice: linear in their number.
    Few operations have several that wait for them, which are kept apart.
    """
    count, ranks = first[-1], len(first) - 1
    starts, ends, waiter = [0] * count, [-1] * count, [-1] * count
    at, free = list(first[:-1]), [0] * ranks
    ready = list(range(ranks))
    others: dict[int, list[int]] = {}
    while ready:
        rank = ready.pop()
        index, last, now = at[rank], first[rank + 1], free[rank]
        while index < last:
            need = needs[index]
            if need >= 0:
                there = ends[need]
                if there < 0:
                    if waiter[need] >= 0:
                        others.setdefault(need, []).append(rank)
                    else:
                        waiter[need] = rank
                    break
                there += lags[index]
                if there > now:
                    now = there
            starts[index] = now
            now += ticks[index]
            ends[index] = now
            if waiter[index] >= 0:
                ready.append(waiter[index])
                if others:
                    ready.extend(others.pop(index, ()))
            index += 1
        at[rank], free[rank] = index, now
    return starts, ends, at
