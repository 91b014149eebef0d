"""The control side's belief about its replicas: its own dispatches at once, the rest from reports that arrive late."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import Final

from poise.core.chance import Ranks
from poise.core.control.adapters import ReplicaAdapters
from poise.core.control.prefix_index import PrefixIndex, SentPrefixes
from poise.core.errors import PolicyError
from poise.core.request import RequestView
from poise.core.spec import Belief, ReplicaSpec, Role
from poise.core.view import COLUMNS, REPORTED, AdaptersView, InFlightView, PoolView

STARTING: Final = 0
SERVING: Final = 1
DRAINING: Final = 2
GONE: Final = 3
"""What may be sent to a replica: nothing yet, requests, nothing more (draining), nothing ever."""

WIDE: Final = 24
"""Number of replicas from which the least of `requests` is indexed instead of scanned."""


class State:
    """The belief, as columns over replicas; it is the `ClusterView` of routers.

    needs: the columns that the policies read; the others are neither reported nor kept.
    index: a shared prefix index, for `belief.prefix = "oracle"`.
    """

    __slots__ = (
        "_able", "_adapters", "_common", "_corrects", "_counts", "_follows", "_since_report", "adapter_ranks",
        "belief", "decode_rate", "free_blocks", "hits", "loans", "measured_at", "named", "now", "pools",
        "prefill_rate", "prefix", "queued_tokens", "ranks", "rate", "replicas", "reported", "requests", "roles",
        "running", "sent_prefixes", "sent_to", "status", "tokens", "total_blocks", "waiting",
    )  # fmt: skip

    def __init__(
        self, replicas: Sequence[ReplicaSpec], belief: Belief, needs: Iterable[str], index: PrefixIndex | None = None
    ) -> None:
        count = len(replicas)
        self.now = 0
        self.replicas = list(replicas)
        self.belief = belief
        self.status = [SERVING if replica.up else STARTING for replica in replicas]
        self.requests = [0] * count
        self.tokens = [0] * count
        self.queued_tokens = [0] * count
        self.waiting = [0] * count
        self.running = [0] * count
        self.free_blocks = [0] * count
        self.total_blocks = [replica.blocks for replica in replicas]
        self.prefill_rate = [replica.prefill_rate for replica in replicas]
        self.decode_rate = [replica.decode_rate for replica in replicas]
        self.sent_to: list[dict[int, InFlightView]] = [{} for _ in replicas]
        self.reported: tuple[str, ...] = ()
        self.prefix = index
        self.sent_prefixes: SentPrefixes | None = None
        self.hits: dict[int, tuple[int, int]] | None = None
        """By request: where it was sent last, and how many of its tokens were believed cached there; None: unasked."""
        self.measured_at = [0] * count
        self.loans: dict[tuple[int, int], int] = {}
        self.adapter_ranks: Sequence[int] = ()
        self._adapters: list[ReplicaAdapters] | None = None
        self.pools: Sequence[PoolView] = ()
        self.roles: list[Role] = [replica.role for replica in replicas]
        self.rate = -1.0
        self._since_report: list[deque[tuple[int, int, int]]] = [deque() for _ in replicas]
        self._corrects = False
        self._counts = belief.in_flight
        self.ranks: Ranks | None = None
        self.keep(needs)
        self._able: dict[tuple[str, int, int], tuple[tuple[int, ...], int]] = {}
        self._common: tuple[tuple[int, ...], int] = (), 0  # of these, whoever serves model 0 for no tenant
        self.named: set[int] = set()
        """Tenants with replicas of their own."""
        self._name()

    def keep(self, needs: Iterable[str]) -> bool:
        """Keep the columns that policies read from now on, and no others; PolicyError for an unknown one.

        Returns whether columns are corrected from now on by what was sent since a report, and were not before.
        """
        needed, belief = set(needs), self.belief
        unknown = needed - set(COLUMNS)
        if unknown:
            raise PolicyError(f"a policy needs {sorted(unknown)}; the cluster view has {list(COLUMNS)}")
        self.reported = tuple(name for name in REPORTED if name in needed)
        if "requests" in needed and not belief.in_flight:
            self.reported = ("requests", *self.reported)
        if "cached_tokens" not in needed:
            self.prefix = self.sent_prefixes = self.hits = None
        elif self.prefix is None:
            self.prefix = PrefixIndex(len(self.replicas))
        if self.prefix is not None and belief.prefix == "own" and self.sent_prefixes is None:
            self.sent_prefixes = SentPrefixes(self.prefix, [replica.cache_tokens for replica in self.replicas])
        before = self._corrects
        # A report made for the decision itself already shows all that was sent.
        self._corrects = (
            belief.in_flight
            and belief.period_s > 0
            and bool({"tokens", "queued_tokens", "waiting"} & set(self.reported))
        )
        if not self._corrects:
            for since in self._since_report:
                since.clear()
        if not (self._counts and "requests" in needed and len(self.replicas) >= WIDE):
            self.ranks = None
        elif self.ranks is None:
            self.ranks = Ranks(self.requests)
        if "adapters" not in needed:
            self._adapters = None
        elif self._adapters is None:
            self._adapters = [ReplicaAdapters(replica.adapter_slots) for replica in self.replicas]
        # Whether what is sent counts for more than `requests`.
        self._follows = self._corrects or self.prefix is not None or self._adapters is not None
        return self._corrects and not before

    # Read by routers -------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str:
        """What replicas are able for here; `Within` shows the other stage."""
        return "serve"

    def able(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that serve its model in this stage, take new requests and can ever hold it."""
        ids, least = self._common
        if request.prompt_tokens < least and request.model == 0 and request.tenant < 0:
            return ids
        return self._fit("serve", request)

    def partners(self, request: RequestView) -> Sequence[int]:
        """The replicas, in order, that can make its output where another computes its prompt."""
        return self._fit("decode", request)

    def _fit(self, stage: str, request: RequestView) -> Sequence[int]:
        tenant = request.tenant if request.tenant in self.named else -1
        known = self._able.get((stage, request.model, tenant))
        ids, least = known or self._find_able(stage, request.model, tenant)
        tokens = request.prompt_tokens + 1
        if tokens <= least:
            return ids
        return tuple(replica for replica in ids if self.replicas[replica].capacity_tokens >= tokens)

    def peers(self, request: RequestView, replica: int) -> Sequence[int]:
        """The other replicas, in order, that may take `request` over from `replica`."""
        role, tokens = self.replicas[replica].role, request.prompt_tokens + 1
        model, tenant = self.model_and_tenant(request)
        return [
            index
            for index, other in enumerate(self.replicas)
            if index != replica
            and self.status[index] == SERVING
            and other.role == role
            and takes(other, model, tenant)
            and other.capacity_tokens >= tokens
        ]

    def cached_tokens(self, request: RequestView) -> Sequence[int]:
        """Prompt tokens of `request` believed to be in each replica's prefix cache."""
        assert self.prefix is not None, "declare 'cached_tokens' in `needs`"
        return self.prefix.match(request.ids, request.ends)

    @property
    def tracks_adapters(self) -> bool:
        """Whether some policy reads `adapters`."""
        return self._adapters is not None

    def adapters(self, replica: int) -> AdaptersView:
        """What `replica` does with adapters."""
        assert self._adapters is not None, "declare 'adapters' in `needs`"
        return self._adapters[replica]

    def flights(self, replica: int) -> Sequence[InFlightView]:
        """The requests sent to `replica` that have not ended, in order of dispatch."""
        return list(self.sent_to[replica].values())

    def kv_seconds(self, tokens: int, source: int, target: int) -> float:
        """Seconds to carry the KV cache of `tokens` tokens between two replicas over idle links; 0 to itself."""
        origin, goal = self.replicas[source], self.replicas[target]
        rate = min(origin.link_bw, goal.link_bw)
        if source == target or not rate:
            return 0.0
        return tokens * origin.kv_token_bytes / rate + origin.link_latency_s

    def model_and_tenant(self, request: RequestView) -> tuple[int, int]:
        """The model that a request asks for, and its tenant where that has replicas of its own (else -1)."""
        return request.model, request.tenant if request.tenant in self.named else -1

    # Written by Control ----------------------------------------------------------------------------------------------

    def hopeless(self, request: RequestView) -> str:
        """Why no replica, up or not, will ever take the request; empty if one may."""
        longest = {"mixed": 0, "prefill": 0, "decode": 0}
        model, tenant = self.model_and_tenant(request)
        for replica, status in zip(self.replicas, self.status, strict=True):
            if status != GONE and takes(replica, model, tenant):
                longest[replica.role] = max(longest[replica.role], replica.capacity_tokens)
        most = max(longest["mixed"], min(longest["prefill"], longest["decode"]))
        if not most:
            return f"no replica serves model {model}" + (f" to tenant {request.tenant}" if self.named else "")
        if request.prompt_tokens + 1 > most:
            return f"prompt and one more token exceed the {most} tokens that a replica can hold"
        return ""

    def know(self, replica: int, spec: ReplicaSpec) -> None:
        """Update the known properties of a replica; one that was lost may return as another."""
        self.replicas[replica] = spec
        self.total_blocks[replica] = spec.blocks
        self.prefill_rate[replica] = spec.prefill_rate
        self.decode_rate[replica] = spec.decode_rate
        self.roles[replica] = spec.role
        if self.sent_prefixes is not None:
            self.sent_prefixes.room[replica] = spec.cache_tokens
        if self._adapters is not None:
            self._adapters[replica].slots = spec.adapter_slots
        if self.status[replica] == GONE:
            self.status[replica] = STARTING
        self._name()
        self._forget_able()

    def set_status(self, replica: int, status: int) -> None:
        """A replica joined, drains or is lost."""
        self.status[replica] = status
        self._forget_able()
        if status == GONE:
            self.loans = {pair: blocks for pair, blocks in self.loans.items() if replica not in pair}
            self.count(replica, -self.requests[replica])
            for name in REPORTED if self._counts else ("requests", *REPORTED):
                getattr(self, name)[replica] = 0
            if self._adapters is not None:
                self._adapters[replica].forget()
            if self.sent_prefixes:
                self.sent_prefixes.forget(replica)
            elif self.prefix is not None:
                self.prefix.forget(replica)

    def lent(self, debtor: int, creditor: int, blocks: int) -> None:
        """Add to the lent blocks, or subtract."""
        pair = debtor, creditor
        self.loans[pair] = self.loans.get(pair, 0) + blocks
        if not self.loans[pair]:
            del self.loans[pair]

    def count(self, replica: int, more: int) -> None:
        """Add to the requests in flight at a replica, or subtract: the only place where `requests` is written to.

        Where they are not counted but reported, nothing changes.
        """
        if self.ranks is not None:
            self.ranks.add(replica, more)
        elif self._counts:
            self.requests[replica] += more

    def sent(self, at: int, request: RequestView, replica: int) -> None:
        """A request goes to `replica` now."""
        self.count(replica, 1)
        if not self._follows:
            return
        if self._corrects:
            self._correct(at, replica, request.prompt_tokens, 1)
        if self.hits is not None and self.prefix is not None:
            self.hits[request.id] = replica, self.prefix.held(replica, request.ids, request.ends)
        if self.sent_prefixes is not None and request.ids:
            self.sent_prefixes.send(replica, request.ids, request.ends)
        if self._adapters is not None and request.lora >= 0:
            self._adapters[replica].send(request.lora, self._counts)

    def recall(
        self, at: int, request: RequestView, replica: int, corrects: bool, prefixes: bool, adapters: bool
    ) -> None:
        """A request was sent to `replica` at `at`, before such columns were kept: corrected, prefixes, adapters."""
        if corrects:
            self._correct(at, replica, request.prompt_tokens, 1)
        if prefixes and self.sent_prefixes is not None and request.ids:
            self.sent_prefixes.send(replica, request.ids, request.ends)
        if adapters and self._adapters is not None and request.lora >= 0:
            self._adapters[replica].send(request.lora, self._counts)

    def ended(self, at: int, request: RequestView, replica: int) -> None:
        """A request is no longer at `replica`."""
        self.count(replica, -1)
        if not self._follows:
            return
        if self._corrects:
            self._correct(at, replica, -request.prompt_tokens, 0)
        if self.hits is not None:
            self.hits.pop(request.id, None)
        if self._adapters is not None and request.lora >= 0:
            self._adapters[replica].end(request.lora)

    def adapters_changed(self, replica: int, slots: int, running: Iterable[int], waiting: Iterable[int]) -> None:
        """Apply a replica's report of its adapters, where a policy reads them."""
        if self._adapters is not None:
            self._adapters[replica].slots = slots
            self._adapters[replica].report(running, waiting)

    def report(self, measured_at: int, columns: dict[str, list[int]], cached: Iterable[tuple[int, int, bool]]) -> None:
        """Apply a report, and add again what was sent since it was measured."""
        for name, column in columns.items():
            setattr(self, name, list(column))  # the event stays as it was
        self.measured_at = [measured_at] * len(self.replicas)
        if self._corrects:
            for replica, since in enumerate(self._since_report):
                if since:
                    self._recount(replica, measured_at)
        if self.prefix is not None:
            for replica, extent, entered in cached:
                (self.prefix.add if entered else self.prefix.remove)(replica, extent)

    def measure(self, measured_at: int, replica: int, values: dict[str, int]) -> None:
        """Apply one replica's own report; columns that no policy reads are skipped."""
        for name in self.reported:
            if name in values:
                getattr(self, name)[replica] = values[name]
        self.measured_at[replica] = measured_at
        if self._corrects:
            self._recount(replica, measured_at)

    def cache_changed(self, replica: int, entered: Sequence[int], left: Iterable[int], cleared: bool) -> None:
        """Apply a replica's report of its cache, where the belief uses it."""
        if self.prefix is None or self.sent_prefixes is not None:
            return
        if cleared:
            self.prefix.forget(replica)
        self.prefix.remove_all(replica, left)
        self.prefix.add_all(replica, entered)

    def _recount(self, replica: int, measured_at: int) -> None:
        """Add again what happened at a replica since it was measured."""
        since = self._since_report[replica]
        while since and since[0][0] < measured_at:
            since.popleft()
        for _, tokens, waiting in since:
            self._apply(replica, tokens, waiting)

    def _correct(self, at: int, replica: int, tokens: int, waiting: int) -> None:
        self._since_report[replica].append((at, tokens, waiting))
        self._apply(replica, tokens, waiting)

    def _apply(self, replica: int, tokens: int, waiting: int) -> None:
        """What was sent waits until a report says otherwise; what ended leaves the KV cache, not the queue."""
        self.tokens[replica] = max(0, self.tokens[replica] + tokens)
        if tokens > 0:
            self.queued_tokens[replica] += tokens
            self.waiting[replica] += waiting

    def _name(self) -> None:
        self.named = {tenant for replica in self.replicas for tenant in replica.tenants}

    def _find_able(self, stage: str, model: int, tenant: int) -> tuple[tuple[int, ...], int]:
        roles = ("decode",) if stage == "decode" else ("mixed", "prefill")
        ids = tuple(
            index
            for index, replica in enumerate(self.replicas)
            if self.status[index] == SERVING and replica.role in roles and takes(replica, model, tenant)
        )
        least = min((self.replicas[index].capacity_tokens for index in ids), default=0)
        self._able[stage, model, tenant] = ids, least
        if stage == "serve" and model == 0 and tenant < 0:
            self._common = ids, least
        return ids, least

    def _forget_able(self) -> None:
        self._able.clear()
        self._common = (), 0


def takes(replica: ReplicaSpec, model: int, tenant: int) -> bool:
    """Whether a replica serves requests for `model` of a tenant that has replicas of its own, or of the others (-1)."""
    if replica.model not in (-1, model):
        return False
    return not replica.tenants if tenant < 0 else tenant in replica.tenants
