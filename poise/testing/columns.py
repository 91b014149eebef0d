"""A cluster view made of plain columns, for routers under test; it can refuse reads that were not declared."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from poise.core.request import RequestView
from poise.core.spec import Role
from poise.core.view import REPORTED, InFlightView, PoolView
from poise.testing.rule import RuleBroken

LOADS = ("requests", *REPORTED)
"""The columns over replicas that are plain numbers."""


class SomeAdapters(NamedTuple):
    """The adapters of a replica, as `AdaptersView` has them."""

    slots: int = 0
    running: tuple[int, ...] = ()
    waiting: tuple[int, ...] = ()
    resident: tuple[int, ...] = ()


class ReplicaColumns(NamedTuple):
    """One replica's entry in each column of the view, and the properties that decide whether it is able.

    able: whether it takes new requests.  model: index of the model that it serves, -1 for any.
    capacity_tokens: the longest request that it can ever hold.  total_blocks: KV blocks, free or not.
    prefill_rate, decode_rate: tokens per second.  measured_at: when it was measured last, 0 for never.
    flights: the requests sent to it that have not ended, in order of dispatch.  tenants: the only ones it serves.
    adapters: those that it has slots for, that run, wait and lie on the device.
    """

    requests: int = 0
    tokens: int = 0
    queued_tokens: int = 0
    waiting: int = 0
    running: int = 0
    free_blocks: int = 1000
    cached_tokens: int = 0
    role: Role = "mixed"
    able: bool = True
    model: int = -1
    capacity_tokens: int = 1 << 40
    total_blocks: int = 1000
    prefill_rate: float = 10_000.0
    measured_at: int = 0
    flights: tuple[InFlightView, ...] = ()
    decode_rate: float = 50.0
    tenants: tuple[int, ...] = ()
    adapters: SomeAdapters = SomeAdapters()


class ClusterColumns:
    """A `ClusterView` over hand-made replicas.

    needs: the columns that may be read; another one raises `RuleBroken`. None allows all.
    kv_rate: KV tokens per second that a link carries.  pools, rate: for scalers, which use it as a `FleetView`.
    loans: KV blocks lent, by debtor and creditor.
    """

    def __init__(
        self,
        replicas: Sequence[ReplicaColumns],
        *,
        now: int = 0,
        stage: str = "serve",
        needs: Iterable[str] | None = None,
        kv_rate: float = 100_000.0,
        pools: Sequence[PoolView] = (),
        rate: float = -1.0,
        loans: Mapping[tuple[int, int], int] | None = None,
        adapter_ranks: Sequence[int] = (),
    ) -> None:
        self.now = now
        self.stage = stage
        self.needs = None if needs is None else tuple(needs)
        self.kv_rate = kv_rate
        self.pools = tuple(pools)
        self.rate = rate
        self.loans = dict(loans or {})
        self.adapter_ranks = tuple(adapter_ranks)
        self.total_blocks = [replica.total_blocks for replica in replicas]
        self.prefill_rate = [replica.prefill_rate for replica in replicas]
        self.decode_rate = [replica.decode_rate for replica in replicas]
        self.measured_at = [replica.measured_at for replica in replicas]
        self._replicas = tuple(replicas)
        self._columns = {name: [getattr(replica, name) for replica in replicas] for name in LOADS}

    @property
    def roles(self) -> Sequence[Role]:
        """What each replica computes (a column over replicas)."""
        return [replica.role for replica in self._replicas]

    @property
    def requests(self) -> Sequence[int]:
        """Requests in flight (waiting or running)."""
        return self._read("requests")

    @property
    def tokens(self) -> Sequence[int]:
        """Prompt tokens waiting plus KV tokens held by running requests."""
        return self._read("tokens")

    @property
    def queued_tokens(self) -> Sequence[int]:
        """Prompt tokens not computed yet."""
        return self._read("queued_tokens")

    @property
    def waiting(self) -> Sequence[int]:
        """Requests in the replica's queue."""
        return self._read("waiting")

    @property
    def running(self) -> Sequence[int]:
        """Requests that the replica has admitted."""
        return self._read("running")

    @property
    def free_blocks(self) -> Sequence[int]:
        """KV blocks free or evictable."""
        return self._read("free_blocks")

    def able(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that serve its model in this stage, take new requests and can ever hold it."""
        return self._fit(("decode",) if self.stage == "decode" else ("mixed", "prefill"), request)

    def partners(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that can make its output where another computes its prompt."""
        return self._fit(("decode",), request)

    def _fit(self, roles: tuple[str, ...], request: RequestView) -> tuple[int, ...]:
        return tuple(
            number
            for number, replica in enumerate(self._replicas)
            if replica.able
            and replica.role in roles
            and self._serves(replica, request)
            and replica.capacity_tokens > request.prompt_tokens
        )

    def _serves(self, replica: ReplicaColumns, request: RequestView) -> bool:
        named = any(request.tenant in each.tenants for each in self._replicas)
        own = request.tenant in replica.tenants if named else not replica.tenants
        return own and replica.model in (-1, request.model)

    def peers(self, request: RequestView, replica: int) -> Sequence[int]:
        """The other replicas, in order, that may take `request` over from `replica`."""
        return [
            number
            for number, other in enumerate(self._replicas)
            if number != replica
            and other.able
            and other.role == self._replicas[replica].role
            and self._serves(other, request)
            and other.capacity_tokens > request.prompt_tokens
        ]

    def cached_tokens(self, request: RequestView) -> Sequence[int]:
        """Prompt tokens of `request` in each replica's prefix cache: none for a prompt without identity."""
        self._allow("cached_tokens", "cached_tokens(request)")
        if not request.ids:
            return [0] * len(self._replicas)
        return [min(replica.cached_tokens, request.prompt_tokens) for replica in self._replicas]

    def adapters(self, replica: int) -> SomeAdapters:
        """What `replica` does with adapters."""
        self._allow("adapters", f"adapters({replica})")
        return self._replicas[replica].adapters

    def flights(self, replica: int) -> Sequence[InFlightView]:
        """The requests sent to `replica` that have not ended, in order of dispatch."""
        self._allow("flights", f"flights({replica})")
        return self._replicas[replica].flights

    def kv_seconds(self, tokens: int, source: int, target: int) -> float:
        """Seconds to carry the KV cache of `tokens` tokens between two replicas; 0 to itself."""
        return 0.0 if source == target else tokens / self.kv_rate

    def picture(self) -> dict[str, Any]:
        """A copy of all that the view shows, to compare with later."""
        columns = {name: tuple(column) for name, column in self._columns.items()}
        known = {
            name: tuple(getattr(self, name)) for name in ("total_blocks", "prefill_rate", "decode_rate", "measured_at")
        }
        own = {name: getattr(self, name) for name in ("now", "stage", "needs", "rate")} | {"loans": dict(self.loans)}
        return {**own, "pools": tuple(map(repr, self.pools)), **columns, **known}

    def _read(self, name: str) -> list[int]:
        self._allow(name, name)
        return self._columns[name]

    def _allow(self, name: str, written: str) -> None:
        if self.needs is not None and name not in self.needs:
            raise RuleBroken(
                f"reads `cluster.{written}` but its `needs` are {self.needs!r}; what they do not name is out of date: "
                f"add {name!r}"
            )

    def __repr__(self) -> str:
        return f"ClusterColumns({list(self._replicas)!r}, now={self.now}, stage={self.stage!r})"
