"""Repeat, squeeze and reorder: what the V schedules' authors make of a building block, slot by slot.

After Qi et al., "Pipeline Parallelism with Controllable Memory" (NeurIPS 2024, section 3.3): the block is repeated, its
weight gradients take the first idle slots, and operations before and behind the steady state move up into idle slots
as far as what they wait for and the peak of memory allow. Then the weight gradients are taken out, what is behind the
steady state moves up once more, and the weight gradients are put in again. Every operation takes a slot, so the order
does not depend on times.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterator, Sequence

from poise.pipeline.block import INTERVAL, Block
from poise.pipeline.op import Kind, Op
from poise.pipeline.schedule import Schedule

Slots = list[list[int]]
"""Of one rank, by kind and microbatch: forwards of the first and the second chunk, input gradients of the second and
the first, and maybe weight gradients of whichever chunk."""

Element = tuple[int, int, int, int]
"""Slot, rank, kind and microbatch."""

_WEIGHT = 4


def reordered(blocks: Sequence[Block], microbatches: int, name: str) -> Schedule:
    """The order of the operations of ranks with these blocks; its peak is that of the block's plain repetition."""
    slots = [[[first + INTERVAL * batch for batch in range(microbatches)] for first in block] for block in blocks]
    for rank in slots:
        rank.append(_idle(rank))
    for weights in (True, False):
        _Squeeze(slots, weights).run()
        if not weights:
            for rank in slots:
                rank.append(_idle(rank))
        slots = [rank[:_WEIGHT] for rank in _compact(slots)]
    ranks = (_ops(place, rank, len(blocks)) for place, rank in enumerate(slots))
    return Schedule.of(ranks, name)


def _ops(place: int, slots: Slots, stages: int) -> list[Op]:
    """The operations of a rank in order, with a weight gradient in each idle slot: those of the second chunk first."""
    near, far = place, 2 * stages - 1 - place
    kinds = ((near, Kind.F), (far, Kind.F), (far, Kind.I), (near, Kind.I))
    found = [
        (slot, Op(*kinds[kind], batch)) for kind, row in enumerate(slots) for batch, slot in enumerate(row)
    ]  # fmt: skip
    queues: list[list[Op]] = [[], []]
    done, order = [0, 0], sorted(found)
    ops: list[Op] = []
    now = 0

    def weights(idle: int) -> Iterator[Op]:
        for _ in range(idle):
            which = next((each for each in (0, 1) if done[each] < len(queues[each])), None)
            if which is None:
                return
            done[which] += 1
            yield queues[which][done[which] - 1]

    for slot, op in order:
        ops.extend(weights(slot - now))
        ops.append(op)
        now = slot + 1
        if op.kind is Kind.I:
            queues[op.stage == near].append(Op(op.stage, Kind.W, op.microbatch))
    ops.extend(weights(len(order)))
    return ops


def _idle(slots: Slots) -> list[int]:
    """The first idle slots behind input gradients, one for each."""
    taken = sorted((slot, kind > 1) for kind, row in enumerate(slots[:_WEIGHT]) for slot in row)
    found: list[int] = []
    now = owed = 0
    for slot, gradient in taken:
        filled = min(owed, slot - now)
        found.extend(range(now, now + filled))
        owed += gradient - filled
        now = slot + 1
    found.extend(range(now, now + owed))
    return found


def _elements(slots: list[Slots]) -> list[Element]:
    """All operations by slot, of one slot by rank."""
    return sorted(
        (slot, rank, kind, batch)
        for rank, rows in enumerate(slots)
        for kind, row in enumerate(rows)
        for batch, slot in enumerate(row)
    )


def _compact(slots: list[Slots]) -> list[Slots]:
    """The same order with every operation as early as it can be where each takes one slot and messages none."""
    found = [[[0] * len(row) for row in rows] for rows in slots]
    free = [0] * len(slots)
    for _, rank, kind, batch in _elements(slots):
        found[rank][kind][batch] = at = max(free[rank], _ready(found, rank, kind, batch))
        free[rank] = at + 1
    return found


