"""Events, as the control side learns of them; instants in picoseconds."""

from __future__ import annotations

from typing import Any, NamedTuple

from poise.core.request import RequestView
from poise.core.spec import ReplicaSpec


class Arrived(NamedTuple):
    """A client sent a request (again, where `attempt` > 0)."""

    at: int
    request: RequestView
    attempt: int = 0


class Restricted(NamedTuple):
    """A request that is about to arrive may go to these replicas alone: its proxy reaches no others."""

    at: int
    request: int
    replicas: tuple[int, ...]


class Reported(NamedTuple):
    """The replicas' state as it was at `measured_at`, one list over replicas for each column that a policy reads.

    cached: prefix extents that entered or left a replica's cache since the last report: `(replica, id, entered)`.
    """

    at: int
    measured_at: int
    columns: dict[str, list[int]]
    cached: tuple[tuple[int, int, bool], ...] = ()


class Measured(NamedTuple):
    """One replica's own report: its columns as they were at `measured_at`."""

    at: int
    measured_at: int
    replica: int
    values: dict[str, int]


class CacheChanged(NamedTuple):
    """A replica tells which prefix extents its cache holds since, and which no more; `cleared`: all others are gone."""

    at: int
    replica: int
    entered: tuple[int, ...]
    left: tuple[int, ...]
    cleared: bool = False


class AdaptersChanged(NamedTuple):
    """One replica's own report of its adapters: those of running requests, and others of waiting ones.

    slots: adapters whose requests it runs at once, 0 for no limit or an unknown one.
    """

    at: int
    replica: int
    slots: int
    running: tuple[int, ...]
    waiting: tuple[int, ...]


class FirstToken(NamedTuple):
    """The first token of a request passed the gateway."""

    at: int
    request: int
    replica: int


class Prefilled(NamedTuple):
    """The prefill half of a P/D pair has computed a prompt; its decode half continues."""

    at: int
    request: int
    replica: int


class Finished(NamedTuple):
    """A request finished."""

    at: int
    request: int
    output_tokens: int


class Cancelled(NamedTuple):
    """The client left: of its own accord or because its patience ended; it had `output_tokens` by then."""

    at: int
    request: int
    reason: str
    output_tokens: int = 0


class Refused(NamedTuple):
    """An engine refused a request; `again`: another one may take it, for its client has not seen a byte.

    same: so may this one, for it was the connection that failed.  sent: the engine may have read the request, so that
    it counts as a try.
    """

    at: int
    request: int
    replica: int
    reason: str
    again: bool = False
    same: bool = False
    sent: bool = True


class Failed(NamedTuple):
    """A request failed at its replica when its client had `output_tokens` of the answer already."""

    at: int
    request: int
    replica: int
    reason: str
    output_tokens: int = 0


class Moved(NamedTuple):
    """A request that was to be moved is at `target` now, with its KV cache if it had begun."""

    at: int
    request: int
    source: int
    target: int


class MoveFailed(NamedTuple):
    """A move failed; the request stays at `source`: it ended or was preempted, or there was no room at `target`."""

    at: int
    request: int
    source: int
    target: int
    reason: str


class Lent(NamedTuple):
    """Replica `creditor` lends `debtor` more KV blocks, or fewer; none, with the `reason`: it refused."""

    at: int
    debtor: int
    creditor: int
    blocks: int
    reason: str = ""


class ReplicaLost(NamedTuple):
    """A replica is lost, and with it all that it ran."""

    at: int
    replica: int


class ReplicaJoined(NamedTuple):
    """A replica is ready for requests."""

    at: int
    replica: int


class ReplicaUpdated(NamedTuple):
    """The known properties of a replica have changed, or are known only now."""

    at: int
    replica: int
    spec: ReplicaSpec


class Draining(NamedTuple):
    """A replica takes no new requests; `gone_at`: when it will be lost whether or not it is empty, 0 where unknown."""

    at: int
    replica: int
    gone_at: int = 0


class ReplicaLeft(NamedTuple):
    """A drained replica is empty and has left."""

    at: int
    replica: int


class PeerSent(NamedTuple):
    """Another gateway admitted a request: it waits there (`replica` -1), or was sent to a replica; the latest holds.

    gateway: its number here.  request: with an id that no request of this gateway has.  decode: the other half of a P/D
    pair, else `replica`.
    """

    at: int
    gateway: int
    request: RequestView
    replica: int = -1
    decode: int = -1


class PeerEnded(NamedTuple):
    """A request of another gateway ended, however it did."""

    at: int
    gateway: int
    request: int
    output_tokens: int = 0


class PeerLost(NamedTuple):
    """Another gateway is gone, and its requests with it."""

    at: int
    gateway: int


class PrefixSent(NamedTuple):
    """A prompt of these extents was sent to a replica before this gateway ran, as another gateway reports."""

    at: int
    replica: int
    ids: tuple[int, ...]
    ends: tuple[int, ...]


class Tick(NamedTuple):
    """A wake that was requested."""

    at: int


class Exchanged(NamedTuple):
    """Policies are exchanged for others: by slot `{name: parameters}`, a list of such for admissions, None for none."""

    at: int
    policies: dict[str, Any]


Event = (
    Arrived
    | Restricted
    | Reported
    | Measured
    | CacheChanged
    | AdaptersChanged
    | FirstToken
    | Prefilled
    | Finished
    | Cancelled
    | Refused
    | Failed
    | Moved
    | MoveFailed
    | Lent
    | ReplicaLost
    | ReplicaJoined
    | ReplicaUpdated
    | Draining
    | ReplicaLeft
    | PeerSent
    | PeerEnded
    | PeerLost
    | PrefixSent
    | Tick
    | Exchanged
)
