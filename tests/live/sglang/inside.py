"""What runs inside SGLang's environment: its own scheduler plays worlds without a model; its steps are written as JSON.

Queue, admission, batches, retraction, radix cache and KV allocator are SGLang's own, in the order of its event loop.
Only the model is replaced: each forward pass makes the tokens that the world states.
"""

from __future__ import annotations

import json
import sys
from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

from tests.live.sglang import hollow
from tests.live.sglang.asks import Ask, Step, World

END: Final = 2
"""The token that ends an output."""

CONTEXT: Final = 2048


class Silent:
    """Stands for what reports, streams and measures: every call is accepted and answers nothing."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *given, **named: None


class Stage:
    """SGLang's scheduler for one world."""

    def __init__(self, world: World) -> None:
        from sglang.srt.disaggregation.utils import DisaggregationMode
        from sglang.srt.managers.scheduler import Scheduler
        from sglang.srt.runtime_context import get_schedule

        publish(world)
        self.world = world
        self.asks: dict[str, Ask] = {}
        self.scheduler = it = object.__new__(Scheduler)
        it.__dict__.update(off())
        it.disaggregation_mode = DisaggregationMode.NULL
        it.max_running_requests = world.sequences
        it.max_prefill_tokens = world.max_prefill
        it.page_size = world.page
        it.schedule_policy = get_schedule().schedule_policy
        it.enable_priority_scheduling = it.schedule_low_priority_values_first = world.order == "priority"
        it.model_config = SimpleNamespace(
            is_encoder_decoder=False,
            vocab_size=32000,
            is_multimodal=False,
            hf_config=None,
            context_len=CONTEXT,
            self_opened_think_start_ids=None,
            think_end_id=None,
            think_end_ids=None,
        )
        memory(it, world)
        it.init_running_status()
        it.chunked_prefill_size = world.chunk or None
        it.chunked_req = it._pending_chunked_abort_req = None
        it.prefill_decode_interval = it._prefill_decode_interval_remaining = 0
        it.is_mixed_chunk = bool(world.chunk) and world.mixed
        it.init_schedule_policy()
        results(it)

    def play(self) -> list[Step]:
        """Let the requests come at their steps, until all have ended; SGLang's loop without overlap."""
        it, ahead, at = self.scheduler, list(enumerate(self.world.asks)), 0
        steps: list[Step] = []
        left = len(ahead)
        gone: list[int] = []
        add = it._add_request_to_queue

        def queue(request: Any, is_retracted: bool = False) -> None:
            if is_retracted:
                gone.append(int(request.rid))
            add(request, is_retracted)

        it._add_request_to_queue = queue
        while left:
            while ahead and ahead[0][1].at <= at:
                id, ask = ahead.pop(0)
                it._add_request_to_queue(self.request(id, ask))
            gone.clear()
            plan = it.get_next_batch_to_run(running_batch=it.running_batch, last_batch=it.last_batch)
            it.running_batch = plan.running_batch
            batch = plan.batch_to_run
            if batch:
                steps.append((at, self.tokens(batch), list(gone)))
                self.run(batch)
                left -= sum(request.finished() for request in batch.reqs)
            else:
                it.new_token_ratio_tracker.reset()
            it.last_batch = batch
            at += 1
            assert at < 20_000, "it comes to an end"
        return steps

    def request(self, id: int, ask: Ask) -> Any:
        """SGLang's request of an ask."""
        from sglang.srt.managers.schedule_batch import Req
        from sglang.srt.sampling.sampling_params import SamplingParams

        wanted = SamplingParams(max_new_tokens=ask.limit, ignore_eos=self.world.ignore_eos, temperature=0.0)
        wanted.normalize(None)
        prompt = array("q", ask.tokens(id))
        priority = ask.priority if self.world.order == "priority" else None
        made = Req(
            str(id), "", prompt, wanted, eos_token_ids={END}, vocab_size=32000, priority=priority,
        )  # fmt: skip
        self.asks[made.rid] = ask
        return made

    def tokens(self, batch: Any) -> dict[int, int]:
        """Tokens of each request that takes part."""
        if batch.forward_mode.is_decode():
            return {int(request.rid): 1 for request in batch.reqs}
        decodes = {request.rid for request in batch.decoding_reqs or ()}
        return {int(each.rid): 1 if each.rid in decodes else each.extend_len for each in batch.reqs}

    def run(self, batch: Any) -> None:
        """Make the tokens of a step, and let SGLang note them."""
        import torch
        from sglang.srt.managers.utils import GenerationBatchResult

        made = [self.next_token(request) for request in batch.reqs]
        batch.input_ids = torch.tensor(made, dtype=torch.int64)
        result = GenerationBatchResult(logits_output=None, next_token_ids=torch.tensor(made), can_run_cuda_graph=False)
        it = self.scheduler.batch_result_processor
        if batch.forward_mode.is_decode():
            it.process_batch_result_decode(batch, result)
        else:
            it.process_batch_result_prefill(batch, result)

    def next_token(self, request: Any) -> int:
        ask = self.asks[request.rid]
        count = len(request.output_ids) + 1
        return END if count >= ask.output and not self.world.ignore_eos else 10_000 + int(request.rid) * 200 + count


