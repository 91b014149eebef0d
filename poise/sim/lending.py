"""Loans of KV blocks between replicas: granted by exact state, carried over links, called back when needed."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.action import Lend
from poise.core.engine.replica import Replica
from poise.core.event import Event, Lent
from poise.core.records.records import Run
from poise.sim.agenda import TRANSFER, Agenda
from poise.sim.lifecycle import Lifecycle
from poise.sim.network import Network


class Loan:
    """The loan of one replica to another.

    blocks: those on the way included.  due: those to be given back as soon as they are free.
    """

    __slots__ = ("blocks", "creditor", "debtor", "due")

    def __init__(self, debtor: int, creditor: int) -> None:
        self.debtor = debtor
        self.creditor = creditor
        self.blocks = 0
        self.due = 0


class Lending:
    """All loans, and the blocks due.

    A loan begins with KV of the debtor going to the creditor, over the links, as much as fits what is lent: its own
    blocks are free for others once it is there. What comes back carries nothing: KV that ends first is taken to be that
    which lay elsewhere. A creditor calls its loans back when one of its requests was preempted, when a request waits
    and none runs there, and when it drains.
    due: the loans with blocks due; empty when there are none, which is all that the hot path checks.
    turn: passes an event to the control side.  touch: calls a replica, with what has `passed` there.
    """

    def __init__(
        self,
        replicas: Sequence[Replica],
        network: Network,
        agenda: Agenda,
        run: Run,
        *,
        turn: Callable[[Event], None],
        touch: Callable[[int, Callable[[bool], None]], None],
    ) -> None:
        self.loans: dict[tuple[int, int], Loan] = {}
        self.due: dict[tuple[int, int], Loan] = {}
        self.lifecycle: Lifecycle | None = None
        self._replicas = replicas
        self._network = network
        self._agenda = agenda
        self._run = run
        self._turn = turn
        self._touch = touch

    def lend(self, action: Lend) -> None:
        """Make a loan, as far as the creditor grants it now, or call part of it back."""
        debtor, creditor, blocks = action
        if blocks < 0:
            loan = self.loans.get((debtor, creditor))
            if loan is not None:
                self._call(loan, -blocks)
            return
        reason = self._objection(debtor, creditor)
        granted = [0]
        if not reason:
            loans, now = self._replicas[creditor].loans, self._agenda.now
            self._touch(creditor, lambda passed: granted.append(loans.grant(debtor, blocks, now, passed)))
            reason = "" if granted[-1] else "it has no blocks to spare"
        if granted[-1]:
            self._run.loans += 1
            self._send(debtor, creditor, granted[-1])
        else:
            self._run.loans_refused += 1
        self._turn(Lent(self._agenda.now, debtor, creditor, granted[-1], reason))

    def recall(self, creditor: int) -> None:
        """All that a creditor has lent is due."""
        for loan in self.loans.values():
            if loan.creditor == creditor:
                self._call(loan, loan.blocks)

    def settle(self) -> None:
        """Give back what is due, as far as debtors have it free now."""
        for pair, loan in list(self.due.items()):
            given = self._give(loan)
            if given:
                loan.due -= given
                if not loan.due:
                    del self.due[pair]
                self._regain(loan, given)
                self._turn(Lent(self._agenda.now, loan.debtor, loan.creditor, -given))

    def gone(self, number: int) -> None:
        """A replica is lost: what it borrowed goes back, what it lent is lost."""
        for pair, loan in list(self.loans.items()):
            if number not in pair:
                continue
            del self.loans[pair]
            self.due.pop(pair, None)
            if number == loan.debtor:
                self._regain(loan, loan.blocks)
            else:
                self._lose(loan)

    def _objection(self, debtor: int, creditor: int) -> str:
        """Why a creditor grants nothing; empty if it may."""
        one, two = self._replicas[debtor], self._replicas[creditor]
        assert self.lifecycle is not None
        alive, draining = self.lifecycle.alive, self.lifecycle.draining
        if not all(alive[each] and not draining[each] for each in (debtor, creditor)):
            return "one of them does not serve"
        if any(creditor == loan.debtor or debtor == loan.creditor for loan in self.loans.values()):
            return "who borrows does not lend"
        if two.waiting:
            return "requests wait at the creditor"
        if one.pool.block != two.pool.block or self._bytes(debtor, 1) != self._bytes(creditor, 1):
            return "their blocks are of different sizes"
        return ""

    def _bytes(self, number: int, blocks: int) -> int:
        replica = self._replicas[number]
        return replica.estimator.kv_bytes(blocks * replica.pool.block)

    def _send(self, debtor: int, creditor: int, blocks: int) -> None:
        """Carry KV of the debtor to the creditor."""
        loan = self.loans.setdefault((debtor, creditor), Loan(debtor, creditor))
        loan.blocks += blocks
        _, done = self._network.send(self._agenda.now, debtor, creditor, self._bytes(debtor, blocks))
        self._agenda.later(done, TRANSFER, lambda: self._arrived(loan, blocks))

    def _arrived(self, loan: Loan, blocks: int) -> None:
        if not loan.blocks:
            return  # one of the two is lost
        loans, now = self._replicas[loan.debtor].loans, self._agenda.now
        # A message to the creditor and one back in each layer
        loans.hop = 2 * self._network.latency * self._replicas[loan.debtor].prefill_lane.model_layers
        self._touch(loan.debtor, lambda passed: loans.take(loan.creditor, blocks, now, passed))

    def _give(self, loan: Loan) -> int:
        """The number of due blocks that a debtor gives back now."""
        loans, now, given = self._replicas[loan.debtor].loans, self._agenda.now, [0]
        self._touch(loan.debtor, lambda passed: given.append(loans.give(loan.creditor, loan.due, now, passed)))
        return given[-1]

    def _lose(self, loan: Loan) -> None:
        """The creditor is lost, and with it what has arrived there and what is on its way."""
        loans, now = self._replicas[loan.debtor].loans, self._agenda.now
        loan.blocks = 0
        self._touch(loan.debtor, lambda passed: loans.lose(loan.creditor, now, passed))

    def _call(self, loan: Loan, blocks: int) -> None:
        loan.due = max(loan.due, min(blocks, loan.blocks))
        self.due[loan.debtor, loan.creditor] = loan

    def _regain(self, loan: Loan, blocks: int) -> None:
        """Blocks are with their creditor again."""
        creditor, now = self._replicas[loan.creditor], self._agenda.now
        loan.blocks -= blocks
        if not loan.blocks:
            self.loans.pop((loan.debtor, loan.creditor), None)
        self._touch(loan.creditor, lambda passed: creditor.loans.regain(loan.debtor, blocks, now, passed))
