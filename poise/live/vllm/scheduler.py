"""vLLM's scheduler, steered by the policies of one engine (`--scheduler-cls`, vLLM 0.32).

vLLM's own `schedule` builds each step: it is given only the running requests that take part and the waiting ones that
are admitted, with the number of tokens that each computes. So blocks, sampling, streaming, LoRA and structured output
remain vLLM's, and its own limits (`--max-num-batched-tokens`, `--max-loras`, …) apply as well.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from poise.core.errors import UserError
from poise.core.estimate import Piece, StepShape
from poise.core.policy import Bundle
from poise.core.spec import Engine
from poise.live.clock import now
from poise.live.vllm.driver import Driver
from poise.live.vllm.lane import InsideLane
from poise.live.vllm.pinned import Pinned
from poise.live.vllm.refuse import refuse
from poise.live.vllm.request import Inner
from poise.live.vllm.trial import try_out

try:
    import vllm
    from vllm.v1.core.sched.async_scheduler import AsyncScheduler
    from vllm.v1.core.sched.interface import PauseState
except ModuleNotFoundError as error:
    raise UserError(f"this scheduler runs inside vLLM, and there is no {error.name}; install vllm") from None

log = logging.getLogger("vllm.poise")


class SteeredScheduler(AsyncScheduler):  # type: ignore[misc]  # vLLM is not there when types are checked
    """Calls the policies that a subclass passes to `begin`.

    Under asynchronous scheduling a step is decided while the last one runs; without it, `AsyncScheduler` is passed by.
    """

    running: list[Inner]
    waiting: Any

    def begin(self, policies: Bundle, step: Callable[[StepShape], Piece] | None = None) -> None:
        """Decide by these policies; `step` is what a step costs, where a batcher asks for it.

        UserError, before anything runs, for what they or this vLLM cannot do here.
        """
        refuse(self, policies)
        queue, cache = policies.queue, policies.cache
        engine, inside = _engine(self), _Inside(self)
        layers = self.vllm_config.model_config.get_num_layers(self.parallel_config)
        try_out(policies.batcher, engine, layers, step)
        pinned = None if cache is None else Pinned(cache, inside, now)
        self._tokens: dict[str, int] = {}
        self._driver = Driver(inside, InsideLane(inside, engine, layers, queue, step), policies, pinned)
        names = policies.batcher, queue or "first come first served", policies.preempt, cache or "LRU"
        log.info("poise decides: %s, %s, %s, %s", *names)

    def add_request(self, request: Any) -> None:
        """A request has arrived."""
        super().add_request(request)
        self._driver.arrived(request, now())

    def schedule(self, throttle_prefills: bool = False) -> Any:
        """The next step."""
        if self.pause_state == PauseState.PAUSED_ALL:
            return super().schedule(throttle_prefills)
        plan = self._driver.plan(now())
        running, waiting, self._tokens = self.running, self.waiting, plan.tokens
        admitted = [seat.inner for seat in plan.admitted]
        self.running = [inner for inner in running if inner.request_id in plan.tokens]
        self.waiting = type(waiting)(admitted)
        try:
            return super().schedule(throttle_prefills)
        finally:
            self._tokens = {}
            self._put_back(running, waiting, admitted)

    def _put_back(self, running: list[Inner], waiting: Any, admitted: list[Inner]) -> None:
        """Merge participating and omitted requests, in order of admission and in the order of the queue."""
        left = {inner.request_id: inner for inner in self.waiting}
        taken = [inner for inner in admitted if inner.request_id not in left]
        if taken:
            waiting.remove_requests(taken)
        for inner in admitted:
            left.pop(inner.request_id, None)
        waiting.prepend_requests(reversed(left.values()))  # vLLM found no room for these
        self.running = [inner for inner in running if inner.request_id not in left] + taken
        self.waiting = waiting

    def _reserve_prefill_lookahead(self, request: Inner, num_computed_tokens: int, num_new_tokens: int) -> int:
        """Limit vLLM's own token count of a request in a step: no more than planned."""
        planned = self._tokens.get(request.request_id, num_new_tokens)
        tokens: int = super()._reserve_prefill_lookahead(request, num_computed_tokens, min(num_new_tokens, planned))
        return tokens

    def _update_after_schedule(self, *given: Any) -> None:
        """Count what a step will have computed; under asynchronous scheduling, the tokens that it makes as well."""
        above: Any = super() if self.scheduler_config.async_scheduling else super(AsyncScheduler, self)
        above._update_after_schedule(*given)

    def _update_request_with_output(self, *given: Any, **named: Any) -> Any:
        """Take the tokens that a step has made."""
        above: Any = super() if self.scheduler_config.async_scheduling else super(AsyncScheduler, self)
        return above._update_request_with_output(*given, **named)

    def _free_request(self, request: Any, *given: Any, **named: Any) -> Any:
        """A request has ended."""
        self._driver.ending(request, request.get_finished_reason() is not None and _complete(request))
        return super()._free_request(request, *given, **named)


