"""Move operations into the gaps of a schedule, from its begin on or from its end on, at the true times.

After forward-backward improvement of project scheduling (Li and Willis, European Journal of Operational Research,
1992): a schedule that was pressed against its end and then against its begin is seldom longer, often shorter.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heappop, heappush

from poise.pipeline.constraint_graph import Direction

Orders = list[list[int]]
"""Operations of each rank in order, by their numbers in the net."""

_NEVER = 1 << 200
"""Later than any instant, of which durations may make large ones."""


def squeeze(
    way: Direction, orders: Orders, look: int, polite: bool, begins: Sequence[int] | None = None
) -> tuple[Orders, list[int]]:  # fmt: skip
    """The orders and ends of ranks that look ahead past what they would have to wait for, from where each `begins`.

    A rank takes the first of its next `look` operations that can start, unless one that it passes would then find less
    room than there is, or (`polite`) is known to arrive before that one ends. As the order of the rest stays, the
    result always runs if `orders` do.
    """
    rank_of, ticks, change, prior, follows, need, lag, user, away, room = way
    ranks = len(orders)
    left = [order[::-1] for order in orders]
    done: Orders = [[] for _ in orders]
    ends = [-1] * len(ticks)
    there = [0 if one < 0 and two < 0 else _NEVER for one, two in zip(prior, need, strict=True)]
    held, free = [0] * ranks, list(begins or [0] * ranks)
    wakes = sorted(begin * ranks + rank for rank, begin in enumerate(free))
    while wakes:
        now, rank = divmod(heappop(wakes), ranks)
        row = left[rank]
        if now < free[rank] or not row:
            continue
        level = highest = held[rank]
        limit, soonest, place = room[rank], _NEVER, 0
        for index in row[: -look - 1 : -1]:
            place -= 1
            takes = change[index]
            at = there[index]
            if at > now:
                if polite and at < soonest:
                    soonest = at
            elif takes <= 0 or highest + takes <= limit:
                end = now + ticks[index]
                if end <= soonest:
                    break
            level += takes
            if level > highest:
                highest = level
        else:
            continue
        del row[place]
        done[rank].append(index)
        held[rank] += takes
        ends[index] = free[rank] = end
        heappush(wakes, end * ranks + rank)
        after, other = follows[index], user[index]
        if after >= 0:
            far = need[after]
            if far < 0:
                there[after] = end
            elif ends[far] >= 0:
                there[after] = ends[far] + lag[after]
        if other >= 0:
            at = end + away[index]
            if prior[other] < 0 or ends[prior[other]] >= 0:
                there[other] = at
            home = rank_of[other]
            if home != rank and at > free[home]:  # else the rank looks anyway when it is free
                heappush(wakes, at * ranks + home)
    return done, ends