def _ready(slots: list[Slots], rank: int, kind: int, batch: int) -> int:
    """The first slot behind all that an operation waits for, the microbatch before it included."""
    own = slots[rank]
    found = own[kind][batch - 1] + 1 if batch else 0
    if kind == _WEIGHT:
        return found
    beside = rank - 1 if kind in (0, 2) else rank + 1
    if 0 <= beside < len(slots):
        found = max(found, slots[beside][kind][batch] + 1)
    return max(found, own[kind - 1][batch] + 1) if kind else found


class _Squeeze:
    """Operations outside the steady state on their way into earlier idle slots, changed in place.

    The steady state lasts from the first input gradient that ends on rank 0 to the last forward that begins there.
    Without `weights` each idle slot is taken to run a weight gradient, and what is before the steady state stays.
    """

    def __init__(self, slots: list[Slots], weights: bool) -> None:
        self.slots, self.weights = slots, weights
        self.rows = [_by_slot(rank) for rank in slots]
        self.curves = [self._curve(row) for row in self.rows]
        self.most = max(level for curve in self.curves for level, _ in curve)
        self.gradients: list[list[int]] = [[] for _ in slots]

    def run(self) -> None:
        """Look at every operation once, by slot."""
        begun = ended = False
        last = len(self.slots[0][0]) - 1
        for slot, rank, kind, batch in _elements(self.slots):
            if not begun and (kind, rank) == (3, 0):
                begun = True
            moves = ended or (self.weights and not begun)
            if begun and not ended and (kind, batch) == (0, last):
                ended = True
            if moves:
                slot = self._moved(slot, rank, kind, batch)
            if kind in (2, 3):
                insort(self.gradients[rank], slot)

    def _moved(self, slot: int, rank: int, kind: int, batch: int) -> int:
        """The slot that an operation gets: the first idle one that it may take, or its own."""
        first = _ready(self.slots, rank, kind, batch)
        if kind == _WEIGHT:
            first = max(first, self.gradients[rank][batch] + 1)
        row = self.rows[rank]
        for early in range(first, slot):
            if row[early] < 0 and self._swap(rank, early, slot):
                self.slots[rank][kind][batch] = early
                return early
        return slot

    def _swap(self, rank: int, early: int, late: int) -> bool:
        """Bring an operation to an idle slot, unless the rank would then hold too much."""
        row, curve = self.rows[rank], self.curves[rank]
        row[early], row[late] = row[late], -1
        changed = []
        state = curve[early - 1] if early else (0, 0)
        for slot in range(early, len(row)):
            state = self._after(state, row[slot])
            if slot >= late and state == curve[slot]:
                break
            if state[0] > self.most:
                row[early], row[late] = -1, row[early]
                return False
            changed.append(state)
        curve[early : early + len(changed)] = changed
        return True

    def _curve(self, row: list[int]) -> list[tuple[int, int]]:
        """Activations that are held behind each slot, and weight gradients that wait for an idle one."""
        state, found = (0, 0), []
        for kind in row:
            state = self._after(state, kind)
            found.append(state)
        return found

    def _after(self, state: tuple[int, int], kind: int) -> tuple[int, int]:
        held, owed = state
        if kind in (0, 1):
            return held + 1, owed
        if kind == _WEIGHT:
            return held - 1, owed
        if self.weights:
            return state
        if kind >= 0:
            return held, owed + 1
        return (held - 1, owed - 1) if owed else state


def _by_slot(slots: Slots) -> list[int]:
    """The kind of the operation in each slot, or −1."""
    found = [-1] * (1 + max(max(row) for row in slots))
    for kind, row in enumerate(slots):
        for slot in row:
            found[slot] = kind
    return found
