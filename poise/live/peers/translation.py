"""Between this gateway's numbers and the names by which gateways report requests to one another."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from poise.core.event import PeerEnded, PeerSent
from poise.core.request import RequestView
from poise.live.gateway.api import Api
from poise.live.gateway.world import World
from poise.live.peers.wire import Ended, Prefix, Sent
from poise.live.requests.names import Listed

MICROSECOND: Final = 10**6
"""Picoseconds."""
PROMPTS: Final = 50_000
"""Most prompts for each engine that a new gateway gets, the latest sent."""


class Translation:
    """Names of what `world` and `api` number.

    prefixes: whether prompts' hashes are sent: where no policy reads them, they are left out.
    """

    def __init__(self, world: World, api: Api) -> None:
        self._world = world
        self._api = api
        self._models = Listed(api.models.listed)
        self._tenants = Listed(api.tenants)
        self._next = -2

    def sent(self, event: PeerSent) -> Sent:
        """A message about a request of this gateway."""
        request = event.request
        hashed = self._world.control.state.prefix is not None
        return Sent(
            request.id, self._engine(event.replica), self._engine(event.decode),
            max(0, event.at - request.arrived_at) // MICROSECOND,
            request.prompt_tokens, request.max_tokens, request.predicted_tokens,
            request.ids if hashed else (), request.ends if hashed else (),
            self._models.name(request.model), request.session, self._tenants.name(request.tenant),
            "" if request.lora < 0 else self._adapter(request.lora), request.priority,
        )  # fmt: skip

    def ended(self, event: PeerEnded) -> Ended:
        """A message about the end of a request of this gateway."""
        return Ended(event.request, event.output_tokens)

    def prompts(self) -> Iterator[Prefix]:
        """What this gateway believes cached, for one that has just begun: by engine, the latest sent last."""
        sent = self._world.control.state.sent_prefixes
        for engine in self._world.fleet if sent is not None else ():
            assert sent is not None
            latest = list(islice(sent.latest(engine.slot), PROMPTS))
            yield from (Prefix(engine.name, ids, ends) for ids, ends in reversed(latest))

    def new_id(self) -> int:
        """An id for a request of another gateway, which none of this one's has."""
        self._next -= 1
        return self._next

    def event(self, message: Sent, gateway: int, number: int, at: int) -> PeerSent:
        """What a message of another gateway means here; `number` is the request's id here."""
        api = self._api
        arrived = max(0, at - message.age_us * MICROSECOND)
        view = RequestView(
            number, arrived, message.prompt_tokens, message.max_tokens, message.ids, message.ends,
            api.models.number(message.model), message.session, api.tenant_number(message.tenant),
            api.adapters.get(message.lora, ("", -1))[1], message.priority,
            predicted_tokens=message.predicted_tokens, begun_at=arrived,
        )  # fmt: skip
        return PeerSent(at, gateway, view, self.slot(message.engine), self.slot(message.decode))

    def slot(self, name: str) -> int:
        """The slot of the engine of that name; -1 for one that this gateway does not know."""
        return next((engine.slot for engine in self._world.fleet if engine.name == name), -1)

    def _engine(self, slot: int) -> str:
        engine = self._world.fleet.slots[slot] if slot >= 0 else None
        return "" if engine is None else engine.name

    def _adapter(self, number: int) -> str:
        return next((name for name, (_, own) in self._api.adapters.items() if own == number), "")
