"""The attribution of a logged request: it charges as every attribution does, and also logs the request's events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from poise.core.records.attribution import Accounts, Attribution
from poise.core.request import Phase

if TYPE_CHECKING:
    from poise.core.action import Entry
    from poise.core.engine.lane import LaneState
    from poise.core.engine.replica import Replica
    from poise.core.records.request_log import RequestLog
    from poise.core.request import RequestView, Sequence


class LoggedAttribution(Attribution):
    """See `request_log.LogEntry` for what is logged."""

    __slots__ = ("diary",)

    def __init__(self, request: RequestView, accounts: Accounts, diary: RequestLog) -> None:
        super().__init__(request, accounts)
        self.diary = diary

    def queue(self, sequence: Sequence, replica: Replica, ideal: int) -> None:
        """It joins the queue of a replica."""
        super().queue(sequence, replica, ideal)
        self._note(
            "queued", waiting=len(replica.waiting), tokens=replica.queued_tokens, running=replica.running,
            produced=sequence.produced, source=sequence.source,
        )  # fmt: skip

    def move(self, sequence: Sequence, phase: int) -> None:
        """Its sequence enters `phase`."""
        before, since = self.phase, self.since
        if before == Phase.PULLING and phase == Phase.WAITING:
            self._note("missed", waited=self._clock.now - since)
        elif before == Phase.PULLING and phase != Phase.ENDED:
            waited = max(self.wire_at - since, 0)
            self._note("pulled", waited=waited, took=self._clock.now - since - waited)
        elif phase == Phase.WAITING:
            self._note("preempted", tokens=sequence.computed, swapped=sequence.swapped)
        super().move(sequence, phase)
        if before == Phase.WAITING and phase != Phase.ENDED:
            self._note(
                "admitted", computed=sequence.computed, need=sequence.need, ideal=self.ideal, produced=sequence.produced
            )
        if phase == Phase.PULLING:
            self._note("pulling", tokens=sequence.chunk, source=sequence.source)
        elif phase == Phase.DECODE:
            self._note("decodes", produced=sequence.produced)
        elif phase == Phase.MOVING:
            self._note("stands", produced=sequence.produced)

    def computed(self, entry: Entry, lane: LaneState, elapsed: int, duration: int) -> None:
        """A step of its prompt is over, or as much of it as there will be."""
        own, miss, again = self.own, self.miss, self.again
        super().computed(entry, lane, elapsed, duration)
        if self.sequence is not None:
            self._note(
                "computed", tokens=entry.tokens, before=self.sequence.computed, took=elapsed, own=self.own - own,
                miss=self.miss - miss, again=self.again - again, whole=elapsed == duration,
            )  # fmt: skip

    def go_over(self, sequence: Sequence, replica: Replica) -> None:
        """It moved while it decoded."""
        source, stood = self._place, self._clock.now - self.since
        super().go_over(sequence, replica)
        self._note("moved", source=source, stood=stood)

    def follow(self, sequence: Sequence, replica: Replica) -> None:
        """Only its copy is left."""
        super().follow(sequence, replica)
        if self.sequence is not None:
            self._note("goes_on")

    def lose(self) -> None:
        """Its replica is lost, or its partner's."""
        self._note("lost")
        super().lose()

    def start_again(self) -> None:
        """Its tokens are discarded as well."""
        super().start_again()
        self._note("again")

    @property
    def _place(self) -> int:
        """The replica that it is at, -1: the gateway."""
        if self.sequence is None:
            return -1
        return next(number for number, each in enumerate(self.diary.replicas) if each is self.replica)

    def _note(self, what: str, **details: Any) -> None:
        self.diary.note(self._clock.now, what, self._place, **details)
