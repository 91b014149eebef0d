"""What runs inside vLLM's own environment: it writes what happened in each world as JSON, for `test_vllm` to judge."""

from __future__ import annotations

import json
import os
import sys
from collections import deque
from copy import copy
from pathlib import Path
from typing import Any

from tests.live.vllm.worlds import BLOCK, Ask, Step, World

SCHEDULER = "poise.scenario.serve.vllm.PoiseScheduler"


class Stage:
    """One engine in this process; each world has a scheduler of its own before the same model."""

    def __init__(self, model: str) -> None:
        from vllm import EngineArgs, LLMEngine

        arguments = EngineArgs(
            model=model, skip_tokenizer_init=True, dtype="bfloat16", max_model_len=1024, block_size=BLOCK,
            max_num_seqs=8, max_num_batched_tokens=128, num_gpu_blocks_override=256, enforce_eager=True,
            scheduler_cls=SCHEDULER,
        )  # fmt: skip
        self.engine = LLMEngine.from_engine_args(arguments)
        self.core = self.engine.engine_core.engine_core  # type: ignore[attr-defined]

    def play_ahead(self, number: int, world: World) -> list[Step]:
        """The same, each step scheduled while the last is under way. CPUs cannot, so the tokens are made up."""
        self.core.scheduler = scheduler = self._scheduler(world)
        ids: dict[str, int] = {}
        steps: list[Step] = []
        under_way = deque[Any]([None])
        asks = deque(enumerate(world.asks))
        at = 0
        while asks or scheduler.has_unfinished_requests():
            while asks and asks[0][1].at <= at:
                id, ask = asks.popleft()
                ids[self._add(f"{number}.{id}", id, ask)] = id
            output = scheduler.schedule()
            if output.num_scheduled_tokens:
                tokens = {ids[name]: count for name, count in output.num_scheduled_tokens.items()}
                steps.append((at, tokens, [ids[name] for name in sorted(output.preempted_req_ids or ())]))
            under_way.append((output, _makes(scheduler, output)))
            ended = under_way.popleft()
            if ended is not None:
                scheduler.update_from_output(*ended)
            at += 1
            assert at < 10_000, "it comes to an end"
        return steps

    def play(self, number: int, world: World) -> list[Step]:
        """Let the requests come at their steps, until all have ended."""
        if world.ahead:
            return self.play_ahead(number, world)
        self.core.scheduler = scheduler = self._scheduler(world)
        ids: dict[str, int] = {}
        steps: list[Step] = []
        ahead = list(enumerate(world.asks))
        at = 0
        while ahead or self.engine.has_unfinished_requests():
            while ahead and ahead[0][1].at <= at:
                id, ask = ahead.pop(0)
                ids[self._add(f"{number}.{id}", id, ask)] = id
            happened = _watch(scheduler)
            self.engine.step()
            for tokens, gave_way in happened:
                named = {ids[name]: count for name, count in tokens.items()}
                steps.append((at, named, [ids[name] for name in gave_way]))
            at += 1
        return steps

    def _add(self, name: str, id: int, ask: Ask) -> str:
        from vllm import SamplingParams

        wanted = SamplingParams(max_tokens=ask.output, ignore_eos=True, detokenize=False, temperature=0.0)
        prompt = {"prompt_token_ids": ask.tokens(id)}
        given: str = self.engine.add_request(name, prompt, wanted, priority=ask.priority)  # type: ignore[arg-type]
        return given

    def _scheduler(self, world: World) -> Any:
        """A scheduler in the place of the engine's own, with the limits of the world."""
        from vllm.v1.core.sched.async_scheduler import AsyncScheduler
        from vllm.v1.core.sched.scheduler import Scheduler

        from poise.scenario.serve.vllm import PoiseScheduler

        config = copy(self.core.vllm_config)
        config.scheduler_config = copy(config.scheduler_config)
        config.scheduler_config.max_num_seqs = world.sequences
        config.scheduler_config.max_num_batched_tokens = world.budget
        config.scheduler_config.max_num_scheduled_tokens = None
        config.scheduler_config.scheduler_reserve_full_isl = world.reserve
        config.scheduler_config.async_scheduling = world.ahead
        config.cache_config = copy(config.cache_config)
        config.cache_config.enable_prefix_caching = world.caching
        config.additional_config = {"poise": world.chosen}
        blocks = copy(self.core.scheduler.kv_cache_config)
        blocks.num_blocks = world.blocks + 1  # vLLM keeps one for itself
        own = AsyncScheduler if world.ahead else Scheduler
        return (own if world.chosen is None else PoiseScheduler)(
            vllm_config=config,
            kv_cache_config=blocks,
            structured_output_manager=self.core.structured_output_manager,
            block_size=BLOCK,
            hash_block_size=BLOCK,
        )


def _makes(scheduler: Any, output: Any) -> Any:
    """What the model makes in a step that was scheduled just now: a token for each request that has no prompt left."""
    from vllm.v1.outputs import ModelRunnerOutput

    names = list(output.num_scheduled_tokens)
    return ModelRunnerOutput(
        req_ids=names,
        req_id_to_index={name: place for place, name in enumerate(names)},
        sampled_token_ids=[[] if scheduler.requests[name].is_prefill_chunk else [7] for name in names],
    )


def _watch(scheduler: Any) -> list[tuple[dict[str, int], list[str]]]:
    """What the scheduler's next steps compute, and whom it preempts for them, as they happen."""
    happened: list[tuple[dict[str, int], list[str]]] = []
    kind = type(scheduler)

    def schedule(*given: Any) -> Any:
        output = kind.schedule(scheduler, *given)
        if output.num_scheduled_tokens:
            happened.append((dict(output.num_scheduled_tokens), sorted(output.preempted_req_ids or ())))
        return output

    scheduler.schedule = schedule
    return happened


def main(model: str, worlds: str, out: str) -> None:
    """Play the worlds of one file, and write their steps to another."""
    os.environ["VLLM_ENABLE_V1_MULTIPROCESSING"] = "0"
    stage = Stage(model)
    cases = [
        World(**{**each, "asks": tuple(Ask(**ask) for ask in each["asks"])})
        for each in json.loads(Path(worlds).read_text())
    ]
    Path(out).write_text(json.dumps([stage.play(number, world) for number, world in enumerate(cases)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
