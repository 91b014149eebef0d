"""Calls a lender for loans of KV blocks between replicas, and checks its answer."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.action import Lend
from poise.core.control.state import State
from poise.core.errors import PolicyError
from poise.core.policy import Lender


class Lending:
    """The control side of lending."""

    __slots__ = ("_lender", "_state")

    def __init__(self, lender: Lender, state: State) -> None:
        self._lender = lender
        self._state = state

    def loans(self) -> Sequence[Lend]:
        """The loans that the lender wants made or given back now."""
        loans = list(self._lender.lend(self._state))
        for loan in loans:
            wrong = self._wrong(loan)
            if wrong:
                raise PolicyError(f"{type(self._lender).__name__} asks for {loan}, but {wrong}")
        return loans

    def _wrong(self, loan: Lend) -> str:
        """Why a loan is not possible, as far as the control side knows; empty if it is."""
        state, pair = self._state, (loan.debtor, loan.creditor)
        if loan.debtor == loan.creditor:
            return "a replica cannot lend to itself; name two replicas"
        if not all(0 <= each < len(state.replicas) for each in pair):
            return f"there are {len(state.replicas)} replicas, counted from 0"
        lent = state.loans.get(pair, 0)
        if loan.blocks <= 0:
            return "" if 0 < -loan.blocks <= lent else f"{lent} blocks are lent; give back 1 to so many, or lend some"
        return ""
