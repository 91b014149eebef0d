"""The plain step, which most steps of most runs are: composed in one pass over the prompts.

A batcher that is `budgeted` (`policy.Batcher`) fills one token budget as vLLM v1 does: the next chunk of each prompt
under way, then waiting requests in order while budget, sequences and KV blocks last. Where an upper bound of the blocks
in use shows that all of it fits, `fill` puts the same chunks into the step as the batcher would, without the checks
of room and entries. Wherever the bound leaves a question open, or KV comes from elsewhere, it touches nothing and the
batcher is asked; so a plain step is never another step, only a quicker one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.action import Entry
from poise.core.fast_tuple import made
from poise.core.policy import Batcher
from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica


def budgeted(batcher: Batcher) -> bool:
    """Whether the batcher's own class sets `budgeted` as in `Batcher`; subclasses do not inherit it."""
    return bool(vars(type(batcher)).get("budgeted", False))


def may_fill(replica: Replica) -> bool:
    """Whether steps of this replica may be plain: one lane, a budgeted batcher, and a queue whose order is fixed."""
    one_lane = len(replica.engine.lanes) == 1
    return one_lane and budgeted(replica.batcher) and replica.flows is None and not replica.one_step


def fill(lane: LaneState, room: int) -> int:
    """Admit and enlarge what a budgeted batcher would, as `lane.chunks`; -1, and nothing is done, if it may differ.

    Between two steps only, with no decode paused and none preempted just now.  room: blocks that are surely free or
    evictable, besides those of the step's decodes.  Returns those that surely are then.
    """
    plan: list[tuple[Sequence, int]] = []
    block = lane.replica.pool.block
    budget = lane.budget - lane.group.n
    cap = lane.long_prefill or budget
    for sequence in lane.prefilling:
        computed = sequence.computed
        tokens = sequence.request.prompt_tokens + sequence.produced - computed
        if tokens > budget:
            tokens = budget
        if tokens > cap:
            tokens = cap
        if tokens > 0:
            budget -= tokens
            room -= -(-(computed + tokens) // block) - -(-computed // block)
            plan.append((sequence, tokens))
    if room >= 0 and lane.replica.waiting:
        room = _plan_admissions(lane, plan, budget, cap, room)
    if room >= 0:
        replica, pool, chunks = lane.replica, lane.replica.pool, lane.chunks
        for sequence, tokens in plan:
            if sequence.phase == Phase.WAITING:
                replica.admit(sequence, lane)
                left = sequence.request.prompt_tokens + sequence.produced - sequence.computed
                if tokens > left:  # more of its prefix is cached by now
                    tokens = left
            computed = sequence.computed  # `pool.grow`, written out
            pool.explicit += -(-(computed + tokens) // block) - -(-computed // block)
            sequence.chunk = tokens
            if sequence.request.ids:
                pool.register(sequence)
            chunks.append((sequence, made(Entry, (sequence.id, tokens, 0, 0))))
    return room


def _plan_admissions(lane: LaneState, plan: list[tuple[Sequence, int]], budget: int, cap: int, room: int) -> int:
    """Add waiting requests in order, as far as budget and sequences last; -1 where one may not fit in `room`."""
    replica, engine = lane.replica, lane.engine
    pool = replica.pool
    block = pool.block
    places = engine.max_sequences - replica.running
    waiting = replica.waiting if replica.adapters is None else lane.queue()
    for sequence in waiting:
        if budget <= 0 or places <= 0:
            break
        if sequence.own is not None or sequence.swapped or sequence.source >= 0:
            return -1
        request = sequence.request
        left = request.prompt_tokens + sequence.produced
        idle = 0
        if request.ids:
            hit = pool.lookup(sequence)
            if hit:
                left -= hit * block
                idle = pool.idle_hit(sequence)
        tokens = left
        if tokens > budget:
            tokens = budget
        if tokens > cap:
            tokens = cap
        if -(-(left if engine.reserve_prompt else tokens) // block) + idle > room:
            return -1
        room -= -(-tokens // block) + idle
        budget -= tokens
        places -= 1
        plan.append((sequence, tokens))
    return room
