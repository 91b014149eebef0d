"""Requests of another serving system, which asks for a choice among its own replicas and calls those itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from poise.core.control.control import Control
from poise.core.spec import ReplicaSpec
from poise.live.clock import now
from poise.live.discovery.address import Engine as Place
from poise.live.gateway.api import Api
from poise.live.gateway.fleet import Engine, EngineAt
from poise.live.gateway.settings import Settings
from poise.live.gateway.world import World
from poise.live.http.call import Address, Failure
from poise.live.http.pool import Pool
from poise.live.integrations.ext_proc_request import ExtProcRequest, Headers, Picked
from poise.live.requests.text_prefix import Pieces

CHAT: Final = b"/v1/chat/completions"
COMPLETION: Final = b"/v1/completions"
FIELDS: Final = (
    "model", "stream", "n", "priority", "user", "prompt_cache_key", "cache_salt", "max_tokens", "max_completion_tokens",
    "tools",
)  # fmt: skip
"""Attributes read of a request besides its messages or prompt, where it has them."""


class DelegatedRequest:
    """One delegated request. replicas: those to try, in order; status: of a refusal, 0 for none.

    holder: the replica that accepted it, "" until one has; ended: those that have reported its end.
    done: called once when it is decided.
    """

    def __init__(self, done: Callable[[], None]) -> None:
        self.replicas: list[str] = []
        self.holder = ""
        self.ended: set[str] = set()
        self.status = self.retry_after_s = 0
        self.reason = ""
        self.passage: ExtProcRequest
        self._done = done

    @property
    def decided(self) -> bool:
        """Whether it is decided: routed or refused."""
        return bool(self.replicas or self.status)

    @property
    def over(self) -> bool:
        """Whether the replica that accepted it has finished it, in whichever order the two were reported."""
        return self.holder in self.ended

    def taken(self, replica: str) -> None:
        """A replica has accepted it."""
        self.holder = replica
        if self.passage.proxied is not None:
            self.passage.proxied.answered(200, [], _endpoint(replica))
            self.passage.proxied.passes(b"")

    def completed(self) -> None:
        """A replica has finished or refused it."""
        if self.passage.proxied is not None and self.passage.proxied.answering:
            self.passage.proxied.passed()
        self.passage.over()

    # Called by the decision -------------------------------------------------------------------------------------------

    def route(self, endpoints: Sequence[str], headers: Headers) -> None:
        """Route it: to the first of these that accepts it."""
        self.replicas = [each.rpartition(":")[0] for each in endpoints]
        self._done()

    def refuse(self, status: int, headers: Headers, body: bytes) -> None:
        """Refuse it."""
        self.status = status
        self.retry_after_s = int(dict(headers).get(b"retry-after", b"0"))
        self.reason = msgspec.json.decode(body)["error"]["message"]
        self._done()

    def cut(self) -> None:
        """Its replica died; the caller has seen it."""


class Replicas:
    """The world of delegated requests, and of the replicas to choose from, by name.

    later: calls a function at an instant (picoseconds).
    """

    def __init__(self, control: Control, later: Callable[[int, Callable[[], None]], Any]) -> None:
        self.world = World(control, Settings(held=0, held_s=0.0), now, later, lambda at: _NOWHERE)
        self.api = Api(self.world, Pieces())
        self.api.proxied_requests[ExtProcRequest] = Picked
        self._engines: dict[str, Engine] = {}

    def known(self, names: Iterable[str]) -> list[str]:
        """Set the present replicas; returns those for which there is no slot."""
        wanted = list(names)
        for gone in self._engines.keys() - set(wanted):
            self.world.fleet.remove(self._engines.pop(gone))
        without = []
        for name in wanted:
            if name in self._engines:
                continue
            engine = self.world.fleet.add(EngineAt(Place(name, name, 0)))
            if engine is None:
                without.append(name)
            else:
                self._engines[name] = engine
                self.world.fleet.join(engine, ReplicaSpec())
        return without

    def died(self, name: str) -> None:
        """A replica and its requests are lost."""
        engine = self._engines.pop(name, None)
        if engine is None:
            return
        self.world.fleet.eject(engine)
        for proxied in self.world.on(engine.slot):
            if proxied.call is not None:
                proxied.failed(Failure("reset", "the replica died", False))
        self.world.fleet.lose(engine)
        self.world.fleet.remove(engine)

    def ask(self, fields: dict[str, Any], done: Callable[[], None]) -> DelegatedRequest:
        """Choose for a request as an OpenAI body has it; `done` is called once it is decided, perhaps at once."""
        self.world.sweep()
        handed = DelegatedRequest(done)
        path = CHAT if "messages" in fields else COMPLETION
        handed.passage = ExtProcRequest(handed, "POST", path, [], msgspec.json.encode(fields), now())
        handed.passage.ask(self.api)
        return handed


def body_of(arguments: Iterable[Any], model: str) -> dict[str, Any]:
    """The OpenAI body that a call's arguments stand for; a call that shows no text is one of an empty prompt.

    Read are the first argument with `messages` or a `prompt`, as attributes (Ray Serve LLM's requests) or keys, and
    else the first that is a string.  model: the name to take where the request has none.
    """
    arguments = list(arguments)
    for each in arguments:
        for field in ("messages", "prompt"):
            content = _field(each, field)
            if content is not None:
                found = {name: value for name in FIELDS if (value := _field(each, name)) is not None}
                return {"model": model, **found, field: content}
    prompt = next((each for each in arguments if isinstance(each, str)), "")
    return {"model": model, "prompt": prompt}


def _field(value: Any, name: str) -> Any:
    found = value.get(name) if isinstance(value, dict) else getattr(value, name, None)
    return _plain(found)


def _plain(value: Any) -> Any:
    """Messages that are objects, as the mappings they stand for."""
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    dump = getattr(value, "model_dump", None)
    return dump(exclude_none=True) if callable(dump) else value


def _endpoint(name: str) -> str:
    return f"{name}:0"


class _Nowhere(Pool):
    """Connections to replicas that others call; never used."""

    def __init__(self) -> None:
        super().__init__(Address("127.0.0.1", 0))

    async def close(self) -> None:
        """There is no connection."""


_NOWHERE: Final = _Nowhere()
