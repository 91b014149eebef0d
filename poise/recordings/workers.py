"""Recordings of the workers of one gateway as one trace: each is one gateway in it, with ids of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from poise.core.action import Action
from poise.core.errors import TraceError
from poise.core.event import Event, PeerEnded, PeerLost, PeerSent, ReplicaUpdated
from poise.core.records.header import check_header
from poise.core.records.trace import Trace
from poise.core.request import RequestView

ALIKE: Final = ("policies", "belief", "engines", "seed", "hash", "block_tokens")
"""What the headers of one gateway's workers have in common."""
APART_S: Final = 1.0
"""Most seconds between the clocks of two workers: they share one, and say the time of day a moment after."""

_PEERS: Final = (PeerSent, PeerEnded, PeerLost)


class Together(Trace):
    """The recordings of workers as those of several gateways, in the order given.

    What happened to engines is the first one's: each worker looks at them by itself. Models have its numbers.
    TraceError where two are not of one gateway.
    """

    def __init__(self, recordings: Sequence[Trace]) -> None:
        first = recordings[0].header
        for other in recordings[1:]:
            _check(first, other.header)
        began = min((each.header.get("began", {}) for each in recordings), key=lambda began: int(began.get("at", 0)))
        belief = {**first.get("belief", {}), "gateways": len(recordings)}
        super().__init__({**first, "belief": belief, "began": began})
        self._recordings = recordings
        self._models: dict[int, int] = {}

    def items(self, gateway: int = 0) -> Iterator[Event | Action]:
        """All events and actions of one worker; the first one's must be read before those of others."""
        count = len(self._recordings)
        numbers: dict[int, int] = {}
        item: Any
        for item in self._recordings[gateway].items():
            if isinstance(item, ReplicaUpdated):
                self._name(item, gateway, numbers)
            request = getattr(item, "request", None)
            if isinstance(item, _PEERS):
                yield item
            elif request is None:
                if gateway == 0:
                    yield item
            elif isinstance(request, RequestView):
                view = request._replace(
                    id=request.id * count + gateway, model=numbers.get(request.model, request.model)
                )
                yield item._replace(request=view)
            else:
                yield item._replace(request=request * count + gateway)

    def _name(self, item: ReplicaUpdated, gateway: int, numbers: dict[int, int]) -> None:
        """Note by which number a worker names the model of an engine."""
        if gateway == 0:
            self._models[item.replica] = item.spec.model
        elif item.replica in self._models:
            numbers[item.spec.model] = self._models[item.replica]


def _check(first: dict[str, Any], other: dict[str, Any]) -> None:
    for header in (first, other):
        check_header(header)
    cure = "give the recordings of one gateway's workers, as in day-worker0.jsonl day-worker1.jsonl"
    for name in ALIKE:
        if first.get(name) != other.get(name):
            raise TraceError(f"the recordings differ in {name}, so they are not of one gateway; {cure}")
    apart = abs(_zero(first) - _zero(other))
    if apart > APART_S:
        raise TraceError(
            f"the recordings have clocks that began {apart:.3g} s apart, so they are not of one run; {cure}"
        )


def _zero(header: dict[str, Any]) -> float:
    """The time of day at which a recording's clock was 0, in seconds."""
    began = header.get("began", {})
    return float(began.get("wall_s", 0.0)) - int(began.get("at", 0)) / 1e12
