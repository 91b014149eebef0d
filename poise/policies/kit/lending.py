"""Infinite-LLM's greedy planner of KV loans between instances, by its own cost model and a possibly outdated table.

Infinite-LLM (arXiv 2401.02669). Debtors are instances whose batch is small because memory is short; creditors those
that use little of theirs. From the smallest batch on, a debtor is offered memory of the emptiest creditors, as much as
raises the modelled throughput of all of them most, if any does. A borrower does not lend, and a lender does not borrow,
so there are no cycles. Here several creditors are weighed at once, not one after another: a long request that waits
needs all of them before anything is gained.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from poise.core.errors import UserError

StepSeconds = Callable[[int, float], float]
"""Seconds of a step from its decodes and KV tokens: non-attention by the batch, attention by Σ length."""


class Status(NamedTuple):
    """The last report of an instance.

    batch: requests that decode.  used: KV tokens taken, promised ones included.  read: KV tokens that a step reads.
    head: tokens of the first that waits, if it does not fit here, else 0.  waiting: mean tokens of those behind it, 0
    where none waits.  borrows, lends: whether it does.  queue: how many requests wait, without end by default.
    """

    batch: int
    used: int
    read: int
    head: int
    waiting: float
    borrows: bool = False
    lends: bool = False
    queue: int = 1 << 60


class Loan(NamedTuple):
    """`tokens` of KV of a long request of `debtor` that may lie at `creditor`, if it grants them."""

    debtor: int
    creditor: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Greedy:
    """The paper's planner.

    step_s: of an instance.  capacity: KV tokens of one.  most: requests that decode at once.  small: a batch below this
    part of `most` makes a debtor; roomy: memory use below this part of `capacity` a creditor (neither threshold is
    published), if it cannot use it itself.  parts: how finely the blocks of a loan are searched.
    """

    step_s: StepSeconds
    capacity: int
    most: int
    small: float = 0.8
    roomy: float = 0.8
    parts: int = 16

    def __post_init__(self) -> None:
        if self.capacity < 1 or self.most < 1 or self.parts < 1 or not 0 <= self.small <= 1 or not 0 <= self.roomy <= 1:
            raise UserError(f"{self}: give a capacity, requests and parts of 1 or more, and thresholds from 0 to 1")

    def plan(self, table: Sequence[Status]) -> list[Loan]:
        """Debtors from the smallest batch on, creditors from the emptiest on."""
        now = list(table)
        loans: list[Loan] = []
        for debtor in sorted(range(len(now)), key=lambda place: (now[place].batch, place)):
            one = now[debtor]
            if not one.waiting or one.lends or one.batch >= self.small * self.most:
                continue
            others = [place for place in range(len(now)) if place != debtor and self._spare(now[place])]
            others.sort(key=lambda place: (now[place].used, place))
            best = self._best(one, [now[place] for place in others])
            for place, tokens in zip(others, best, strict=False):
                loans.append(Loan(debtor, place, tokens))
                now[place] = _lent(now[place], tokens)
            if best:
                now[debtor] = self._helped(one, sum(best))
        return loans

    def rate(self, one: Status) -> float:
        """Modelled tokens a second of an instance."""
        return one.batch / self.step_s(one.batch, one.read) if one.batch else 0.0

    def _spare(self, one: Status) -> bool:
        """Whether memory is left over: it is not a debtor, or no request waits."""
        idle = one.batch >= self.small * self.most or not one.waiting
        return idle and not one.borrows and one.used < self.roomy * self.capacity

    def _best(self, debtor: Status, creditors: Sequence[Status]) -> list[int]:
        """The tokens of each, in order, that raise the throughput of all together most; none where none does."""
        room = [self.capacity - each.used for each in creditors]
        least = max(0, debtor.head - (self.capacity - debtor.used))
        best: list[int] = []
        gain = 1e-9
        for part in range(1, self.parts + 1):
            lent = _filled(room, least + (sum(room) - least) * part // self.parts)
            pairs = list(zip(creditors, lent, strict=False))
            found = self.rate(self._helped(debtor, sum(lent))) - self.rate(debtor)
            found -= sum(self.rate(each) - self.rate(_lent(each, tokens)) for each, tokens in pairs)
            if found > gain:
                best, gain = lent, found
        return best

    def _helped(self, debtor: Status, tokens: int) -> Status:
        """A debtor with that many remote tokens: the head of its queue fits, and those that it makes room for."""
        room = tokens if not debtor.head else self.capacity - debtor.used + tokens - debtor.head
        if room < 0:
            return debtor
        more = min(self.most - debtor.batch, int(room / debtor.waiting) + (debtor.head > 0), debtor.queue)
        read = round(debtor.read + max(0, more) * debtor.waiting)
        return debtor._replace(batch=debtor.batch + more, read=read, borrows=True)


def _lent(creditor: Status, tokens: int) -> Status:
    """A creditor that holds and reads that many more tokens."""
    return creditor._replace(used=creditor.used + tokens, read=creditor.read + tokens, lends=True)


def _filled(room: Sequence[int], tokens: int) -> list[int]:
    """Distribute the tokens over the first rooms that hold them."""
    found: list[int] = []
    for each in room:
        if tokens > 0:
            found.append(min(each, tokens))
            tokens -= each
    return found
