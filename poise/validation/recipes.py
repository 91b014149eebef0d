"""How a published benchmark sets its engines up: the flags of InferenceX's scripts, which its results do not repeat.

From github:SemiAnalysisAI/InferenceX (Apache-2.0), `benchmarks/` and `.github/configs/nvidia-master.yaml` as they were
when its runs were made; each row of `recipes.json` names its file. Later rows add to earlier ones, or replace them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from poise.catalogue.names import key
from poise.core.spec import Format

_DATA = Path(__file__).with_name("recipes.json")


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a script sets; 0, 1 and False leave the engine as it is.

    token_budget: tokens of a step.  prompt_and: its budget is a prompt, a token a client and this many more.
    recv_interval: SGLang's `--scheduler-recv-interval`.  balance_iters: steps that prompts wait for one on every rank,
    where attention's ranks have requests of their own.  wait_iters, wait_ratio: TensorRT-LLM's
    `batch_wait_timeout_iters` and `batch_wait_max_tokens_ratio`.
    """

    token_budget: int = 0
    prompt_and: int = 0
    recv_interval: int = 1
    balance_iters: int = 0
    wait_iters: int = 0
    wait_ratio: float = 0.0


PLAIN = Recipe()


def recipe_for(
    engine: str, model: str, device: str, weights: Format, *, day: str, prompt: float, clients: int, tensor: int
) -> Recipe:
    """What InferenceX's scripts set for such a run on `day` (2026-01-31; "" for the newest scripts)."""
    sets: dict[str, Any] = {}
    for row in _rows():
        low, high = row.get("clients", (0, 0))
        if (
            key(engine).startswith(row["engine"])
            and re.search(row["models"], model, re.IGNORECASE)
            and re.search(row["devices"], device)
            and re.fullmatch(row.get("weights", ".*"), weights)
            and row.get("since", "") <= (day or "9") < row.get("until", "99")
            and row.get("prompt", prompt) == prompt
            and row.get("tensor", tensor) == tensor
            and low <= clients <= (high or clients)
        ):
            sets |= row["sets"]
    return Recipe(**sets)


@cache
def _rows() -> tuple[dict[str, Any], ...]:
    return tuple(json.loads(_DATA.read_text(encoding="utf-8")))