def publish(world: World) -> None:
    """Make the world's settings SGLang's configuration of this process."""
    from sglang.srt.runtime_context import SpawnRanks, publish, reset_context
    from sglang.srt.server_args import ServerArgs

    priority = world.order == "priority"
    reset_context()
    arguments = ServerArgs(
        model_path="dummy", device="cpu", attention_backend="torch_native", page_size=world.page,
        chunked_prefill_size=world.chunk or -1, max_prefill_tokens=world.max_prefill, enable_mixed_chunk=world.mixed,
        schedule_conservativeness=world.conservativeness, disable_radix_cache=not world.caching,
        schedule_policy="fcfs" if priority else world.order, prefill_max_requests=world.prefills or None,
        max_running_requests=world.sequences, pp_max_micro_batch_size=world.sequences,
        enable_priority_scheduling=priority, schedule_low_priority_values_first=priority,
        disable_priority_preemption=priority,
    )  # fmt: skip
    publish(arguments, role="test", ranks=SpawnRanks(world_rank=0, dp_rank=None))


def off() -> dict[str, Any]:
    """The parts of a scheduler that these worlds do not have."""
    from sglang.srt.speculative.spec_info import SpeculativeAlgorithm

    silent = Silent()
    return {
        "dllm_config": None, "enable_hisparse": False, "enable_lora": False, "enable_hierarchical_cache": False,
        "enable_hicache_storage": False, "enable_lmcache": False, "enable_unified_cache_external_linker": False,
        "enable_overlap": False,
        "abort_on_priority_when_disabled": False, "priority_scheduling_preemption_threshold": 10,
        "is_hybrid_swa": False, "spec_algorithm": SpeculativeAlgorithm.NONE, "require_mlp_sync": False,
        "prefill_decode_interval_min_bs": 0, "dynamic_chunk_sizer": None, "min_free_slots_delayer": None,
        "truncation_align_size": None, "hisparse_coordinator": None, "decode_offload_manager": None,
        "processed_tokens_counter": 0, "max_queued_requests": None, "metrics_collector": None, "device": "cpu",
        "scheduler_stage_metrics": None,
        "metrics_reporter": SimpleNamespace(
            enable_metrics=False, num_retracted_reqs=0, num_generated_tokens=0, forward_ct_decode=0,
            report_decode_stats=lambda *given, **named: None, report_prefill_stats=lambda *given, **named: None,
        ),
        "grammar_manager": SimpleNamespace(has_waiting_grammars=lambda: False),
        "beam_coordinator": SimpleNamespace(
            pending_member_rows=lambda *given: 0, retire_group=silent.retire, commit_decode=lambda batch: set()
        ),
        "dp_attn_adapter": SimpleNamespace(
            maybe_prepare_mlp_sync_batch=lambda batch, need_sync=None: batch,
            maybe_convert_decode_to_extend=lambda batch: batch,
        ),
        "ngram_embedding_manager": SimpleNamespace(prepare_for_forward=lambda batch, chunked_req: batch),
        "load_inquirer": SimpleNamespace(_get_num_pending_tokens=lambda **named: 0),
        "tp_worker": SimpleNamespace(
            model_runner=SimpleNamespace(attn_backend=SimpleNamespace(), prefill_aware_swa=False)
        ),
        "output_streamer": silent,
    }  # fmt: skip


