"""The recorded order between agents that ran beside one another."""

from __future__ import annotations

from dataclasses import dataclass, field

Wait = tuple[int, float]
"""An earlier request, by row, and the seconds that pass after its end."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A request that others wait for: its row, its start and its recorded end (None: unknown), in seconds."""

    row: int
    begin: float
    end: float | None

    @property
    def over(self) -> float:
        """Its recorded end, or its start where that is unknown."""
        return self.begin if self.end is None else self.end


@dataclass(slots=True)
class Stream:
    """The requests of one agent. agent, stage: what its rows are called.  last: its last request so far."""

    agent: int
    stage: str
    last: Ended | None = None
    _open: list[Ended] = field(default_factory=list)
    _over: Ended | None = None

    def add(self, request: Ended) -> None:
        """Its next request."""
        self.last = request
        self._open.append(request)

    def before(self, at: float) -> Ended | None:
        """Which of its requests was the last to be over at an instant. Instants must not go back."""
        known = [each for each in self._open if each.begin < at and each.over <= at]
        self._open = [each for each in self._open if each not in known]
        known += [self._over] if self._over else []
        self._over = max(known, key=lambda each: (each.over, each.begin, each.row), default=None)
        return self._over


def frontier(streams: list[Stream], own: Stream, at: float) -> list[Ended]:
    """What a request of the stream `own`, at an instant, must wait for in the others so that the record's order holds.

    Of each stream the last request that was over; none that another of these has waited for itself (AIPerf 0.13,
    `timing/replay_dependencies.py`).
    """
    found = [over for stream in streams if stream is not own and (over := stream.before(at)) is not None]
    return [each for each in found if not any(each.begin < other.begin and each.over <= other.begin for other in found)]
