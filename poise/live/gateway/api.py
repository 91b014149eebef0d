"""Receives client requests: the answer of each path, and the request attributes that policies may read."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

import msgspec
from xxhash import xxh3_128_hexdigest

from poise.core.fast_tuple import made
from poise.core.request import RequestView
from poise.live.gateway.fan import FIELD, PATHS, Fan, Part, parts
from poise.live.gateway.proxied_request import ProxiedRequest
from poise.live.gateway.world import World
from poise.live.http.bodies import FULL
from poise.live.http.exchange import Exchange
from poise.live.http.header import Headers
from poise.live.http.refuse import Refusal, plain
from poise.live.requests.body_fields import replaced
from poise.live.requests.names import Begun, Hashed, Names
from poise.live.requests.parsed_request import BadRequest, ParsedRequest, bad, guarded
from poise.live.requests.paths import READERS, Reader
from poise.live.requests.tenants import Tenant, Tenants
from poise.live.requests.text_prefix import Pieces
from poise.live.requests.token_prefix import Identity, Tokenising

if TYPE_CHECKING:
    from poise.live.gateway.fleet import Engine

NAMED: Final = 100_000
"""Most sessions with a number."""
MODELS: Final = 1_000
"""Most model names that are accepted unverified, where engines list none; further ones have no number."""
LONG: Final = 200
"""Letters of a name that is kept unhashed."""
ANSWERS: Final = 100_000
"""Most responses whose engine is remembered."""
RESPONSE: Final = re.compile(rb'"id":\s*"(resp_[\w-]{1,128})"')
ANONYMOUS: Final = Tenant(-1, "", min_priority=-(1 << 31))
TEMPLATED: Final = frozenset(("chat", "completion", "messages"))
"""Kinds of requests whose tokens can be known as their engine sees them."""
KEYS: Final = frozenset((b"authorization", b"x-api-key"))
"""Headers with a tenant's key, which is for the gateway alone."""
CHALLENGE: Final = ((b"www-authenticate", b"Bearer"),)


