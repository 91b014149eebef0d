"""The plain step: what most steps of most runs are, composed in one pass over the prompts.

A batcher that is `budgeted` (`policy.Batcher`) fills one token budget as vLLM v1 does: the next chunk of each prompt
under way, then waiting requests in order while budget, sequences and KV blocks last. Where an upper bound of the blocks
in use says that all of it fits, `fill` puts the same chunks into the step as the batcher would, but asks for no room
and checks no entry. Wherever the bound leaves a question open, or KV comes from elsewhere, it touches nothing and the
batcher is asked; so a plain step is never another step, only a quicker one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from poise.core.action import Entry
from poise.core.made import made
from poise.core.policy import Batcher
from poise.core.request import Phase, Sequence

if TYPE_CHECKING:
    from poise.core.lane import LaneState
    from poise.core.replica import Replica


def budgeted(batcher: Batcher) -> bool:
    """Whether the batcher's own class promises what `Batcher` says of `budgeted`; no subclass inherits a promise."""
    return bool(vars(type(batcher)).get("budgeted", False))


def may_fill(replica: Replica) -> bool:
    """Whether steps of this replica may be plain: one lane, a budgeted batcher, and a queue whose order is fixed."""
    one_lane = len(replica.engine.lanes) == 1
    return one_lane and budgeted(replica.batcher) and replica.flows is None and not replica.one_step


def fill(lane: LaneState, room: int) -> bool:
    """Admit and enlarge what a budgeted batcher would, as `lane.chunks`; False, and nothing is done, if it may differ.

    Between two steps only, with no decode paused and nobody preempted just now.  room: blocks that are surely free or
    evictable, beside what the step's decodes take.
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
    if room < 0 or not _plan_admissions(lane, plan, budget, cap, room):
        return False
    for sequence, tokens in plan:
        _compute(lane, sequence, tokens)
    return True


def _plan_admissions(lane: LaneState, plan: list[tuple[Sequence, int]], budget: int, cap: int, room: int) -> bool:
    """Add waiting requests in order, as far as budget and sequences last; False where one may not fit in `room`."""
    replica, engine = lane.replica, lane.engine
    waiting = replica.waiting
    if not waiting:
        return True
    pool = replica.pool
    block = pool.block
    places = engine.max_sequences - replica.running
    for sequence in waiting:
        if budget <= 0 or places <= 0:
            return True
        if sequence.own is not None or sequence.swapped or sequence.source >= 0:
            return False
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
            return False
        room -= -(-tokens // block) + idle
        budget -= tokens
        places -= 1
        plan.append((sequence, tokens))
    return True


def _compute(lane: LaneState, sequence: Sequence, tokens: int) -> None:
    """Put a chunk into the step; of a request admitted now, no more than its prefix, cached by now, leaves over."""
    replica = lane.replica
    if sequence.phase == Phase.WAITING:
        replica.admit(sequence, lane)
        left = sequence.request.prompt_tokens + sequence.produced - sequence.computed
        if tokens > left:
            tokens = left
    replica.pool.grow(sequence, tokens)
    lane.chunks.append((sequence, made(Entry, (sequence.id, tokens, 0, 0))))
