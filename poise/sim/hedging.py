"""Copies of hedged requests: which one is left, its record, and the wasted work of the other."""

from __future__ import annotations

from collections.abc import Sequence

from poise.core.engine.replica import Replica
from poise.core.records.attributions import Attributions
from poise.core.records.records import Run
from poise.core.request import Sequence as Running


class Hedging:
    """The running copies, by request, each with its replica.

    A request's time is charged as its first copy spends it, until the other gives the first token or is all that is
    left of it; so no instant is charged twice.
    """

    def __init__(self, replicas: Sequence[Replica], run: Run, accounts: Attributions | None) -> None:
        self.copies: dict[int, tuple[Running, int]] = {}
        self._replicas = replicas
        self._run = run
        self._accounts = accounts
        self._stopped: list[Running] = []

    def begin(self, copy: Running, number: int) -> None:
        """A copy of a request goes to a replica."""
        self.copies[copy.id] = copy, number
        self._run.hedges += 1

    def first_token(self, row: int, number: int) -> None:
        """A replica gave the first token of a request."""
        copy, place = self.copies.pop(row, (None, -1))
        if copy is None:
            return
        other = self._run.records.replica[row] if place == number else place
        self._stopped.append(self._replicas[other].sequences[row])
        if place == number:
            self._run.hedges_won += 1
            self._follow(copy, number)

    def lost(self, number: int) -> None:
        """A replica is lost: of each request with a copy there, the other is left."""
        records = self._run.records
        for row, (copy, place) in list(self.copies.items()):
            if number in (place, records.replica[row]):
                del self.copies[row]
                if place != number:
                    self._follow(copy, place)

    def close(self) -> None:
        """The run is over: count the wasted work of the stopped copies."""
        self._run.hedge_tokens = sum(max(each.computed - each.cached, 0) for each in self._stopped)

    def _follow(self, copy: Running, number: int) -> None:
        records = self._run.records
        records.replica[copy.id] = records.decode_replica[copy.id] = number
        if self._accounts is not None:
            self._accounts.follow(copy, self._replicas[number])
