"""A scheduler in the shape of vLLM's, as far as Poise leans on it, so that the adapter is tested where vLLM is not.

Written from what vLLM does, not from how: running requests first, then waiting ones in order, each given blocks or
else the newest preempted; full blocks are found again by the tokens up to their end. It makes up every answer.
"""

from __future__ import annotations

import enum
import sys
from collections import OrderedDict, deque
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from hashlib import sha256
from types import ModuleType, SimpleNamespace
from typing import Any

from tests.live.vllm.worlds import BLOCK, Ask, Step, World


class PauseState(enum.IntEnum):
    UNPAUSED = 0
    PAUSED_NEW = 1
    PAUSED_ALL = 2


class Request:
    def __init__(self, id: int, ask: Ask) -> None:
        self.request_id = str(id)
        self.prompt = ask.tokens(id)
        self.num_prompt_tokens = ask.prompt
        self.max_tokens = ask.output
        self.priority = ask.priority
        self.output: list[int] = []
        self.num_computed_tokens = self.num_output_placeholders = 0
        self.is_prefill_chunk = False
        self.session_id: str | None = None
        self.sampling_params = SimpleNamespace(extra_args=None)
        self.lora_request = None
        self.reason: str | None = None
        self.stale = 0

    @property
    def num_output_tokens(self) -> int:
        return len(self.output)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt_tokens + len(self.output)

    @property
    def block_hashes(self) -> list[bytes]:
        tokens = [*self.prompt, *self.output]
        return [sha256(repr(tokens[:end]).encode()).digest() for end in range(BLOCK, len(tokens) + 1, BLOCK)]

    def get_finished_reason(self) -> str | None:
        return self.reason


class Block:
    def __init__(self) -> None:
        self.ref_cnt = 0
        self.block_hash: bytes | None = None