class _Inside:
    """What the driver, the lane and the pins use of vLLM's scheduler."""

    def __init__(self, scheduler: SteeredScheduler) -> None:
        self._scheduler = scheduler
        self._pool = scheduler.kv_cache_manager.block_pool

    def running(self) -> list[Inner]:
        """The admitted requests that have tokens left to compute, in order of admission."""
        return [inner for inner in self._scheduler.running if not _leaves(inner)]

    def leaving(self) -> int:
        """The number of other admitted requests: those whose last token is being computed."""
        return sum(map(_leaves, self._scheduler.running))

    def waiting(self) -> Iterable[Inner]:
        """Those that may be admitted now: not while new ones are held up, nor before their grammar is compiled."""
        scheduler = self._scheduler
        if scheduler.pause_state != PauseState.UNPAUSED:
            return ()
        if not scheduler.deferred_waiting:
            waiting: Iterable[Inner] = scheduler.waiting
            return waiting
        return [inner for inner in scheduler.waiting if scheduler._handle_blocked_waiting_request(inner)]

    def waits(self) -> int:
        """How many these are."""
        scheduler = self._scheduler
        if scheduler.deferred_waiting or scheduler.pause_state != PauseState.UNPAUSED:
            return sum(1 for _ in self.waiting())
        return len(scheduler.waiting)

    def free_blocks(self) -> int:
        """KV blocks without an owner."""
        free: int = self._pool.get_num_free_blocks()
        return free

    def hit(self, inner: Inner) -> tuple[int, int]:
        """Tokens of a waiting request that the prefix cache holds, and how many of their blocks have no owner."""
        found, tokens, *_ = self._scheduler.kv_cache_manager.get_computed_blocks(inner)
        return tokens, sum(not block.ref_cnt for block in found.blocks[0])

    def newest_leaves(self) -> Inner | None:
        """The request that was admitted last, if its last token is being made."""
        running = self._scheduler.running
        return running[-1] if running and _leaves(running[-1]) else None

    def preempt(self, inner: Inner) -> None:
        """Free a running request's blocks and put it back into the queue."""
        self._scheduler.running.remove(inner)
        self._scheduler._preempt_request(inner, time.monotonic())

    def hold(self, inner: Inner) -> Sequence[Any]:
        """Hold the full blocks of a request that ends, its last block first."""
        blocks = self._scheduler.kv_cache_manager.get_blocks(inner.request_id).blocks[0]
        full = [block for block in blocks if block.block_hash is not None]
        self._pool.touch(full)
        return full[::-1]

    def drop(self, nodes: Any) -> None:
        """Release blocks, in the order in which they shall be evicted."""
        self._pool.free_blocks(nodes)


def _engine(scheduler: Any) -> Engine:
    """The attributes of this vLLM's batching that policies may read."""
    cache = scheduler.cache_config
    return Engine(
        version=vllm.__version__,
        token_budget=scheduler.max_num_scheduled_tokens,
        max_sequences=scheduler.max_num_active_reqs,
        block_tokens=scheduler.block_size,
        prefix_caching=bool(cache.enable_prefix_caching),
        memory_fraction=cache.gpu_memory_utilization,
        kv_blocks=scheduler.kv_cache_manager.block_pool.num_gpu_blocks - 1,  # vLLM keeps one for itself
        reserve_prompt=scheduler.scheduler_reserve_full_isl,
    )


def _leaves(inner: Inner) -> bool:
    """Whether the running steps compute all of a request's output; a stop by content is not predictable."""
    made = inner.num_computed_tokens + 1 - inner.num_output_placeholders
    return inner.num_output_placeholders > 0 and made + 1 >= inner.num_prompt_tokens + inner.max_tokens


def _complete(request: Any) -> bool:
    """Whether an ended request has its full answer: it stopped or reached its length, and was not aborted."""
    return str(request.get_finished_reason()) in ("stop", "length", "repetition")
