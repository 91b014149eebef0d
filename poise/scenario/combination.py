"""Finds combinations of policies, pools and traffic that cannot work, before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any

from poise.core.engine.outcome import DONE, PREFILLED, PULL
from poise.core.engine.replica import Replica
from poise.core.errors import ScenarioError
from poise.core.estimate import Estimator
from poise.core.policy import Batcher, Cache
from poise.core.request import RequestView, Sequence
from poise.core.spec import Pool
from poise.core.units import NEVER, SECOND
from poise.policies import Policies

if TYPE_CHECKING:
    from poise.workload.table import Workload

TURNS = 100
"""Turns of a replica in which a batcher has to serve one request of two tokens."""

WORK = {"mixed": "prompts and outputs", "prefill": "prompts", "decode": "outputs of prompts from elsewhere"}


def check_batcher(pool: Pool, batcher: Batcher, cost: object = None) -> None:
    """Raise ScenarioError where a batcher does not go with a pool's lanes, or with the terms of a cost.

    One with `lanes = True` shares a device between a lane for prompts and one for decodes; one with `phases = True`
    gives a device prompts or decodes alone, as a term with `phases = True` wants it.
    """
    name, where = type(batcher).__name__, pool.name or pool.model.name
    parted = [type(term).__name__ for term in getattr(cost, "terms", ()) if getattr(term, "phases", False)]
    if parted and not getattr(batcher, "phases", False):
        raise ScenarioError(
            f"policies.batcher: {name} mixes prompts and decodes, and the term {parted[0]} changes "
            "the layout in between; take `batcher: seesaw`, or leave the term out"
        )
    if pool.role != "mixed" and not getattr(batcher, "pairs", True):
        raise ScenarioError(
            f"policies.batcher: {name} keeps room for outputs beside prompts, and pool {where!r} is for {pool.role} "
            "alone; take `batcher: prefill_first`, or role mixed"
        )
    if getattr(batcher, "phases", False) and len(pool.engine.lanes) > 1:
        raise ScenarioError(
            f"policies.batcher: {name} gives the whole device to prompts or to decodes; pool {where!r} has "
            f"{len(pool.engine.lanes)} lanes: give engine.lanes one"
        )
    kinds = {(lane.prefill, lane.decode) for lane in pool.engine.lanes}
    if getattr(batcher, "lanes", False) and kinds != {(True, False), (False, True)}:
        raise ScenarioError(
            f"policies.batcher: {name} moves the shares of a lane for prompts and one for decodes; "
            f"pool {where!r} has lanes {[lane.name for lane in pool.engine.lanes]}; give "
            "engine.lanes both, one with decode: false and one with prefill: false"
        )


def check_adapters(pool: Pool, batcher: Batcher, ranks: tuple[int, ...]) -> None:
    """Raise ScenarioError where a pool's slots for adapters do not fit them, or its batcher does not heed slots."""
    engine, where = pool.engine, pool.name or pool.model.name
    if not engine.max_loras:
        return
    if 0 < engine.max_cpu_loras < engine.max_loras:
        raise ScenarioError(
            f"engine.max_cpu_loras {engine.max_cpu_loras} of pool {where!r} is below max_loras {engine.max_loras}: "
            "what lies on the device lies in host memory too; give as many or more, or 0"
        )
    if max(ranks, default=0) > engine.max_lora_rank:
        raise ScenarioError(
            f"workload.adapters: rank {max(ranks)} exceeds engine.max_lora_rank {engine.max_lora_rank} of pool "
            f"{where!r}; give max_lora_rank: {max(ranks)}"
        )
    if hasattr(batcher, "waits"):
        raise ScenarioError(
            f"policies.batcher: {type(batcher).__name__} keeps its own order of waiting requests, which does not heed "
            f"the {engine.max_loras} slots for adapters of pool {where!r}; take another one, as in chunked, or leave "
            "engine.max_loras out"
        )


def check_evictions(cache: Cache | None, pools: Iterable[Pool]) -> None:
    """Raise ScenarioError where a cache policy for adapters has no slots to decide on."""
    if hasattr(cache, "evict_adapter") and not any(pool.engine.max_loras for pool in pools):
        raise ScenarioError(
            f"policies.cache: {type(cache).__name__} chooses which adapter leaves the device, and no engine has slots "
            "for any; give engine.max_loras, or leave the policy out"
        )


