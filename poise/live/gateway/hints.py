"""Cache-policy decisions at the gateway, sent to engines as hints with the requests of sessions.

A hint is sent with a request, before the tool that its answer will call is known. So the policy is called twice: when
the request is sent, without a tool, for the hint; and when the answer ends, with the tool that it calls, to learn.
The field is Dynamo's `nvext.cache_control` (ai-dynamo/dynamo#6213): `{"type": "ephemeral", "ttl": "30s"}`.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final, cast

import msgspec

from poise.core.action import ALL
from poise.core.errors import PolicyError
from poise.core.estimate import Chunk
from poise.core.policy import Cache
from poise.core.request import UNKNOWN_TOOL, RequestView
from poise.core.request import Sequence as Running
from poise.core.units import SECOND, ps
from poise.core.view import LaneView
from poise.live.gateway.tool_calls import Called, Tools
from poise.live.requests.body_fields import fields, replaced
from poise.live.requests.paths import CHAT, GENERATING, MESSAGES

if TYPE_CHECKING:
    from poise.live.gateway.fleet import Engine

KEPT: Final = 100_000
"""Most sessions whose KV retention time is remembered."""
FIELD: Final = b'"nvext"'
NAMING: Final = (CHAT, MESSAGES)
"""Paths whose answers name the tool that they call."""


class Lane:
    """The engine attributes that a cache policy can read at the gateway: time, and prefill time, 0 for unknown."""

    def __init__(self, now: int, prefill_rate: float) -> None:
        self.now = now
        self._rate = prefill_rate

    def predict(self, chunks: Sequence[Chunk], decodes: int = ALL, context: int = 0, share: float = 0.0) -> int:
        """Picoseconds of the chunks at the engine's prefill rate."""
        return ps(sum(chunk.tokens for chunk in chunks) / self._rate) if self._rate else 0


class Hints:
    """A cache policy with its inputs and its decisions.

    clock: picoseconds.  failed: callback for a policy that raised, and where; its requests then go without hints.
    """

    def __init__(self, cache: Cache, clock: Callable[[], int], failed: Callable[[str, Exception], None]) -> None:
        self.clock = clock
        self.tools = Tools()
        self.cache = deepcopy(cache)
        self._returned: Callable[[RequestView, int], None] | None = getattr(self.cache, "returned", None)
        self._admitted: Callable[[Running, int], None] | None = getattr(self.cache, "admitted", None)
        self._failed = failed
        self._until: OrderedDict[int, int] = OrderedDict()

    def arrived(self, request: RequestView, path: str) -> Hint | None:
        """A request arrives; its session state, None where it has no session or generates nothing."""
        if request.session < 0 or path not in GENERATING:
            return None
        if self._returned is not None:
            self._try("arrival", self._returned, request, self.clock())
        return Hint(self, request, path in NAMING)

    def begin(self, running: Running, engine: Engine) -> int:
        """Picoseconds for which its KV shall stay; called when a request is sent for the first time."""
        session, now = running.request.session, self.clock()
        running.pinned = self._until.get(session, -1) >= now
        if self._admitted is not None:
            self._try("admission", self._admitted, running, now)
        keep = self.ask(running, engine.at.prefill_rate)
        self._note(session, now + keep if keep > 0 else -1)
        return keep

    def ask(self, running: Running, prefill_rate: float) -> int:
        """The policy's answer; 0 where it fails."""
        lane = cast(LaneView, Lane(self.clock(), prefill_rate))
        return int(self._try("keep", self.cache.cache, running.request, running, lane) or 0)

    def _note(self, session: int, until: int) -> None:
        self._until.pop(session, None)
        self._until[session] = until
        if len(self._until) > KEPT:
            self._until.popitem(last=False)

    def _try(self, at: str, ask: Callable[..., Any], *given: Any) -> Any:
        """Call the policy; if it raises, no request is affected."""
        try:
            return ask(*given)
        except Exception as error:
            self._failed(f"cache policy's {at}", error)
            return None


class Hint:
    """The hint of one request: the same at every engine that it is sent to."""

    __slots__ = ("_called", "_hints", "_keep", "_rate", "_running")

    def __init__(self, hints: Hints, request: RequestView, chat: bool) -> None:
        self._hints = hints
        self._running = Running(request, max(request.max_tokens, 1), tool=UNKNOWN_TOOL)
        self._called = Called() if chat else None
        self._keep = -1  # not decided yet
        self._rate = 0.0

    def body(self, engine: Engine, body: bytes) -> bytes:
        """The request's body for an engine: with the hint, if the engine takes hints."""
        if not engine.at.hints:
            return body
        if self._keep < 0:
            self._keep, self._rate = self._hints.begin(self._running, engine), engine.at.prefill_rate
        return hinted(body, self._keep) if self._keep > 0 else body

    def see(self, data: bytes) -> None:
        """More of the answer's body has arrived."""
        if self._called is not None:
            self._called.see(data)

    def end(self, tokens: int) -> None:
        """The answer has ended after `tokens` tokens: the policy learns which tool it calls."""
        if self._keep >= 0:
            running = self._running
            running.produced = tokens
            running.tool = UNKNOWN_TOOL if self._called is None else self._called.tool(self._hints.tools)
            self._hints.ask(running, self._rate)


def hinted(body: bytes, keep: int) -> bytes:
    """A body with its KV retention time added, in whole seconds; a hint of the client's own is kept.

    What the client wrote is kept byte for byte, unless it has an `nvext` of its own to be added to.
    """
    control = {"type": "ephemeral", "ttl": f"{-(-keep // SECOND)}s"}
    if FIELD not in body:
        encoded = msgspec.json.encode({"cache_control": control})
        return body.rstrip()[:-1] + b"," + FIELD + b":" + encoded + b"}"
    try:
        own = fields(fields(body).get("nvext", b"{}"))
        return replaced(body, {"nvext": {"cache_control": control, **own}})
    except (ValueError, RecursionError):  # the engine reports it to the client
        return body


def try_out(cache: Cache) -> None:
    """Raise PolicyError, before requests are served, where a cache policy reads what a gateway does not have."""
    if hasattr(cache, "rank"):
        raise PolicyError("ranks what is evicted, which no hint can say; take continuum, or fixed_ttl")
    if hasattr(cache, "reveal"):
        raise PolicyError("needs the future, which a gateway does not have; use continuum or fixed_ttl")

    def failed(at: str, error: Exception) -> None:
        raise PolicyError(f"cannot be asked by a gateway ({at}: {type(error).__name__}: {error}); it can be simulated")

    hints = Hints(cache, lambda: SECOND, failed)
    hints.ask(Running(RequestView(0, 0, 1000, session=0), 1), 1000.0)
