"""The one loop over a Program: every lane runs its tasks in order, each as soon as what it waits for is there."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from poise.program.index import Index


class Walked(NamedTuple):
    """Start and end of every task (−1: it never ran), the order in which they ran, and where each lane stopped."""

    starts: list[int]
    ends: list[int]
    order: list[int]
    at: list[int]


def walk(index: Index, ticks: Sequence[int], lags: Sequence[int], rendezvous: bool = False) -> Walked:
    """Run all tasks, without contention for links.

    ticks: of each task.  lags: of each receive, from the end of its send on.  A send takes its ticks of its lane and
    does not wait for the receiver; with `rendezvous` both start together. So do the members of a collective, each of
    which ends after its own ticks. A lane
    that stops before its end is part of a deadlock. Linear in tasks and reads.
    """
    joint, members = _paired(index) if rendezvous else (index.meeting, index.members)
    source = [-1] * len(index.tasks) if rendezvous else index.source
    first, lane_of, needs = index.first, index.lane, index.needs
    starts, ends = [-1] * len(index.tasks), [-1] * len(index.tasks)
    at, free = list(first[:-1]), [0] * len(index.lanes)
    met, met_at = [0] * len(members), [0] * len(members)
    waiting: dict[int, list[int]] = {}
    order: list[int] = []
    ready = list(range(len(index.lanes)))
    while ready:
        lane = ready.pop()
        task, last, now = at[lane], first[lane + 1], free[lane]
        while task < last:
            blocked = -1
            for need in needs[task]:
                end = ends[need]
                if end < 0:
                    blocked = need
                    break
                if end > now:
                    now = end
            else:
                if (send := source[task]) >= 0:
                    end = ends[send]
                    if end < 0:
                        blocked = send
                    elif end + lags[task] > now:
                        now = end + lags[task]
            if blocked >= 0:
                if blocked in waiting:
                    waiting[blocked].append(lane)
                else:
                    waiting[blocked] = [lane]
                break
            node = joint[task]
            if node >= 0:
                met[node] += 1
                met_at[node] = now = max(met_at[node], now)
                if met[node] < len(members[node]):
                    break  # the last of them starts all
                for each in members[node]:
                    starts[each] = now
                    ends[each] = end = now + ticks[each]
                    order.append(each)
                    other = lane_of[each]
                    at[other], free[other] = each + 1, end
                    if other != lane:
                        ready.append(other)
                    if each in waiting:
                        ready += waiting.pop(each)
                now = ends[task]
                task += 1
                continue
            starts[task] = now
            now += ticks[task]
            ends[task] = now
            order.append(task)
            if task in waiting:
                ready += waiting.pop(task)
            task += 1
        at[lane], free[lane] = task, now
    return Walked(starts, ends, order, at)


def _paired(index: Index) -> tuple[list[int], list[list[int]]]:
    """Collectives and, as meetings of two, messages."""
    joint, members = list(index.meeting), list(index.members)
    for receive, send in enumerate(index.source):
        if send >= 0:
            joint[receive] = joint[send] = len(members)
            members.append([send, receive])
    return joint, members