def check_heads(pool: Pool, cost: object) -> None:
    """Raise ScenarioError where attention heads would be cut in two, unless a term lays devices out by itself."""
    laid = any("layout" in getattr(term, "takes", ()) for term in getattr(cost, "terms", ()))
    if pool.model.heads % pool.tensor and not laid:
        raise ScenarioError(
            f"tensor is {pool.tensor} in pool {pool.name or pool.model.name!r}, which does not divide the "
            f"{pool.model.heads} attention heads of {pool.model.name}: engines refuse that; write a divisor of them"
        )


def check_prefixes(pool: Pool, cost: object) -> None:
    """Raise ScenarioError where an engine keeps prefixes that a term of its cost makes useless."""
    alone = [type(term).__name__ for term in getattr(cost, "terms", ()) if not getattr(term, "prefixes", True)]
    if alone and pool.engine.prefix_caching:
        raise ScenarioError(
            f"engine.prefix_caching is true in pool {pool.name or pool.model.name!r}; under the term {alone[0]} KV of "
            "a prefix depends on what follows it: give prefix_caching: false"
        )


def check_work(pool: Pool, estimator: Estimator, blocks: int, batcher: Batcher) -> None:
    """Raise ScenarioError where a batcher cannot do the work of a pool's role; it is tried on one request."""
    if not _serves(pool, estimator, blocks, batcher):
        raise ScenarioError(
            f"policies.batcher: {type(batcher).__name__} leaves a request undone in pool "
            f"{pool.name or pool.model.name!r}, whose work are {WORK[pool.role]}; give one that does that, or the "
            "pool another role"
        )


def _serves(pool: Pool, estimator: Estimator, blocks: int, batcher: Batcher) -> bool:
    """Whether a copy of the batcher finishes one short request, or computes its prompt up to the transfer."""
    replica = Replica(
        pool.engine, estimator, blocks, Policies(batcher=batcher).for_engine(),
        layers=pool.model.layers, sends=pool.role == "prefill",
    )  # fmt: skip
    sequence = Sequence(RequestView(0, 0, 1), 2)
    if pool.role == "decode":
        sequence.source = 0
    replica.add(sequence, 0)
    for _ in range(TURNS):
        now = replica.next_at
        if now == NEVER:
            return False
        for code, _ in replica.turn(now):
            if code in (DONE, PREFILLED):
                return True
            if code == PULL:
                replica.kv_transfer.pulled(0, now)
    return False


def check_kept(cache: Cache | None, pools: Iterable[Pool], workload: Workload, until_s: float | None) -> None:
    """Raise ScenarioError where no engine could reuse KV that is kept, or where it is kept for longer than the run
    lasts, as far as that is known before.
    """
    if hasattr(cache, "evict_adapter"):
        return  # it is there for adapters
    if cache is not None and not any(pool.engine.prefix_caching for pool in pools):
        raise ScenarioError(
            f"policies.cache: {type(cache).__name__} keeps KV, and engine.prefix_caching is false, so that it "
            "is never found; give prefix_caching: true, or leave the cache policy out"
        )
    lasts = until_s or _lasts_s(workload)
    for name, kept in _times(cache):
        if lasts and kept >= lasts:
            raise ScenarioError(
                f"policies.cache: {name} {kept:g} of {type(cache).__name__} is longer than the run, which takes "
                f"requests for {lasts:.6g} s: nothing would expire; give less, or more traffic"
            )


def _times(cache: Any) -> Iterator[tuple[str, float]]:
    """The times to live among a policy's parameters."""
    if is_dataclass(cache):
        yield from ((each.name, getattr(cache, each.name)) for each in fields(cache) if each.name.endswith("ttl_s"))


def _lasts_s(workload: Workload) -> float:
    """Seconds from the first arrival to the last; 0 where later ones follow on answers."""
    if workload.concurrency or workload.after_offsets is not None or not len(workload):
        return 0.0
    return float(workload.arrival[-1] - workload.arrival[0]) / SECOND
