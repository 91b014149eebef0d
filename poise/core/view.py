"""The read-only views of policies, as protocols; a policy may change nothing here."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Protocol

from poise.core.action import ALL
from poise.core.estimate import Chunk, Store
from poise.core.request import RequestView
from poise.core.spec import Engine, Lane, Role

REPORTED = ("tokens", "queued_tokens", "waiting", "running", "free_blocks")
"""Columns that the control side knows from reports; `requests` joins them where dispatches in flight do not count."""

COLUMNS = ("requests", *REPORTED, "cached_tokens", "flights", "adapters")
"""All names allowed in a policy's `needs`."""


class InFlightView(Protocol):
    """A request that the control side sent and that has not ended.

    sent_at, first_token_at: picoseconds; -1 while no first token was seen.  target: where it is moving to or has a
    copy, -1: nowhere.
    """

    request: RequestView
    sent_at: int
    first_token_at: int
    target: int


class AdaptersView(Protocol):
    """The adapters (LoRA) of one replica, by numbers as `RequestView.lora` has them."""

    @property
    def slots(self) -> int:
        """Adapters whose requests run there at once, 0 for no limit or an unknown one."""
        ...

    @property
    def running(self) -> Collection[int]:
        """Adapters of the requests that run there."""
        ...

    @property
    def waiting(self) -> Collection[int]:
        """Other adapters, of the requests that wait there for a slot."""
        ...

    @property
    def resident(self) -> Collection[int]:
        """Adapters on the device, whether or not a request runs with them."""
        ...


