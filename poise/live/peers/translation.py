"""Between this gateway's numbers and the names by which gateways report requests to one another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final

from poise.core.event import Event, PeerEnded, PeerSent, PrefixSent
from poise.core.fast_tuple import made
from poise.core.request import RequestView
from poise.live.gateway.api import Api
from poise.live.gateway.world import World
from poise.live.peers.wire import Ended, Message, Prefix, Sent
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
        self._slots: dict[str, int] = {}
        self._next = -2
        """The id of the latest request of another gateway; those of this one's are not negative."""

    # This gateway's requests ------------------------------------------------------------------------------------------

    def messages(self, news: Iterable[PeerSent | PeerEnded]) -> list[Message]:
        """The messages about requests of this gateway."""
        return [
            self._sent(each) if isinstance(each, PeerSent) else Ended(each.request, each.output_tokens) for each in news
        ]

    def _sent(self, event: PeerSent) -> Sent:
        at, _, request, replica, decode = event
        hashed = self._world.control.state.prefix is not None
        return Sent(
            request.id, self._engine(replica), "" if decode == replica else self._engine(decode),
            max(0, at - request.arrived_at) // MICROSECOND,
            request.prompt_tokens, request.max_tokens, request.predicted_tokens,
            request.ids if hashed else (), request.ends if hashed else (),
            self._models.name(request.model), request.session, self._tenants.name(request.tenant),
            "" if request.lora < 0 else self._adapter(request.lora), request.priority,
        )  # fmt: skip

    def prompts(self) -> Iterator[Prefix]:
        """What this gateway believes cached, for one that has just begun: by engine, the latest sent last."""
        sent = self._world.control.state.sent_prefixes
        for engine in self._world.fleet if sent is not None else ():
            assert sent is not None
            latest = list(islice(sent.latest(engine.slot), PROMPTS))
            yield from (Prefix(engine.name, ids, ends) for ids, ends in reversed(latest))

    def _engine(self, slot: int) -> str:
        engine = self._world.fleet.slots[slot] if slot >= 0 else None
        return "" if engine is None else engine.name

    def _adapter(self, number: int) -> str:
        return next((name for name, (_, own) in self._api.adapters.items() if own == number), "")

    # Requests of other gateways ---------------------------------------------------------------------------------------

    def events(self, messages: Iterable[Message], gateway: int, ids: dict[int, int], at: int) -> list[Event]:
        """What messages of another gateway mean here; `ids` maps its requests' ids to those that they have here."""
        events: list[Event] = []
        for message in messages:
            if isinstance(message, Sent):
                number = ids.get(message.id, 0)
                if not number:
                    self._next -= 1
                    number = ids[message.id] = self._next
                events.append(self._peer_sent(message, gateway, number, at))
            elif isinstance(message, Ended):
                number = ids.pop(message.id, 0)
                if number:
                    events.append(made(PeerEnded, (at, gateway, number, message.output_tokens)))
            elif isinstance(message, Prefix):
                slot = self._slot(message.engine)
                if slot >= 0:
                    events.append(PrefixSent(at, slot, message.ids, message.ends))
            else:
                self._api.remember(message.response, self._slot(message.engine))
        return events

    def _peer_sent(self, message: Sent, gateway: int, number: int, at: int) -> PeerSent:
        api = self._api
        arrived = max(0, at - message.age_us * MICROSECOND)
        adapter = api.adapters.get(message.lora) if message.lora else None
        view = made(RequestView, (
            number, arrived, message.prompt_tokens, message.max_tokens, message.ids, message.ends,
            api.models.number(message.model), message.session, api.tenant_number(message.tenant),
            -1 if adapter is None else adapter[1], message.priority, 0, message.predicted_tokens, -1, 0, -1, arrived,
        ))  # fmt: skip
        replica = self._slot(message.engine)
        decode = self._slot(message.decode) if message.decode else replica
        return made(PeerSent, (at, gateway, view, replica, decode))

    def _slot(self, name: str) -> int:
        """The slot of the engine of that name; -1 for one that this gateway does not know."""
        slots = self._world.fleet.slots
        slot = self._slots.get(name, -1)
        engine = slots[slot] if slot >= 0 else None
        if engine is None or engine.name != name:  # it was seen nowhere, or another has its place
            slot = next((each.slot for each in slots if each is not None and each.name == name), -1)
            self._slots[name] = slot
        return slot
