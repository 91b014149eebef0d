"""Where clients are received: each path's answer, and what of a request policies may know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import msgspec

from poise.core.request import RequestView
from poise.live.gateway.errors import error_body
from poise.live.gateway.names import Names
from poise.live.gateway.trip import Trip
from poise.live.gateway.world import World
from poise.live.know.asked import READERS, Asked, BadRequest
from poise.live.know.text import Pieces
from poise.live.wire.exchange import Exchange

NAMED: Final = 100_000
"""Sessions and tenants whose numbers are remembered."""


class Desk:
    """Receives clients.

    pieces: how prompts are cut to be recognised.  tenant: who asks, by the exchange; None turns them away (401).
    ready: whether the gateway takes requests.
    """

    def __init__(
        self,
        world: World,
        pieces: Pieces,
        tenant: Callable[[Exchange], str | None] = lambda exchange: "",
        ready: Callable[[], bool] = lambda: True,
        models: Names | None = None,
    ) -> None:
        self.world = world
        self.pieces = pieces
        self.models = Names() if models is None else models
        self.adapters: dict[str, tuple[str, int]] = {}
        self.tenants = Names(NAMED)
        self.sessions = Names(NAMED)
        self._tenant = tenant
        self._ready = ready
        self._next = 0
        self._get: dict[str, Callable[[Exchange], None]] = {
            "/health": self._health,
            "/healthz": self._health,
            "/ready": self._readiness,
            "/readyz": self._readiness,
            "/v1/models": self._models,
        }

    def adopt(self, name: str, model: str) -> None:
        """`name` is an adapter (LoRA) of `model`."""
        if name not in self.adapters:
            self.adapters[name] = model, len(self.adapters)

    def receive(self, exchange: Exchange, trip: type[Trip] = Trip) -> None:
        """Answer an exchange, now or later; `trip`: how its request goes to an engine."""
        reader = READERS.get(exchange.target) or READERS.get(exchange.path.encode())
        if reader is not None:
            if exchange.method != "POST":
                self._refuse(exchange, 405, f"{exchange.path} takes POST only", ((b"allow", b"POST"),))
                return
            asked = reader(exchange.body)
            if type(asked) is Asked:
                self._arrive(exchange, asked, trip)
            else:
                assert isinstance(asked, BadRequest)
                exchange.answer(asked.status, asked.json())
            return
        plain = self._get.get(exchange.path)
        if plain is None:
            self._refuse(exchange, 404, f"there is no {exchange.path}; see /v1/models, /v1/chat/completions")
        elif exchange.method not in ("GET", "HEAD"):
            self._refuse(exchange, 405, f"{exchange.path} takes GET only", ((b"allow", b"GET"),))
        else:
            plain(exchange)

    def _arrive(self, exchange: Exchange, asked: Asked, trip: type[Trip]) -> None:
        world = self.world
        tenant = self._tenant(exchange)
        if tenant is None:
            body = error_body(401, "invalid_request_error", "the API key is missing or unknown; send `Bearer KEY`")
            exchange.answer(401, body, headers=((b"www-authenticate", b"Bearer"),))
            return
        if not self._ready():
            self._refuse(exchange, 503, "the gateway is going down; ask another one", ((b"connection", b"close"),))
            return
        model, lora = self._model(asked.model)
        if model is None:
            known = ", ".join(sorted([*self.models.listed(), *self.adapters])[:20])
            message = f"The model `{asked.model[:200]}` does not exist; there are: {known}"
            exchange.answer(404, error_body(404, "NotFoundError", message, "model"))
            return
        if len(world.control.held) >= world.settings.held > 0:
            self._refuse(exchange, 503, "too many requests wait already; try again later", ((b"retry-after", b"1"),))
            return
        view = self._view(exchange, asked, model, lora, tenant)
        world.arrive(trip(world, exchange, view, asked.stream, tenant))

    def _view(self, exchange: Exchange, asked: Asked, model: int, lora: int, tenant: str) -> RequestView:
        """What policies may know of a request."""
        now = self.world.clock()
        number = self._next
        self._next = number + 1
        ids, ends = self.pieces.identity(asked.text, asked.salt, asked.token_ids)
        prompt = max(asked.prompt_tokens(self.pieces.bytes_per_token), ends[-1] if ends else 1)
        session = exchange.header(b"x-session-id")
        ttft = self._ttft(exchange)
        return RequestView(
            number,
            now,
            prompt,
            asked.max_tokens,
            ids,
            ends,
            model,
            self.sessions.number(asked.session if session is None else session.decode("latin-1")),
            self.tenants.number(tenant),
            lora,
            asked.priority,
            now + ttft if ttft else 0,
        )

    def _ttft(self, exchange: Exchange) -> int:
        """Picoseconds until the first token is due: `x-slo-ttft-ms` as llm-d has it, else what is set; 0 for never."""
        given = exchange.header(b"x-slo-ttft-ms")
        if given is not None and given.isdigit() and len(given) < 10:
            return int(given) * 10**9
        return int(self.world.settings.ttft_s * 1e12)

    def _model(self, name: str) -> tuple[int | None, int]:
        """Number of the model and of the adapter; None if every engine's models are known and it is none of them."""
        adapter = self.adapters.get(name)
        if adapter is not None:
            return self.models.number(adapter[0]), adapter[1]
        if name in self.models:
            return self.models.number(name), -1
        if len(self.models) and all(engine.models for engine in self.world.fleet):
            return None, -1
        return self.models.number(name[:200]), -1

    # Plain paths -----------------------------------------------------------------------------------------------------

    def _health(self, exchange: Exchange) -> None:
        exchange.answer(200, b"", b"text/plain")

    def _readiness(self, exchange: Exchange) -> None:
        serving = len(self.world.fleet.serving)
        ready = self._ready() and serving > 0
        body = msgspec.json.encode({"ready": ready, "engines": serving})
        exchange.answer(200 if ready else 503, body)

    def _models(self, exchange: Exchange) -> None:
        names = [*self.models.listed(), *sorted(self.adapters)]
        data = [{"id": name, "object": "model", "created": 0, "owned_by": "poise"} for name in names]
        exchange.answer(200, msgspec.json.encode({"object": "list", "data": data}))

    def _refuse(
        self, exchange: Exchange, status: int, message: str, headers: tuple[tuple[bytes, bytes], ...] = ()
    ) -> None:
        kind = "server_error" if status >= 500 else "invalid_request_error"
        exchange.answer(status, error_body(status, kind, message), headers=headers)