class Api:
    """Receives client requests.

    pieces: how prompts are cut into hashed pieces.  tenants: who may send requests; None: any client, without a tenant.
    tenant_header: the header that names the tenant where `tenants` trusts it.  ready: whether requests are accepted.
    exact: hashes prompts by their tokens, as engines' KV events do; None: by their text.
    proxied_requests: makes the proxied request for each kind of exchange.
    """

    def __init__(
        self,
        world: World,
        pieces: Pieces,
        *,
        tenants: Tenants | None = None,
        tenant_header: bytes = b"",
        exact: Tokenising | None = None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self.world = world
        self.pieces = pieces
        self.models = Names()
        self.adapters: dict[str, tuple[str, int]] = {}
        self.sessions: Names | Hashed = Names(NAMED)
        self.programs = Begun(NAMED)
        self._responses: OrderedDict[str, Engine] = OrderedDict()
        self.answered: Callable[[str, Engine], None] | None = None
        """Callback for a response that a later request may continue, and its engine."""
        self.proxied_requests: dict[type[Exchange], type[ProxiedRequest]] = {
            Exchange: ProxiedRequest,
            Part: ProxiedRequest,
        }
        self._tenants = tenants
        self._tenant_header = tenant_header
        self._exact = exact
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

    def tenants(self) -> list[str]:
        """The names of all tenants, by number; none where requests have no tenant."""
        return [] if self._tenants is None else list(self._tenants.numbers)

    def tenant_number(self, name: str) -> int:
        """The number of a tenant; -1 where there are none, or none of that name."""
        return -1 if self._tenants is None else self._tenants.number(name)

    def share_sessions(self) -> None:
        """Number sessions by their names alone from now on, so that all gateways give a session the same number."""
        self.sessions = Hashed()

    def admit(self, tenants: Tenants | None, header: bytes) -> None:
        """Accept requests of these tenants from now on; requests that were already accepted continue."""
        self._tenants, self._tenant_header = tenants, header

    def receive(self, exchange: Exchange) -> None:
        """Answer an exchange, now or later."""
        reader = READERS.get(exchange.target) or self._unspelt(exchange)
        if reader is not None:
            if exchange.method != "POST":
                self._refuse(exchange, 405, f"{exchange.path} takes POST only", ((b"allow", b"POST"),))
                return
            tenant = self._tenant(exchange)  # before the body is parsed: an unknown client costs no work
            if isinstance(tenant, BadRequest):
                exchange.answer(tenant.status, tenant.json(exchange.path), headers=CHALLENGE)
                return
            if FIELD in exchange.body and self._fanned(exchange):
                return
            parsed = reader(exchange.body)
            if type(parsed) is ParsedRequest:
                self._arrive(exchange, parsed, tenant)
            else:
                assert isinstance(parsed, BadRequest)
                exchange.answer(parsed.status, parsed.json(exchange.path))
            return
        plain = self._get.get(exchange.path)
        if plain is None:
            self._refuse(exchange, 404, f"there is no {exchange.path}; see /v1/models, /v1/chat/completions")
        elif exchange.method not in ("GET", "HEAD"):
            self._refuse(exchange, 405, f"{exchange.path} takes GET only", ((b"allow", b"GET"),))
        else:
            plain(exchange)

    def gate(self, target: bytes, head: Mapping[bytes, bytes]) -> Refusal | None:
        """Why a request is refused by its head, before its body is buffered; None if it is accepted."""
        tenant = self._who(head.get)
        if isinstance(tenant, BadRequest):
            body = tenant.json(target.decode("latin-1"))
            return Refusal(tenant.status, "key", tenant.message, CHALLENGE, body)
        return None

    def _fanned(self, exchange: Exchange) -> bool:
        """Whether the request fans out over several items; it is then split, or answered with the reason why not."""
        settings = self.world.settings
        if not settings.fan_out or type(exchange) is not Exchange or exchange.path not in PATHS:
            return False
        found = parts(exchange, settings.fan_out, settings.clients.body_bytes)
        if isinstance(found, BadRequest):
            exchange.answer(found.status, found.json())
        elif found is not None and exchange.keeps(sum(len(part.body) for part in found)):
            Fan(exchange, found, self.receive)
        elif found is not None:
            self._refuse(exchange, FULL.status, FULL.reason, FULL.headers)
        return found is not None

    def _unspelt(self, exchange: Exchange) -> Reader | None:
        """The reader of a path in another spelling, which no engine may get: with escapes, an origin, a query."""
        reader = READERS.get(exchange.path.encode())
        if reader is not None:
            query = exchange.query.encode("latin-1")
            exchange.target = exchange.path.encode() + (b"?" + query if query else b"")
        return reader

    def _arrive(self, exchange: Exchange, parsed: ParsedRequest, tenant: Tenant) -> None:
        world = self.world
        if self._tenants is not None and self._tenants.keyed:
            exchange.drop(KEYS)
        if not self._ready():
            self._refuse(exchange, 503, "the gateway is going down; ask another one", ((b"connection", b"close"),))
            return
        model, lora = self._model(parsed.model)
        if model is None:
            known = ", ".join(sorted(self._names())[:20])
            message = f"The model `{parsed.model[:200]}` does not exist; there are: {known}"
            unknown = BadRequest(404, "NotFoundError", "model", message, 404)
            if not parsed.model:
                unknown = bad(f"model is missing, and engines serve several; give one of: {known}", "model")
            exchange.answer(unknown.status, unknown.json(exchange.path))
            return
        if len(world.control.held) >= world.settings.held > 0:
            self._refuse(exchange, 503, "too many requests wait already; try again later", ((b"retry-after", b"1"),))
            return
        least = tenant.least_priority
        if parsed.priority < least:
            body = guarded(lambda body: replaced(body, {"priority": least}), exchange.body)
            if isinstance(body, BadRequest):
                exchange.answer(body.status, body.json(exchange.path))
                return
            parsed.priority = least
            exchange.rewrite(body)
        exact = self._exact is not None and parsed.kind in TEMPLATED
        if exact and self._request_tokens(exchange, parsed, model, lora, tenant):
            return
        salt = parsed.salt if lora < 0 else f"{parsed.salt}\0{parsed.model}"  # adapters share no cache
        ids, ends = ((), ()) if self._exact else self.pieces.identity(parsed.text, salt, parsed.token_ids)
        prompt = max(parsed.prompt_tokens(self.pieces.bytes_per_token), ends[-1] if ends else 1)
        self._send(exchange, parsed, model, lora, tenant, Identity(prompt, ids, ends))

    def _request_tokens(self, exchange: Exchange, parsed: ParsedRequest, model: int, lora: int, tenant: Tenant) -> bool:
        """Have a thread tokenize the prompt; False if too many requests wait for that."""
        assert self._exact is not None
        left: list[bool] = []

        def found(identity: Identity | None) -> None:
            if not left:
                known = identity or Identity(parsed.prompt_tokens(self.pieces.bytes_per_token), (), ())
                self._send(exchange, parsed, model, lora, tenant, known)

        exchange.gone = lambda: left.append(True)
        return self._exact.ask(parsed.kind, exchange.body, parsed.model if lora >= 0 else "", found)

    def _send(
        self, exchange: Exchange, parsed: ParsedRequest, model: int, lora: int, tenant: Tenant, prompt: Identity
    ) -> None:
        """All attributes that policies may read are known: pass the request to control."""
        now = self.world.clock()
        number = self._next
        self._next = number + 1
        ttft = self._ttft(exchange, tenant)
        if prompt.prompt_tokens >= self.world.fleet.shortest:
            prompt = self._shortened(prompt, model)
        session = self._session(exchange, parsed)
        turn, begun_at = self.programs.next(session, now)
        view: RequestView = made(
            RequestView,
            (
                number,
                now,
                prompt.prompt_tokens,
                parsed.max_tokens,
                prompt.ids,
                prompt.ends,
                model,
                session,
                tenant.id,
                lora,
                parsed.priority + tenant.priority,
                now + ttft if ttft else 0,
                0,
                self._home(parsed.previous) if parsed.previous else -1,
                turn,
                -1,
                begun_at,
            ),
        )
        proxied = self.proxied_requests[type(exchange)](self.world, exchange, view, parsed.stream, tenant.name)
        if parsed.kind == "responses":
            proxied.on_first_data = self._remember
        self.world.arrive(proxied)

    def _session(self, exchange: Exchange, parsed: ParsedRequest) -> int:
        """Number of the session: of the header, else of the body; long names are kept by their hash."""
        given = exchange.header(b"x-session-id")
        name = parsed.session if given is None else given.decode("latin-1")
        return self.sessions.number(name if len(name) <= LONG else xxh3_128_hexdigest(name.encode()))

    def _remember(self, proxied: ProxiedRequest, data: bytes) -> None:
        """An answer of /v1/responses begins: only the engine that gives it can continue from it."""
        found = RESPONSE.search(data, 0, 4096)
        if found is not None and proxied.engine is not None:
            response = found[1].decode()
            self.remember(response, proxied.engine.slot)
            if self.answered is not None:
                self.answered(response, proxied.engine)

    def remember(self, response: str, slot: int) -> None:
        """The engine in `slot` has the state of a response."""
        engine = self.world.fleet.slots[slot] if slot >= 0 else None
        if engine is not None:
            self._responses[response] = engine
            if len(self._responses) > ANSWERS:
                self._responses.popitem(last=False)

    def _home(self, previous: str) -> int:
        """Slot of the engine that gave a response; -1 where it is unknown or the engine has left."""
        engine = self._responses.get(previous)
        return engine.slot if engine is not None and self.world.fleet.slots[engine.slot] is engine else -1

    def _shortened(self, prompt: Identity, model: int) -> Identity:
        """Route a prompt that is too long for every engine to one with the longest limit, for that engine's own error.

        Its tokens may be an estimate, and waiting for an engine with a longer limit is useless.
        """
        most = self.world.fleet.longest(model) - 1
        if not 0 < most < prompt.prompt_tokens:
            return prompt
        kept = bisect_right(prompt.ends, most)
        return Identity(most, prompt.ids[:kept], prompt.ends[:kept])

    def _tenant(self, exchange: Exchange) -> Tenant | BadRequest:
        """The tenant of a request; a head that its connection repeats is looked up once."""
        shared, tenants = exchange.shared, self._tenants
        if shared is None or tenants is None:
            return self._who(exchange.header)
        known = shared.notes.get(tenants)
        if type(known) is Tenant:
            return known
        found = self._who(exchange.header)
        if type(found) is Tenant:
            shared.notes.clear()  # of tenants that were exchanged since
            shared.notes[tenants] = found
        return found

    def _who(self, header: Callable[[bytes], bytes | None]) -> Tenant | BadRequest:
        if self._tenants is None:
            return ANONYMOUS
        key = header(b"authorization") or header(b"x-api-key")
        return self._tenants.who(key, header(self._tenant_header) if self._tenant_header else None)

    def _ttft(self, exchange: Exchange, tenant: Tenant) -> int:
        """Picoseconds until the first token is due: `x-slo-ttft-ms` as llm-d has it, else the setting; 0 for never.

        A tenant's deadline is not below its `min_ttft_ms`, or else not below the setting.
        """
        own = int(self.world.settings.ttft_s * 1e12)
        given = exchange.header(b"x-slo-ttft-ms")
        if given is None or not given.isdigit() or len(given) >= 10:
            return own
        instant = int(given) * 10**9
        if tenant is ANONYMOUS:
            return instant
        soonest = tenant.min_ttft_ms * 10**9 or own
        return max(instant, soonest) if soonest else 0

    def _model(self, name: str) -> tuple[int | None, int]:
        """Number of the model and of the adapter; None if every engine's models are known and it is none of them.

        No name is that of the only model, where engines serve no more than one.
        """
        adapter = self.adapters.get(name)
        if adapter is not None:
            return self.models.number(adapter[0]), adapter[1]
        if name in self.models:
            return self.models.number(name), -1
        fleet = list(self.world.fleet)
        if not name:
            served = self._names()
            return (self._model(served[0]) if len(served) == 1 else (None, -1)) if served else (-1, -1)
        if not any(name in engine.models for engine in fleet):
            if fleet and all(engine.models for engine in fleet):
                return None, -1
            if len(self.models) >= MODELS or len(name) > LONG:
                return -1, -1
        return self.models.number(name), -1

    def _names(self) -> list[str]:
        """The models and adapters that engines serve."""
        fleet = list(self.world.fleet)
        models = dict.fromkeys(name for engine in fleet for name in engine.models)
        return [*models, *sorted({name for engine in fleet for name in engine.adapters})]

    # Plain paths -----------------------------------------------------------------------------------------------------

    def _health(self, exchange: Exchange) -> None:
        exchange.answer(200, b"", b"text/plain")

    def _readiness(self, exchange: Exchange) -> None:
        serving = len(self.world.fleet.serving)
        ready = self._ready() and serving > 0
        fields: dict[str, object] = {"ready": ready}
        if self._stranger(exchange) is None:
            fields["engines"] = serving
        exchange.answer(200 if ready else 503, msgspec.json.encode(fields))

    def _stranger(self, exchange: Exchange) -> BadRequest | None:
        """The error for a client without a valid key, where tenants have keys: it may not read names and metrics."""
        keyed = self._tenants is not None and self._tenants.keyed
        tenant = self._who(exchange.header) if keyed else ANONYMOUS
        return tenant if isinstance(tenant, BadRequest) else None

    def _models(self, exchange: Exchange) -> None:
        stranger = self._stranger(exchange)
        if stranger is not None:
            exchange.answer(stranger.status, stranger.json(exchange.path), headers=CHALLENGE)
            return
        data = [
            {"id": name, "object": "model", "created": 0, "owned_by": "poise"}
            | ({"parent": self.adapters[name][0]} if name in self.adapters else {})
            for name in self._names()
        ]
        exchange.answer(200, msgspec.json.encode({"object": "list", "data": data}))

    def _refuse(self, exchange: Exchange, status: int, message: str, headers: Headers = ()) -> None:
        exchange.answer(status, plain(exchange.path, status, message), headers=headers)