class Blocks:
    """The pool and its manager in one.  idle: blocks that nobody holds, the first to be taken first."""

    def __init__(self, count: int, caching: bool) -> None:
        self.num_gpu_blocks = count + 1
        self.caching = caching
        self.idle: OrderedDict[Block, None] = OrderedDict.fromkeys(Block() for _ in range(count))
        self.known: dict[bytes, Block] = {}
        self.held: dict[str, list[Block]] = {}
        self.block_pool = self

    def get_num_free_blocks(self) -> int:
        return len(self.idle)

    def get_blocks(self, name: str) -> Any:
        return SimpleNamespace(blocks=(self.held.get(name, []),))

    def get_computed_blocks(self, request: Request) -> tuple[Any, int, int]:
        found: list[Block] = []
        for end in request.block_hashes[: (request.num_tokens - 1) // BLOCK] if self.caching else ():
            if end not in self.known:
                break
            found.append(self.known[end])
        return SimpleNamespace(blocks=(found,)), len(found) * BLOCK, 0

    def allocate(self, request: Request, tokens: int, found: list[Block], whole: bool) -> bool:
        """Hold the blocks for `tokens` more; False if there are too few (or for all, where the `whole` must fit)."""
        held = self.held.get(request.request_id, found)
        end = request.num_computed_tokens + len(found) * BLOCK + tokens
        idle = sum(not block.ref_cnt for block in found)
        more = -(-end // BLOCK) - len(held)
        wanted = max(more, -(-request.num_tokens // BLOCK) - len(held)) if whole else more
        if wanted + idle > len(self.idle):
            return False
        self.touch(found)
        taken = [self._take() for _ in range(more)]
        self.held[request.request_id] = held = [*held, *taken]
        if self.caching:
            full = min(end, request.num_tokens) // BLOCK
            for name, block in zip(request.block_hashes[:full], held, strict=False):
                if block.block_hash is None:
                    block.block_hash = name
                    self.known.setdefault(name, block)
        return True

    def touch(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            self.idle.pop(block, None)
            block.ref_cnt += 1

    def free(self, request: Request) -> None:
        self.free_blocks(self.held.pop(request.request_id, [])[::-1])

    def free_blocks(self, blocks: Iterable[Block]) -> None:
        for block in blocks:
            block.ref_cnt -= 1
            if not block.ref_cnt:
                self.idle[block] = None
                if block.block_hash is None:
                    self.idle.move_to_end(block, last=False)

    def _take(self) -> Block:
        block, _ = self.idle.popitem(last=False)
        block.ref_cnt = 1
        if self.known.get(block.block_hash or b"") is block:
            del self.known[block.block_hash or b""]
        block.block_hash = None
        return block


class Output(dict[str, int]):
    """Tokens of each request that takes part in a step, and which of them make one in it."""

    def __init__(self, tokens: dict[str, int]) -> None:
        super().__init__(tokens)
        self.makes: list[Request] = []


class Waiting(deque[Request]):
    def remove_requests(self, requests: Iterable[Request]) -> None:
        gone = set(requests)
        left = [request for request in self if request not in gone]
        self.clear()
        self.extend(left)

    def prepend_requests(self, requests: Iterable[Request]) -> None:
        self.extendleft(requests)


class Scheduler:
    def __init__(self, world: World, **limits: Any) -> None:
        self.kv_cache_manager = Blocks(world.blocks, world.caching)
        self.requests: dict[str, Request] = {}
        self.running: list[Request] = []
        self.waiting = Waiting()
        self.deferred_waiting: set[Request] = set()
        self.max_num_scheduled_tokens = world.budget
        self.max_num_active_reqs = world.sequences
        self.scheduler_reserve_full_isl = world.reserve
        self.block_size = BLOCK
        self.cache_config = SimpleNamespace(enable_prefix_caching=world.caching, gpu_memory_utilization=0.9)
        self.parallel_config = SimpleNamespace(
            pipeline_parallel_size=1, decode_context_parallel_size=1, prefill_context_parallel_size=1
        )
        self.scheduler_config = SimpleNamespace(async_scheduling=False, policy="fcfs")
        self.vllm_config = SimpleNamespace(
            model_config=SimpleNamespace(get_num_layers=lambda parallel: 4), speculative_config=None,
            additional_config={"poise": world.chosen},
        )  # fmt: skip
        self.kv_cache_config = SimpleNamespace(kv_cache_groups=[None])
        self.connector = None
        self.is_encoder_decoder = False
        self.pause_state = PauseState.UNPAUSED
        self.preempted: list[str] = []
        for name, each in limits.items():
            part, _, inner = name.rpartition("__")
            setattr(getattr(self, part) if part else self, inner, each)

    def add_request(self, request: Request) -> None:
        self.requests[request.request_id] = request
        self.waiting.append(request)

    def schedule(self, throttle_prefills: bool = False) -> Output:
        """Tokens of each request that takes part."""
        budget = 0 if self.pause_state == PauseState.PAUSED_ALL else self.max_num_scheduled_tokens
        tokens: dict[str, int] = {}
        gave_way = False
        for request in list(self.running):
            if request not in self.running or not budget or self._leaves(request):
                continue
            wanted = self._wanted(request, request.num_computed_tokens, budget)
            while wanted and not self.kv_cache_manager.allocate(request, wanted, [], False):
                newest = self.running.pop()
                self._preempt_request(newest, 0.0)
                gave_way = True
                if newest is request:
                    wanted = 0
            if wanted:
                tokens[request.request_id] = wanted
                budget -= wanted
        while self.waiting and budget and not gave_way and len(self.running) < self.max_num_active_reqs:
            request = self.waiting[0]
            found, hit, _ = self.kv_cache_manager.get_computed_blocks(request)
            wanted = self._wanted(request, hit, budget)
            if not wanted or not self.kv_cache_manager.allocate(
                request, wanted, found.blocks[0], self.scheduler_reserve_full_isl
            ):
                break
            self.running.append(self.waiting.popleft())
            request.num_computed_tokens = hit
            tokens[request.request_id] = wanted
            budget -= wanted
        output = Output(tokens)
        self._update_after_schedule(output)
        return output

    def update(self, output: Output) -> None:
        """Make up the tokens of a step."""
        for request in output.makes:
            if request.request_id in self.requests:
                self._update_request_with_output(request, [7])
                if len(request.output) >= request.max_tokens:
                    request.reason = "length"
                    (self.running if request in self.running else self.waiting).remove(request)
                    self._free_request(request)

    def _update_after_schedule(self, output: Output) -> None:
        for name, count in output.items():
            request = self.requests[name]
            request.num_computed_tokens += count
            known = request.num_tokens + request.num_output_placeholders
            request.is_prefill_chunk = request.num_computed_tokens < known
            if not request.is_prefill_chunk:
                output.makes.append(request)

    def _update_request_with_output(self, request: Request, made: list[int]) -> None:
        request.output += made

    def _leaves(self, request: Request) -> bool:
        ahead = request.num_output_placeholders
        return ahead > 0 and len(request.output) + ahead >= request.max_tokens

    def _wanted(self, request: Request, computed: int, budget: int) -> int:
        known = request.num_tokens + request.num_output_placeholders
        return self._reserve_prefill_lookahead(request, computed, min(known - computed, budget))

    def _reserve_prefill_lookahead(self, request: Request, computed: int, tokens: int) -> int:
        return tokens

    def _handle_blocked_waiting_request(self, request: Request) -> bool:
        return request not in self.deferred_waiting

    def _preempt_request(self, request: Request, at: float) -> None:
        self.kv_cache_manager.free(request)
        request.num_computed_tokens = 0
        request.stale, request.num_output_placeholders = request.num_output_placeholders, 0
        self.waiting.appendleft(request)
        self.preempted.append(request.request_id)

    def _free_request(self, request: Request) -> None:
        self.kv_cache_manager.free(request)
        del self.requests[request.request_id]


class AsyncScheduler(Scheduler):
    """Schedules a step before the tokens of the last are known."""

    def _update_after_schedule(self, output: Output) -> None:
        super()._update_after_schedule(output)
        for request in output.makes:
            request.num_output_placeholders += 1

    def _update_request_with_output(self, request: Request, made: list[int]) -> None:
        super()._update_request_with_output(request, made)
        if request.stale:  # preempted meanwhile
            request.stale -= 1
        else:
            request.num_output_placeholders -= 1


@contextmanager
def pretended() -> Iterator[None]:
    """While this is entered, `import vllm` finds the shape."""
    before = dict(sys.modules)
    ours = ("poise.live.vllm.scheduler", "poise.scenario.serve.vllm")
    try:
        for name in (*ours, *(name for name in before if name.partition(".")[0] == "vllm")):
            sys.modules.pop(name, None)
        for name in ("vllm", "vllm.v1", "vllm.v1.core", "vllm.v1.core.sched"):
            sys.modules[name] = ModuleType(name)
        vars(sys.modules["vllm"])["__version__"] = "0.32.0"
        sys.modules["vllm.v1.core.sched.interface"] = interface = ModuleType("interface")
        sys.modules["vllm.v1.core.sched.async_scheduler"] = scheduler = ModuleType("async_scheduler")
        vars(interface)["PauseState"], vars(scheduler)["AsyncScheduler"] = PauseState, AsyncScheduler
        yield
    finally:
        for name in set(sys.modules) - set(before):
            if name in ours or name.partition(".")[0] == "vllm":
                del sys.modules[name]
        sys.modules.update({name: before[name] for name in before if name.partition(".")[0] == "vllm"})


def play(world: World, scheduler: Any) -> list[Step]:
    """Let the requests come at their steps, until all have ended; a step ahead under asynchronous scheduling."""
    steps: list[Step] = []
    ahead = list(enumerate(world.asks))
    under_way = deque([Output({})] if scheduler.scheduler_config.async_scheduling else [])
    at = 0
    while ahead or scheduler.requests:
        while ahead and ahead[0][1].at <= at:
            id, ask = ahead.pop(0)
            scheduler.add_request(Request(id, ask))
        scheduler.preempted.clear()
        tokens = scheduler.schedule()
        if tokens:
            gave_way = [int(name) for name in scheduler.preempted]
            steps.append((at, {int(name): count for name, count in tokens.items()}, gave_way))
        under_way.append(tokens)
        scheduler.update(under_way.popleft())
        at += 1
        assert at < 10_000, "it comes to an end"
    return steps
