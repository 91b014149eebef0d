"""Tries a batcher on an engine with two prompts, so that unsupported reads fail before requests are served."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from types import SimpleNamespace
from typing import Any, Final

from poise.core.errors import UserError
from poise.core.estimate import Piece, StepShape
from poise.core.policy import Batcher
from poise.core.spec import Engine
from poise.live.vllm.lane import InsideLane
from poise.live.vllm.refuse import impossible

_FIELDS: Final[dict[str, Any]] = {
    "num_computed_tokens": 0, "num_output_placeholders": 0, "num_output_tokens": 0, "is_prefill_chunk": False,
    "max_tokens": 1, "priority": 0, "session_id": None, "block_hashes": (), "sampling_params": None,
    "lora_request": None,
}  # fmt: skip


class _TwoWait:
    """An idle engine with two requests in its queue."""

    def __init__(self, tokens: int, blocks: int) -> None:
        self._prompts = tuple(
            SimpleNamespace(request_id=name, num_prompt_tokens=tokens, **_FIELDS) for name in ("first", "second")
        )
        self._blocks = blocks

    def running(self) -> tuple[Any, ...]:
        return ()

    def leaving(self) -> int:
        return 0

    def waiting(self) -> tuple[SimpleNamespace, ...]:
        return self._prompts

    def waits(self) -> int:
        return len(self._prompts)

    def free_blocks(self) -> int:
        return self._blocks

    def hit(self, inner: Any) -> tuple[int, int]:
        return 0, 0


def try_out(batcher: Batcher, engine: Engine, layers: int, step: Callable[[StepShape], Piece] | None) -> None:
    """UserError where a batch for two prompts that fill a step cannot be run, or not even made."""
    tokens = min(engine.token_budget, engine.kv_blocks * engine.block_tokens) // 2
    lane = InsideLane(_TwoWait(max(tokens, 1), engine.kv_blocks), engine, layers, None, step)
    lane.begin(1, ())
    cannot = impossible(deepcopy(batcher).batch(lane), layers)
    if cannot:
        raise UserError(f"poise inside vLLM: {type(batcher).__name__} {cannot}")
