"""The decoding requests of one lane, advanced together in closed form: a token each at every step.

A member's computed tokens are `offset + step`, with one `step` counter for the whole group. So sums over members are
sums of offsets, a finish is a number computed once, and nothing is touched per token.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from operator import mul
from typing import Final

from poise.core.request import Sequence

_ID_BITS: Final = 40
_ID_MASK: Final = (1 << _ID_BITS) - 1
_FAR: Final = 1 << 60
_FEW: Final = 3
"""Steps for which blocks are rather counted one after another than summed up anew."""


class DecodeGroup:
    """Members, their sums, and the steps at which one of them finishes or outgrows the window.

    members: by id, in order of joining.  prompts: Σ prompt tokens.  offsets: Σ offset.
    shared: blocks of members that lie in shared extents.
    next_finish: the step at which the next member finishes; later than any other without members.
    window: tokens a sliding-window layer sees (0: none); short: members still below it, `short_offsets` their Σ offset.
    """

    __slots__ = (
        "_at", "_crossings", "_finishes", "_phases", "_ramps", "_sum", "block", "members", "n", "next_finish",
        "offsets", "prompts", "shared", "short", "short_offsets", "step", "window",
    )  # fmt: skip

    def __init__(self, block: int, window: int = 0) -> None:
        self.block = block
        self.window = window
        self.members: dict[int, Sequence] = {}
        self.n = 0
        self.step = 0
        self.prompts = 0
        self.offsets = 0
        self.shared = 0
        self.short = 0
        self.short_offsets = 0
        self._phases = [0] * block  # how many offsets leave which remainder by the block size
        self._ramps: dict[int, list[int]] = {}
        self.next_finish = _FAR
        self._at = 0  # the step for which the blocks of the members were summed up last
        self._sum = 0
        self._finishes: list[int] = []
        self._crossings: list[int] = []

    def __iter__(self) -> Iterator[Sequence]:
        return iter(self.members.values())

    def join(self, sequence: Sequence) -> None:
        """Add a sequence whose prompt is computed and whose first token is made."""
        step = self.step
        offset = sequence.computed - step
        sequence.offset = offset
        self.members[sequence.id] = sequence
        self.n += 1
        self.prompts += sequence.request.prompt_tokens
        self.offsets += offset
        self.shared += sequence.shared
        self._phases[offset % self.block] += 1
        self._sum += -(-(offset + self._at) // self.block)
        done = step + sequence.output_tokens - sequence.produced
        sequence.done_at_step = done
        heappush(self._finishes, done << _ID_BITS | sequence.id)
        if done < self.next_finish:
            self.next_finish = done
        if self.window:
            self._join_window(sequence)

    def leave(self, sequence: Sequence) -> None:
        """Remove a member; its `computed` and `produced` are set to their current values."""
        self._let_go(sequence)
        if sequence.done_at_step == self.next_finish:
            self.finished()  # none is; this finds the next one

    def _let_go(self, sequence: Sequence) -> None:
        del self.members[sequence.id]
        offset = sequence.offset
        self.n -= 1
        self.prompts -= sequence.request.prompt_tokens
        self.offsets -= offset
        self.shared -= sequence.shared
        self._phases[offset % self.block] -= 1
        self._sum -= -(-(offset + self._at) // self.block)
        sequence.computed = offset + self.step
        sequence.produced = sequence.output_tokens - (sequence.done_at_step - self.step)
        if self.window and sequence.short:
            self._outgrow(sequence)

    def finished(self) -> list[Sequence]:
        """Remove the members that have made their last token, least id first."""
        done: list[Sequence] = []
        finishes, step, members = self._finishes, self.step, self.members
        while finishes:
            entry = finishes[0]
            sequence = members.get(entry & _ID_MASK)
            if sequence is not None and sequence.done_at_step == entry >> _ID_BITS:
                if sequence.done_at_step > step:
                    self.next_finish = sequence.done_at_step
                    return done
                self._let_go(sequence)
                done.append(sequence)
            heappop(finishes)  # done, or left early
        self.next_finish = _FAR
        return done

    def context(self, step: int) -> int:
        """Σ tokens that the members' attention reads in the step after `step` steps (itself included)."""
        return self.offsets + self.n * (step + 1)

    def window_context(self, step: int) -> int:
        """The same with every member capped at the window; valid until the next crossing."""
        return self.short_offsets + self.short * (step + 1) + (self.n - self.short) * self.window

    def steps_to_crossing(self) -> int:
        """Steps for which `window_context` grows by `short` each; members that reached the window leave `short`."""
        crossings, members = self._crossings, self.members
        while crossings:
            entry = crossings[0]
            sequence = members.get(entry & _ID_MASK)
            at = entry >> _ID_BITS
            if sequence is not None and sequence.short and at == self.window - 1 - sequence.offset:
                if at > self.step:
                    return at - self.step
                self._outgrow(sequence)
            heappop(crossings)
        return _FAR

    def private(self, step: int) -> int:
        """Blocks that the members alone use once `step` steps are computed."""
        if not self.n:
            return 0
        ahead = step - self._at
        if ahead:
            if 0 < ahead <= _FEW:
                self._sum += sum([self._phases[-each % self.block] for each in range(self._at, step)])
            else:
                self._sum = self._blocks(step)
            self._at = step
        return self._sum - self.shared

    def _blocks(self, step: int) -> int:
        """Blocks that the members use once `step` steps are computed, by a sum over the remainders of their offsets."""
        block = self.block
        reach = step + block - 1
        waste: int = sum(map(mul, self._phases, self._ramp(reach % block)))
        return (self.offsets + self.n * reach - waste) // block

    def private_at_most(self, step: int) -> int:
        """An upper bound of `private(step)`, in O(1)."""
        return (self.offsets + self.n * step) // self.block + self.n - self.shared

    def growth(self) -> int:
        """New blocks of the next step."""
        return self._phases[-self.step % self.block]

    def steps_within(self, blocks: int, limit: int) -> int:
        """The most steps, up to `limit`, that take no more than `blocks` new blocks; 0 if not even one fits."""
        if self.n * -(-limit // self.block) <= blocks:
            return limit
        now = self.private(self.step)
        low, high = 0, limit
        while low < high:
            middle = (low + high + 1) // 2
            if self.private(self.step + middle) - now <= blocks:
                low = middle
            else:
                high = middle - 1
        return low

    def check(self) -> None:
        """Assert that every sum equals what a scan over the members gives."""
        members = self.members.values()
        assert self.n == len(self.members)
        assert self.prompts == sum(member.request.prompt_tokens for member in members)
        assert self.offsets == sum(member.offset for member in members)
        assert self.shared == sum(member.shared for member in members)
        tokens = [member.offset + self.step for member in members]
        assert self.private(self.step) == sum(-(-count // self.block) for count in tokens) - self.shared
        assert all(member.done_at_step > self.step for member in members), "a member outlived its last token"
        assert self.next_finish == min((member.done_at_step for member in members), default=_FAR)
        if self.window:
            assert self.window_context(self.step) == sum(min(count + 1, self.window) for count in tokens)

    def _ramp(self, shift: int) -> list[int]:
        ramp = self._ramps.get(shift)
        if ramp is None:
            ramp = self._ramps[shift] = [(phase + shift) % self.block for phase in range(self.block)]
        return ramp

    def _join_window(self, sequence: Sequence) -> None:
        sequence.short = sequence.computed + 1 < self.window
        if sequence.short:
            self.short += 1
            self.short_offsets += sequence.offset
            heappush(self._crossings, (self.window - 1 - sequence.offset) << _ID_BITS | sequence.id)

    def _outgrow(self, sequence: Sequence) -> None:
        sequence.short = False
        self.short -= 1
        self.short_offsets -= sequence.offset
