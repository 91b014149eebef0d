"""A request as policies see it, as an engine runs it, and the phases of its life in one table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from poise.core.errors import InvalidTransition

if TYPE_CHECKING:
    from poise.core.action import Entry
    from poise.core.engine.runs import Path, Run


class Phase:
    """Where a request is in its life; plain integers, because the simulator changes them millions of times."""

    HELD: Final = 0  # at the gateway, not sent to any replica
    WAITING: Final = 1  # in a replica's queue
    PREFILL: Final = 2  # admitted; its prompt (or what a preemption lost) is being computed
    DECODE: Final = 3  # one token a step
    PULLING: Final = 4  # its KV cache is on its way to this replica
    SENDING: Final = 5  # done here; its KV cache stays until another replica has fetched it
    MOVING: Final = 6  # it is paused while the last of its KV cache goes to another replica
    ENDED: Final = 7

    NAMES: Final = ("held", "waiting", "prefill", "decode", "pulling", "sending", "moving", "ended")


TRANSITIONS: dict[int, frozenset[int]] = {
    Phase.HELD: frozenset({Phase.WAITING, Phase.ENDED}),
    Phase.WAITING: frozenset({Phase.PREFILL, Phase.DECODE, Phase.PULLING, Phase.HELD, Phase.ENDED}),
    Phase.PREFILL: frozenset({Phase.DECODE, Phase.SENDING, Phase.WAITING, Phase.HELD, Phase.ENDED}),
    Phase.DECODE: frozenset({Phase.WAITING, Phase.MOVING, Phase.HELD, Phase.ENDED}),
    Phase.PULLING: frozenset({Phase.PREFILL, Phase.DECODE, Phase.WAITING, Phase.HELD, Phase.ENDED}),
    Phase.SENDING: frozenset({Phase.ENDED}),
    Phase.MOVING: frozenset({Phase.DECODE, Phase.HELD, Phase.ENDED}),
    Phase.ENDED: frozenset(),
}
"""The whole life of a request: which phase may follow which."""

_ALLOWED: Final = tuple(sum(1 << after for after in TRANSITIONS[phase]) for phase in sorted(TRANSITIONS))


class RequestView(NamedTuple):
    """The attributes of a request that policies may read; its true output length is not among them.

    id: dense, never reused.  ids, ends: prompt identity as extents (see `workload.Prefixes`), empty without identity.
    max_tokens: the client's limit, 0 for none.
    arrived_at, deadline_at: picoseconds; `deadline_at` is 0 for none.  priority: lower goes first.
    predicted_tokens: predicted output tokens, 0 where there is no prediction.
    home: the only replica with the request's previous state, -1 for none; another one gets it only if that one
    is not able.
    turn: how many requests of its session come before it.  stage: which step of its program it is, by the workload's
    index, -1 where unknown.  begun_at: when the first request of its session arrived (itself without a session).
    """

    id: int
    arrived_at: int
    prompt_tokens: int
    max_tokens: int = 0
    ids: tuple[int, ...] = ()
    ends: tuple[int, ...] = ()
    model: int = 0
    session: int = -1
    tenant: int = -1
    lora: int = -1
    priority: int = 0
    deadline_at: int = 0
    predicted_tokens: int = 0
    home: int = -1
    turn: int = 0
    stage: int = -1
    begun_at: int = 0


UNKNOWN_TOOL: Final = -2
"""`Sequence.tool`: unknown which tool the answer calls, or whether it calls one."""

NO_TOOL: Final = -1
"""`Sequence.tool`: the answer calls no tool; its session ends with it."""


class Account(Protocol):
    """Where a sequence reports its phases and its work, so that its time can be charged.

    swap, wire_at: picoseconds of swapping not yet charged, and when its KV gets onto the link.
    """

    swap: int
    wire_at: int

    def move(self, sequence: Sequence, phase: int) -> None:
        """Its sequence enters `phase`."""

    def computed(self, entry: Entry, lane: Any, elapsed: int, duration: int) -> None:
        """`elapsed` picoseconds of a step of `duration` in which it had `entry` are over."""


class Sequence:
    """One request inside one engine: its progress and its share of the KV cache.

    request: its known attributes.  output_tokens: after how many it ends (the engine finds out; no policy reads it).
    computed: tokens whose KV is here.  produced: output tokens made so far, earlier replicas' included.
    cached: prompt tokens found in the prefix cache when it was admitted first.
    chunk, layer: the running prompt chunk and the layers it has passed, 0 when there is none.
    nodes, shared: runs of prefix extents held, and how many of its blocks lie in them.  own: blocks that it left in the
    cache when it was preempted, which it alone can find.  path: its prompt's extents, once they are needed.
    source: the replica that its KV must be pulled from, -1 for none.  swapped: tokens whose KV lies in host memory.
    kept: tokens of which host memory keeps a copy while they are here too, whole blocks of them.
    tool: its answer's tool, by the workload's index, `NO_TOOL` or `UNKNOWN_TOOL`; read only once it has ended.
    pinned: whether KV of its session was pinned here when it arrived.
    account: where its time is charged; None unless the run records it.
    """

    __slots__ = (
        "account", "cached", "cancelled", "chunk", "computed", "done_at_step", "extent", "hit", "hit_end",
        "hit_own", "hit_runs", "hit_version", "id", "kept", "lane", "layer", "nodes", "offset", "output_id",
        "output_tokens", "own", "path", "phase", "pinned", "preemptions", "produced", "request", "shared", "short",
        "source", "swapped", "tool",
    )  # fmt: skip

    done_at_step: int
    extent: int
    hit: int
    hit_end: int
    hit_own: int
    hit_runs: list[Run]
    hit_version: int
    offset: int
    short: bool

    def __init__(
        self, request: RequestView, output_tokens: int, produced: int = 0, output_id: int = -1, tool: int = UNKNOWN_TOOL
    ) -> None:
        self.request = request
        self.id = request.id
        self.output_tokens = output_tokens
        self.produced = produced
        self.output_id = output_id
        self.tool = tool
        self.phase = Phase.WAITING
        self.account: Account | None = None
        self.computed = 0
        self.chunk = 0
        self.layer = 0
        self.nodes: list[Run] = []
        self.own: Run | None = None
        self.path: Path | None = None
        self.shared = 0
        self.source = -1
        self.swapped = 0
        self.kept = 0
        self.cancelled = False
        self.cached = 0
        self.hit_version = -1
        self.preemptions = 0
        self.pinned = False
        self.lane = -1

    @property
    def need(self) -> int:
        """Tokens whose KV must be here before the next token can be sampled."""
        return self.request.prompt_tokens + self.produced

    def twin(self, output_tokens: int) -> Sequence:
        """The same request for another engine that continues it, to end after `output_tokens`."""
        return Sequence(self.request, output_tokens, self.produced, self.output_id, self.tool)

    def move(self, phase: int) -> None:
        """Enter `phase`, or raise `InvalidTransition` with the story so far."""
        if not _ALLOWED[self.phase] >> phase & 1:
            names = Phase.NAMES
            raise InvalidTransition(
                f"request {self.id}: {names[self.phase]} → {names[phase]} is no transition; {self!r}"
            )
        self.phase = phase
        if self.account is not None:
            self.account.move(self, phase)

    def __repr__(self) -> str:
        request = self.request
        return (
            f"Sequence({request.id}, {Phase.NAMES[self.phase]}, computed {self.computed} of {request.prompt_tokens}+"
            f"{self.produced}, {self.shared} shared blocks, {self.preemptions} preemptions)"
        )
