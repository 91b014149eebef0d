"""Systems by what they are about: that of their slot, but where the slot cannot tell."""

from __future__ import annotations

from collections.abc import Iterable

from poise.claims.claim import Claim
from poise.core.errors import UserError

ROUTING = "routing and rebalancing"
BATCHING = "batching and preemption"
PARALLEL = "disaggregation and serving parallelism"
AGENTS = "agents and workflows"
CAPACITY = "capacity, scaling, power"
COSTS = "step costs"
GENERAL = "general scheduling"

GROUPS = (ROUTING, BATCHING, PARALLEL, AGENTS, CAPACITY, COSTS, GENERAL)
"""In the order in which they are listed."""

_BY_SLOT = {
    "router": ROUTING,
    "mover": ROUTING,
    "lender": PARALLEL,
    "hedge": ROUTING,
    "admission": ROUTING,
    "batcher": BATCHING,
    "queue": BATCHING,
    "preempt": BATCHING,
    "split": PARALLEL,
    "predictor": BATCHING,
    "order": GENERAL,
    "cache": AGENTS,
    "placer": PARALLEL,
    "scaler": CAPACITY,
    "forecast": CAPACITY,
    "cap": CAPACITY,
    "workload": CAPACITY,
    "cost": COSTS,
}

_BY_NAME = {
    "cloud_balancing": GENERAL,
    "power_of_two": GENERAL,
    "pd_serve": PARALLEL,
    "prefill_as_a_service": PARALLEL,
    "cloudmatrix384": PARALLEL,
    "energonai": PARALLEL,
    "kv_runahead": PARALLEL,
    "medha": PARALLEL,
    "semi_pd": PARALLEL,
    "nexus": PARALLEL,
    "infinite_llm": PARALLEL,
    "block_llm": PARALLEL,
    "expert_as_a_service": PARALLEL,
    "hybrid_partition": PARALLEL,
    "pipe_infer": PARALLEL,
    "seesaw": PARALLEL,
    "diagonal_batching": BATCHING,
    "dllm_serve": BATCHING,
    "moe_gen": BATCHING,
    "nanoflow": BATCHING,
    "introspective_diffusion": BATCHING,
    "continuum": AGENTS,
    "saga": AGENTS,
    "hexgen_text2sql": AGENTS,
    "llm_compiler": AGENTS,
    "plan_over_graph": AGENTS,
    "matrix": AGENTS,
    "parallel_prompt": AGENTS,
    "melange": CAPACITY,
    "apex": CAPACITY,
    "llm_mesh": CAPACITY,
    "cloudformer": CAPACITY,
}
"""Systems whose slot says less than their paper."""


def group_of(name: str, about: Claim) -> str:
    """The group of a system."""
    return _BY_NAME.get(name) or _BY_SLOT.get(about.slot, GENERAL)


def find_group(text: str) -> str:
    """The one group that `text` is in; UserError with all of them where there is none, or several."""
    found = [group for group in GROUPS if text.lower() in group]
    if len(found) != 1:
        said = "is in none" if not found else f"is in {' and '.join(found)}"
        raise UserError(f"--group {text}: {said}; give one of {'; '.join(GROUPS)}, or a part of it")
    return found[0]


def by_group(names: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """Names of systems, given with their group, by group."""
    told = list(names)
    found = {group: [name for name, own in told if own == group] for group in GROUPS}
    return {group: some for group, some in found.items() if some}
