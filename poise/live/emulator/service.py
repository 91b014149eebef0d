"""The HTTP API of an emulated engine: vLLM's paths, statuses and bodies."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, Protocol

import msgspec

from poise.core.errors import UserError
from poise.core.version import version
from poise.live.emulator import pooling, shape, sound
from poise.live.emulator.ask import Limits, Reader
from poise.live.emulator.checks import OUTPUT, output_of
from poise.live.emulator.engine import Core
from poise.live.emulator.engine_request import EngineRequest
from poise.live.emulator.event_reply import STREAMED, MessageReply
from poise.live.emulator.fault import Fault, Faults, read_fault
from poise.live.emulator.nonsense import arm
from poise.live.emulator.options import Plan
from poise.live.emulator.refuse import Refused, missing, read_json
from poise.live.emulator.reply import Choices, Reply, StreamedReply, WholeReply
from poise.live.emulator.tokens import complete, decode
from poise.live.http import Exchange

SESSION: Final = b"x-session-id"
"""A header that names the conversation, as the gateway reads it too: its pinned KV is released when it returns."""
PLAIN: Final = b"text/plain; charset=utf-8"
KEPT: Final = 10_000
"""Most responses found by their ids."""


class Engine(Protocol):
    """The engine behind the API."""

    plan: Plan
    core: Core
    faults: Faults

    def begin(self, fault: Fault) -> None:
        """A fault sets in."""
        ...

    def clear(self) -> None:
        """All faults are over."""
        ...


class Service:
    """Answers requests; one object for each start of the engine.

    load: running inference requests.  parked: requests that arrived during a stall.
    """

    def __init__(self, engine: Engine) -> None:
        plan = engine.plan
        options = plan.options
        self.engine = engine
        self.plan = plan
        self.reader = Reader(
            Limits(
                plan.names,
                plan.context,
                options.block_size,
                options.enable_prefix_caching,
                options.seed,
                engine.core.loras.names.keys(),
            )
        )
        self.parked: list[Exchange] = []
        self._responses: dict[str, None] = {}
        self._lost: list[Exchange] = []  # accepted and never answered
        self._began = int(time.time())
        self._keys = [key.encode() for key in options.api_key]
        self._paths: dict[str, dict[str, Callable[[Exchange], None]]] = {
            "/v1/chat/completions": {"POST": self._chat},
            "/v1/completions": {"POST": self._completion},
            "/v1/responses": {"POST": self._response},
            "/v1/messages": {"POST": self._message},
            "/v1/messages/count_tokens": {"POST": self._count},
            "/v1/audio/transcriptions": {"POST": self._hear},
            "/v1/audio/translations": {"POST": self._hear},
            "/v1/audio/speech": {"POST": self._say},
            **{path: {"POST": partial(self._pool, kind)} for path, kind in pooling.PATHS.items()},
            "/v1/models": {"GET": self._models},
            "/tokenize": {"POST": self._tokenize},
            "/detokenize": {"POST": self._detokenize},
            "/health": {"GET": self._well},
            "/ping": {"GET": self._well, "POST": self._well},
            "/version": {"GET": self._version},
            "/load": {"GET": self._load},
            "/metrics": {"GET": self._metrics},
            "/reset_prefix_cache": {"POST": self._reset},
        }
        if options.allow_runtime_lora_updating:
            self._paths["/v1/load_lora_adapter"] = {"POST": self._load_lora}
            self._paths["/v1/unload_lora_adapter"] = {"POST": self._unload_lora}
        if options.faults:
            self._paths["/fault"] = {"GET": self._faults, "POST": self._fault, "DELETE": self._no_fault}

    def __call__(self, exchange: Exchange) -> None:
        """Answer one request, now or later."""
        faults = self.engine.faults
        if exchange.path != "/fault" or not self.plan.options.faults:
            if "stall" in faults:
                self.parked.append(exchange)
                exchange.gone = lambda: self.parked.remove(exchange)
                return
            if faults.meet("half_open") is not None:
                self._lost.append(exchange)
                exchange.gone = lambda: self._lost.remove(exchange)
                return
        try:
            self._route(exchange)
        except Refused as refused:
            exchange.answer(refused.status, refused.body(exchange.path))

    def unpark(self) -> None:
        """End a stall."""
        parked, self.parked = self.parked, []
        for exchange in parked:
            exchange.gone = None
            self(exchange)

    def _route(self, exchange: Exchange) -> None:
        if self._keys and exchange.path.startswith("/v1") and not self._knows(exchange):
            exchange.answer(401, b'{"error":"Unauthorized"}')
            return
        methods = self._paths.get(exchange.path)
        if methods is None:
            exchange.answer(404, b'{"detail":"Not Found"}')
        elif exchange.method not in methods:
            exchange.answer(405, b'{"detail":"Method Not Allowed"}', headers=[(b"allow", ", ".join(methods).encode())])
        else:
            methods[exchange.method](exchange)

    def _knows(self, exchange: Exchange) -> bool:
        """Whether the request has one of the keys."""
        scheme, _, key = (exchange.header(b"authorization") or b"").partition(b" ")
        known = False
        for each in self._keys:  # all of them, in constant time
            known |= secrets.compare_digest(each, key)
        return known and scheme.lower() == b"bearer"

    # Inference -------------------------------------------------------------------------------------------------------

    def _chat(self, exchange: Exchange) -> None:
        self._infer(exchange, self.reader.chat)

    def _completion(self, exchange: Exchange) -> None:
        self._infer(exchange, self.reader.completion)

    def _response(self, exchange: Exchange) -> None:
        previous = read_json(exchange.body).get("previous_response_id")
        if previous is not None and str(previous) not in self._responses:
            raise Refused(404, f"Response with id '{previous}' not found.", "invalid_request_error", "response_id")
        self._infer(exchange, self.reader.response)

    def _message(self, exchange: Exchange) -> None:
        self._infer(exchange, self.reader.message)

    def _infer(self, exchange: Exchange, read: Callable[[Mapping[str, Any], int], list[EngineRequest]]) -> None:
        if self._rejects(exchange):
            return
        body = read_json(exchange.body)
        asks = read(body, output_of(exchange.header(OUTPUT)))
        first = asks[0]
        whole = MessageReply if first.kind == "message" else WholeReply
        name = _name(shape.PREFIXES[first.kind], exchange, body)
        if first.kind == "response":
            self._keep(name)
        self._start(exchange, asks, STREAMED.get(first.kind, StreamedReply) if first.stream else whole, name)

    def _start(self, exchange: Exchange, asks: list[EngineRequest], kind: type[Reply], name: str, **more: Any) -> None:
        """Queue all choices of an answer at once."""
        core, session = self.engine.core, exchange.header(SESSION)
        replies = [core.take(kind, ask, exchange, name, session) for ask in asks]

        def drop() -> None:
            for reply in replies:
                core.drop(reply)

        exchange.gone = drop
        arm(replies[0], exchange, drop, self.engine.faults)
        choices = Choices(replies)
        for reply in replies:
            reply.choices = choices
            for field, value in more.items():
                setattr(reply, field, value)
            reply.begin()
        for reply in replies:
            core.run(reply)

    def _hear(self, exchange: Exchange) -> None:
        if self._rejects(exchange):
            return
        form = sound.form(exchange.body)
        given = sound.fields(form)
        ask = self.reader.plain("transcription", given, sound.heard(form), output_of(exchange.header(OUTPUT)))
        kind = sound.HeardEvents if ask.stream else sound.Heard
        self._start(exchange, [ask], kind, _name(shape.PREFIXES[ask.kind], exchange, given), form=form)

    def _say(self, exchange: Exchange) -> None:
        if self._rejects(exchange):
            return
        body = read_json(exchange.body)
        if not isinstance(body.get("input"), str):
            raise missing("input", body)
        ask = self.reader.plain(
            "speech", {"model": body.get("model")}, complete(body["input"]), output_of(exchange.header(OUTPUT))
        )
        self._start(exchange, [ask], sound.Spoken, _name(shape.PREFIXES[ask.kind], exchange, body))

    def _keep(self, response: str) -> None:
        """Remember a response, and the last ones before it, when another continues from it."""
        self._responses[response] = None
        if len(self._responses) > KEPT:
            del self._responses[next(iter(self._responses))]

    def _pool(self, kind: pooling.Kind, exchange: Exchange) -> None:
        if self._rejects(exchange):
            return
        body = read_json(exchange.body)
        asks = self.reader.pooling(body, kind.prompts(body))
        pooled = pooling.Pooled(kind, asks, body, exchange, int(time.time()))
        self._start(exchange, asks, pooling.PooledReply, _name(kind.prefix, exchange, body), pooled=pooled)

    def _rejects(self, exchange: Exchange) -> bool:
        fault = self.engine.faults.meet("reject")
        if fault is None:
            return False
        kind = "RateLimitError" if fault.status == 429 else "ServiceUnavailableError"
        refused = Refused(fault.status, "the engine takes no requests at present", kind)
        exchange.answer(fault.status, refused.body(exchange.path), headers=[(b"retry-after", b"1")])
        return True

    # Facts -----------------------------------------------------------------------------------------------------------

    def _models(self, exchange: Exchange) -> None:
        plan, loras = self.plan, self.engine.core.loras
        paths = {name: lora.path for name, lora in loras.names.items()}
        exchange.answer(200, shape.models(plan.names, plan.context, self._began, paths))

    def _load_lora(self, exchange: Exchange) -> None:
        body, core = read_json(exchange.body), self.engine.core
        core.preload(core.loras.load(body, self.plan.names))
        exchange.answer(200, f"Success: LoRA adapter '{body['lora_name']}' added successfully.".encode(), PLAIN)

    def _unload_lora(self, exchange: Exchange) -> None:
        name = self.engine.core.loras.unload(read_json(exchange.body))
        exchange.answer(200, f"Success: LoRA adapter '{name}' removed successfully.".encode(), PLAIN)

    def _tokenize(self, exchange: Exchange) -> None:
        tokens = self.reader.tokens(read_json(exchange.body)).tolist()
        fields = {"count": len(tokens), "max_model_len": self.plan.context, "tokens": tokens, "token_strs": None}
        exchange.answer(200, shape.encode(fields))

    def _count(self, exchange: Exchange) -> None:
        tokens = self.reader.count(read_json(exchange.body))
        context = {"original_input_tokens": tokens}
        exchange.answer(200, shape.encode({"input_tokens": tokens, "context_management": context}))

    def _detokenize(self, exchange: Exchange) -> None:
        tokens = read_json(exchange.body).get("tokens")
        if not isinstance(tokens, list) or not all(isinstance(each, int) and each >= 0 for each in tokens):
            raise Refused(400, "tokens: a list of token ids is needed", param="tokens")
        exchange.answer(200, shape.encode({"prompt": decode(tokens)}))

    def _well(self, exchange: Exchange) -> None:
        exchange.start(200, [], 0)
        exchange.end()

    def _version(self, exchange: Exchange) -> None:
        exchange.answer(200, shape.encode({"version": f"{version()}+poise.emulated"}))

    def _load(self, exchange: Exchange) -> None:
        exchange.answer(200, shape.encode({"server_load": len(self.engine.core.driver.listeners)}))

    def _metrics(self, exchange: Exchange) -> None:
        core = self.engine.core
        exchange.answer(200, core.metrics.render(core.driver, core.loras), b"text/plain; version=1.0.0; charset=utf-8")

    def _reset(self, exchange: Exchange) -> None:
        exchange.answer(200, shape.encode({"success": self.engine.core.reset_cache()}))

    # Faults ----------------------------------------------------------------------------------------------------------

    def _faults(self, exchange: Exchange) -> None:
        exchange.answer(200, msgspec.json.encode(list(self.engine.faults.active.values())))

    def _fault(self, exchange: Exchange) -> None:
        try:
            fault = read_fault(exchange.body)
        except UserError as error:
            raise Refused(400, str(error)) from None
        exchange.answer(200, msgspec.json.encode(fault))
        self.engine.begin(fault)

    def _no_fault(self, exchange: Exchange) -> None:
        self.engine.clear()
        exchange.answer(200, b"[]")


def _name(prefix: str, exchange: Exchange, body: Mapping[str, Any]) -> str:
    """The id of an answer: the caller's own if there is one, as in vLLM."""
    given = exchange.header(b"x-request-id")
    own = given.decode("latin-1") if given else str(body.get("request_id") or "")
    return prefix + (own or secrets.token_hex(16))
