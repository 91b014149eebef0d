"""Rejects, before vLLM serves requests, policies that need what vLLM's scheduling cannot do."""

from __future__ import annotations

from typing import Any

from poise.core.action import Batch
from poise.core.errors import UserError
from poise.core.policy import Bundle


def refuse(scheduler: Any, policies: Bundle) -> None:
    """UserError for the first thing that the view cannot provide, or that a policy needs and vLLM cannot do."""
    for message, why in _reasons(scheduler, policies):
        if message:
            raise UserError(f"poise inside vLLM: {why}")


def _reasons(scheduler: Any, policies: Bundle) -> list[tuple[bool, str]]:
    """Each check: whether it fails, and the message."""
    preempt, cache, queue = policies.preempt, policies.cache, policies.queue
    config = scheduler.scheduler_config
    parallel = scheduler.parallel_config
    return [
        (
            not hasattr(scheduler, "_reserve_prefill_lookahead"),
            "this vLLM has no place to say how many tokens a request computes in a step; use 0.32",
        ),
        (
            config.policy != "fcfs",
            f"--scheduling-policy {config.policy} orders the queue as well; leave it out and name `queue: priority`",
        ),
        (
            bool(getattr(preempt, "swap", False)),
            "preempt swaps KV to host memory, and vLLM v1 only computes it again; take swap: false",
        ),
        (
            hasattr(preempt, "review"),
            "the preemption policy lets others run while there is room, and vLLM preempts for want of room alone; it "
            "can be simulated",
        ),
        (
            hasattr(cache, "rank"),
            "the cache policy ranks what is evicted, and vLLM evicts what was used least recently; it can be simulated",
        ),
        (
            hasattr(cache, "reveal"),
            "the cache policy needs the future, which is unknown here; it can be simulated",
        ),
        (
            hasattr(queue, "charge"),
            "the queue policy goes by what tenants or programs were served, and vLLM knows neither; order them at the "
            "gateway (`policies.order`)",
        ),
        (
            scheduler.vllm_config.speculative_config is not None,
            "speculative decoding takes several tokens of each decode; leave --speculative-config out",
        ),
        (
            scheduler.connector is not None,
            "a KV connector brings KV that policies do not see; leave --kv-transfer-config out",
        ),
        (
            scheduler.is_encoder_decoder or len(scheduler.kv_cache_config.kv_cache_groups) != 1,
            "the model keeps several kinds of KV (windows, states or an encoder's), and policies count one; serve "
            "another model, or this one without poise",
        ),
        (
            parallel.pipeline_parallel_size > 1,
            "pipeline parallelism has several steps under way; take --pipeline-parallel-size 1",
        ),
        (
            parallel.decode_context_parallel_size > 1 or parallel.prefill_context_parallel_size > 1,
            "context parallelism spreads a request's blocks; take 1 for both context parallel sizes",
        ),
    ]


def impossible(batch: Batch, layers: int) -> str:
    """What a batch needs that an engine which steps whole models on a whole device cannot do; empty if it can."""
    whole = {0, layers}
    if batch.leave or any(entry.first_layer or entry.last_layer not in whole for entry in batch.entries):
        return "parts a step between layers, and this engine computes all of them; it can be simulated"
    if batch.share:
        return "asks for a share of the device, and this engine has all of it; it can be simulated"
    if batch.setup:
        return "asks for a setup before a step, and this engine has one layout; it can be simulated"
    return ""
