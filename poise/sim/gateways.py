"""The gateways of a cluster: each routes its share of the requests on a belief of its own, or on a shared one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from poise.core.chance import Chance
from poise.core.control.control import Control
from poise.core.control.flight import InFlight
from poise.core.event import (
    AdaptersChanged,
    CacheChanged,
    Draining,
    Event,
    Exchanged,
    Lent,
    Measured,
    PeerEnded,
    PeerLost,
    PeerSent,
    PrefixSent,
    ReplicaJoined,
    ReplicaLeft,
    ReplicaLost,
    ReplicaUpdated,
    Reported,
    Tick,
)
from poise.core.request import RequestView

_OF_ALL = (
    Reported,
    Measured,
    CacheChanged,
    AdaptersChanged,
    Tick,
    ReplicaJoined,
    ReplicaUpdated,
    Draining,
    ReplicaLeft,
    ReplicaLost,
    Lent,
    Exchanged,
    PeerLost,
    PrefixSent,
)


def from_peer(news: PeerSent | PeerEnded, gateway: int, at: int) -> PeerSent | PeerEnded:
    """What gateway number `gateway` reported, as the others get it at `at`: with ids that none of their own has."""
    if isinstance(news, PeerEnded):
        return news._replace(at=at, gateway=gateway, request=-2 - news.request)
    return news._replace(at=at, gateway=gateway, request=news.request._replace(id=-2 - news.request.id))


class Gateways:
    """One `Control` each. A session's requests come through one gateway, as over a kept connection; others are drawn.

    session: of a request, -1 for none.
    """

    def __init__(self, controls: Sequence[Control], session: Callable[[int], int]) -> None:
        self.controls = list(controls)
        self._session = session
        self._chance = Chance(self.controls[0].seed)

    def of(self, request: int) -> int:
        """The gateway that `request` comes through."""
        if len(self.controls) == 1:
            return 0
        session = self._session(request)
        self._chance.key = request if session < 0 else session
        purpose = "gateway" if session < 0 else "gateway of session"
        return self._chance.pick(range(len(self.controls)), purpose)

    def receivers(self, event: Event) -> Iterator[tuple[int, Control]]:
        """The gateways that receive an event, with numbers: all for replicas and policies, its own for a request."""
        if len(self.controls) == 1 or isinstance(event, _OF_ALL):
            yield from enumerate(self.controls)
        else:
            request = event.request
            number = self.of(request.id if isinstance(request, RequestView) else request)
            yield number, self.controls[number]

    def flight(self, request: int) -> InFlight:
        """The flight of a request that was sent."""
        return self.controls[self.of(request)].flights[request]

    def flights(self) -> Iterator[InFlight]:
        """All requests that were sent and have not ended."""
        for control in self.controls:
            yield from control.flights.values()

    def held(self) -> Iterator[RequestView]:
        """All requests that wait at a gateway."""
        for control in self.controls:
            yield from control.held
