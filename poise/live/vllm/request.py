"""A request of the engine as policies see it: its figures are the engine's own, read at each step."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from hashlib import blake2b
from typing import Any, Final, Protocol

from poise.core.request import UNKNOWN_TOOL, RequestView
from poise.core.units import SECOND

SESSIONS: Final = 65_536
"""Most sessions whose turns are counted; the least recently used one is dropped first."""


class Inner(Protocol):
    """The attributes read of an engine's request (vLLM's `v1.request.Request`)."""

    request_id: str
    num_prompt_tokens: int
    num_computed_tokens: int
    num_output_placeholders: int
    is_prefill_chunk: bool
    max_tokens: int
    priority: int
    session_id: str | None
    block_hashes: Sequence[bytes]
    sampling_params: Any
    lora_request: Any

    @property
    def num_output_tokens(self) -> int:
        """Output tokens that are known."""
        ...


class Seat:
    """One request (`view.SequenceView`).

    inner: the engine's.  admitted: whether it runs.  answered: whether its first token was reported to the batcher.
    key: its sort key by the queue policy, None before it is computed.
    """

    __slots__ = (
        "admitted", "answered", "chunk", "computed", "id", "inner", "key", "layer", "pinned", "preemptions",
        "produced", "request", "source", "swapped", "tool",
    )  # fmt: skip

    def __init__(self, request: RequestView, inner: Inner) -> None:
        self.request = request
        self.id = request.id
        self.inner = inner
        self.admitted = self.answered = self.pinned = False
        self.key: Any = None
        self.computed = self.produced = self.chunk = self.layer = self.swapped = self.preemptions = 0
        self.source = -1
        self.tool = UNKNOWN_TOOL

    @property
    def need(self) -> int:
        """Tokens whose KV must be present before the next token can be sampled."""
        return self.request.prompt_tokens + self.produced

    def refresh(self) -> None:
        """Read the engine's progress; a token that is being made counts, as in the engine's own figures."""
        self.computed = self.inner.num_computed_tokens
        self.produced = self.inner.num_output_tokens + self.inner.num_output_placeholders


class RequestViews:
    """All requests that the engine has, by its own name for them; ids are dense, in order of arrival."""

    def __init__(self, block: int, prefixes: bool) -> None:
        self._block = block
        self._prefixes = prefixes
        self._by_name: dict[str, Seat] = {}
        self._by_id: dict[int, Seat] = {}
        self._sessions: OrderedDict[int, tuple[int, int]] = OrderedDict()
        self._count = 0

    def of(self, inner: Inner, now: int) -> Seat:
        """The view of a request; a new one if it is not known yet, at instant `now`."""
        seat = self._by_name.get(inner.request_id)
        if seat is None or seat.inner is not inner:
            seat = Seat(self._view(inner, now), inner)
            self._by_name[inner.request_id] = self._by_id[seat.id] = seat
        return seat

    def known(self, inner: Inner) -> bool:
        """Whether the request has a view."""
        seat = self._by_name.get(inner.request_id)
        return seat is not None and seat.inner is inner

    def find(self, id: int) -> Seat | None:
        """The view with this id."""
        return self._by_id.get(id)

    def leave(self, inner: Inner) -> Seat | None:
        """The request has ended; drop its view, if it had one."""
        seat = self._by_name.pop(inner.request_id, None)
        if seat is not None:
            del self._by_id[seat.id]
        return seat

    def _view(self, inner: Inner, now: int) -> RequestView:
        """The attributes that policies may read of a request. A prompt's extents are the engine's own block hashes."""
        extra = getattr(inner.sampling_params, "extra_args", None) or {}
        session = _named(inner.session_id or extra.get("poise_session"))
        turn, begun_at = self._turn(session, now)
        hashes = inner.block_hashes[: inner.num_prompt_tokens // self._block] if self._prefixes else ()
        deadline_s = extra.get("poise_deadline_s", 0)
        request = RequestView(
            self._count,
            now,
            inner.num_prompt_tokens,
            inner.max_tokens,
            tuple(int.from_bytes(each[:8], "big") >> 1 for each in hashes),
            tuple(self._block * (place + 1) for place in range(len(hashes))),
            session=session,
            tenant=_named(extra.get("poise_tenant")),
            lora=getattr(inner.lora_request, "lora_int_id", -1),
            priority=inner.priority,
            deadline_at=now + round(deadline_s * SECOND) if deadline_s else 0,
            predicted_tokens=int(extra.get("poise_predicted_tokens", 0)),
            turn=turn,
            begun_at=begun_at,
        )
        self._count += 1
        return request

    def _turn(self, session: int, now: int) -> tuple[int, int]:
        """How many requests of the session came before, and when its first did."""
        if session < 0:
            return 0, now
        turn, begun_at = self._sessions.pop(session, (0, now))
        self._sessions[session] = turn + 1, begun_at
        if len(self._sessions) > SESSIONS:
            self._sessions.popitem(last=False)
        return turn, begun_at


def _named(name: Any) -> int:
    """A number for a name, the same in every process; -1 for none."""
    if name is None:
        return -1
    return int.from_bytes(blake2b(str(name).encode(), digest_size=8).digest(), "big") >> 1