def memory(it: Any, world: World) -> None:
    """The pools and the prefix cache, without the KV itself."""
    import torch
    from sglang.srt.mem_cache.allocator.paged import PagedTokenToKVPoolAllocator
    from sglang.srt.mem_cache.allocator.token import TokenToKVPoolAllocator
    from sglang.srt.mem_cache.cache_init_params import CacheInitParams
    from sglang.srt.mem_cache.memory_pool import ReqToTokenPool
    from sglang.srt.mem_cache.unified_cache.components import ComponentType
    from sglang.srt.mem_cache.unified_radix_cache import UnifiedRadixCache

    it.req_to_token_pool = ReqToTokenPool(world.sequences, CONTEXT, "cpu", False)
    kept = SimpleNamespace(page_size=world.page)
    if world.page == 1:
        it.token_to_kv_pool_allocator = TokenToKVPoolAllocator(world.tokens, torch.bfloat16, "cpu", kept, False)
    else:
        it.token_to_kv_pool_allocator = PagedTokenToKVPoolAllocator(
            world.tokens, world.page, torch.bfloat16, "cpu", kept, False
        )
    it.tree_cache = UnifiedRadixCache(
        CacheInitParams(
            disable=not world.caching, req_to_token_pool=it.req_to_token_pool,
            token_to_kv_pool_allocator=it.token_to_kv_pool_allocator, page_size=world.page,
            tree_components=(ComponentType.FULL,), chunked_prefill_size=world.chunk or None,
        )
    )  # fmt: skip


def results(it: Any) -> None:
    """SGLang's own handling of what a step has made."""
    from sglang.srt.managers.scheduler_components.batch_result_processor import SchedulerBatchResultProcessor

    it.batch_result_processor = SchedulerBatchResultProcessor(
        is_generation=True, disaggregation_mode=it.disaggregation_mode, enable_overlap=it.enable_overlap,
        enable_overlap_mlx=False, model_config=it.model_config,
        token_to_kv_pool_allocator=it.token_to_kv_pool_allocator, tree_cache=it.tree_cache, hisparse_coordinator=None,
        req_to_token_pool=it.req_to_token_pool,
        decode_offload_manager=None, metrics_collector=None, metrics_reporter=it.metrics_reporter, draft_worker=None,
        model_worker=None, logprob_result_processor=Silent(), output_streamer=it.output_streamer,
        beam_coordinator=it.beam_coordinator, abort_request=lambda *given: None,
    )  # fmt: skip


def main(worlds: str, out: str) -> None:
    """Play the worlds of one file, and write their steps, or why there are none, to another."""
    hollow.install()
    played: list[Any] = []
    for each in json.loads(Path(worlds).read_text()):
        world = World(**{**each, "asks": tuple(Ask(**ask) for ask in each["asks"])})
        try:
            played.append(Stage(world).play())
        except RuntimeError as error:
            if "ut of memory" not in str(error):  # SGLang itself gives up where a prompt's next chunk finds no room
                raise
            played.append(None)
    Path(out).write_text(json.dumps(played))


if __name__ == "__main__":
    main(*sys.argv[1:])