class ClusterView(Protocol):
    """The control side's view of its replicas: columns over replicas, indexed by dense id.

    Instants are picoseconds. A router reads only the columns that its `needs` names; the others may be out of date.
    """

    @property
    def now(self) -> int:
        """The instant of the decision."""
        ...

    @property
    def stage(self) -> str:
        """`decode` while the second half of a P/D pair is chosen, else `serve`."""
        ...

    @property
    def requests(self) -> Sequence[int]:
        """Requests in flight (waiting or running)."""
        ...

    @property
    def tokens(self) -> Sequence[int]:
        """Prompt tokens waiting plus KV tokens held by running requests."""
        ...

    @property
    def queued_tokens(self) -> Sequence[int]:
        """Prompt tokens not computed yet."""
        ...

    @property
    def waiting(self) -> Sequence[int]:
        """Requests in the replica's queue."""
        ...

    @property
    def running(self) -> Sequence[int]:
        """Requests that the replica has admitted."""
        ...

    @property
    def free_blocks(self) -> Sequence[int]:
        """KV blocks free or evictable."""
        ...

    @property
    def measured_at(self) -> Sequence[int]:
        """The instant at which each replica was last measured, 0 for never: old values are uncertain, not zero."""
        ...

    @property
    def total_blocks(self) -> Sequence[int]:
        """KV blocks of each replica; known beforehand, like the four below, and not in `needs`."""
        ...

    @property
    def roles(self) -> Sequence[Role]:
        """What each replica computes, or will once it has changed its role (a column over replicas)."""
        ...

    @property
    def loans(self) -> Mapping[tuple[int, int], int]:
        """KV blocks lent, by debtor and creditor; known from events, and not in `needs`."""
        ...

    @property
    def prefill_rate(self) -> Sequence[float]:
        """Prompt tokens per second that each replica computes at a full token budget, by the cost model."""
        ...

    @property
    def decode_rate(self) -> Sequence[float]:
        """Output tokens per second of one request of 2,000 tokens that decodes alone there, by the cost model."""
        ...

    def kv_seconds(self, tokens: int, source: int, target: int) -> float:
        """Seconds to carry the KV cache of `tokens` tokens between two replicas over idle links; 0 to itself."""
        ...

    def flights(self, replica: int) -> Sequence[InFlightView]:
        """The requests sent to `replica` that have not ended, in order of dispatch; declare `flights` in `needs`."""
        ...

    def adapters(self, replica: int) -> AdaptersView:
        """What `replica` does with adapters; declare `adapters` in `needs`."""
        ...

    @property
    def adapter_ranks(self) -> Sequence[int]:
        """The rank of each adapter by its number, as far as they are known; not in `needs`."""
        ...

    def able(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that serve its model in this stage, take new requests and can ever hold it."""
        ...

    def peers(self, request: RequestView, replica: int) -> Sequence[int]:
        """The other replicas, in order, that may take `request` over from `replica`: able ones of the same role."""
        ...

    def partners(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that can make its output where another computes its prompt; empty without pairs."""
        ...

    def cached_tokens(self, request: RequestView) -> Sequence[int]:
        """Prompt tokens of `request` believed to be in each replica's prefix cache (a column over replicas)."""
        ...


class PoolView(Protocol):
    """A pool of equal replicas, which may grow and shrink between its bounds.

    wanted: its target size in replicas, `warm` its pre-warmed slots.  start_s, warm_start_s: the typical
    seconds until a new replica serves, 0 for unknown.  serving: the replicas that take requests now, in order.
    held: requests that wait at the gateway and that it could take.
    group: the first pool that serves the same requests (of the same model and tenants), by index; its own if none does.
    """

    name: str
    group: int
    min_replicas: int
    max_replicas: int
    wanted: int
    warm: int
    start_s: float
    warm_start_s: float
    serving: Sequence[int]
    held: int


class FleetView(ClusterView, Protocol):
    """The view of scalers: the columns in `needs`, and the pools."""

    @property
    def pools(self) -> Sequence[PoolView]:
        """The pools, by index."""
        ...

    @property
    def rate(self) -> float:
        """Requests a second that the forecast expects for the time that the scaler looks ahead; -1 without one."""
        ...


class SequenceView(Protocol):
    """One request inside an engine: its attributes and its progress.

    tool: which tool its answer calls, where that is known; no policy reads it before the request has ended.
    pinned: whether KV of its session was pinned here when it arrived.  preemptions: how often it gave way here.
    """

    request: RequestView
    computed: int
    produced: int
    chunk: int
    layer: int
    source: int
    swapped: int
    tool: int
    pinned: bool
    preemptions: int

    @property
    def id(self) -> int:
        """The request's id."""
        ...

    @property
    def need(self) -> int:
        """Tokens whose KV must be there before the next token can be sampled."""
        ...


class LaneView(Protocol):
    """One lane of a replica between two steps: its running requests, the replica's queue and its KV blocks.

    prefilling: running requests whose prompt is not computed, in order of admission.
    decoding: how many requests are in their decode phase on this lane.  running: requests on all lanes.
    preempted: whether room for this step had to be made by preemption (vLLM then admits no request).
    model_layers: layers of the model, for layer ranges.
    """

    engine: Engine
    spec: Lane
    preempted: bool
    model_layers: int

    @property
    def now(self) -> int:
        """The instant at which the batch is composed."""
        ...

    @property
    def prefilling(self) -> Sequence[SequenceView]:
        """Running requests whose prompt is not computed yet, in order of admission."""
        ...

    @property
    def decoding(self) -> int:
        """Requests in their decode phase on this lane."""
        ...

    @property
    def decoding_prompts(self) -> int:
        """Prompt tokens of the requests in their decode phase on this lane."""
        ...

    @property
    def decode_steps(self) -> int:
        """Steps with decodes that this lane has done."""
        ...

    @property
    def running(self) -> int:
        """Admitted requests on all lanes."""
        ...

    @property
    def waiting(self) -> int:
        """Requests in the replica's queue."""
        ...

    def queue(self) -> Iterator[SequenceView]:
        """The waiting requests in order."""
        ...

    @property
    def paused(self) -> Mapping[int, SequenceView]:
        """Decoding requests that the last batch with decodes left out, by id."""
        ...

    def decodes(self, paused: bool = True) -> Iterator[SequenceView]:
        """The decoding requests of this lane in order of admission, the paused ones first or not; O(1) to start."""
        ...

    def newest(self) -> SequenceView:
        """The decoding request of this lane that joined last."""
        ...

    def cached(self, sequence: SequenceView) -> int:
        """Tokens of a waiting request that the prefix cache holds now (at most all but its last token)."""
        ...

    def blocks_for(self, sequence: SequenceView, tokens: int) -> int:
        """KV blocks that become unavailable when `tokens` further tokens of the request are computed."""
        ...

    def room(self, blocks: int) -> bool:
        """Whether `blocks` KV blocks are free or evictable, besides those that this step's decodes take."""
        ...

    @property
    def total_blocks(self) -> int:
        """KV blocks of the replica."""
        ...

    @property
    def free_blocks(self) -> int:
        """KV blocks that are free or evictable, besides those that this step's decodes take."""
        ...

    @property
    def store(self) -> Store | None:
        """The host's memory that keeps the KV, by the cost model; None where the devices keep all of it."""
        ...

    def predict(self, chunks: Sequence[Chunk], decodes: int = ALL, context: int = 0, share: float = 0.0) -> int:
        """Picoseconds of a step with `chunks` of prompts and decodes, by the cost model; nothing is begun.

        decodes: ALL for those of this lane as they are, NONE, or a number that reads `context` KV tokens together.
        share: SM share, 0 for the lane's own.
        """
        ...
