"""A placement as engines read it."""

from __future__ import annotations

from typing import Any

from poise.experts import ExpertPlacement, ExpertView


def sglang(placement: ExpertPlacement, layers: list[int], all_layers: int) -> dict[str, Any]:
    """What SGLang's `--init-expert-location` takes: for each layer of the model the expert in each slot.

    layers: of the model, those that the placement is of; all others (dense ones, and those that the load lacks) get
    experts in order, and the first ones again in redundant slots, as SGLang's `trivial` has it.
    """
    rows = placement.physical()
    slots, experts = len(rows[0]), placement.experts
    found = [[slot % experts for slot in range(slots)] for _ in range(all_layers)]
    for layer, row in zip(layers, rows, strict=True):
        found[layer] = row
    return {"physical_to_logical_map": found}


def vllm(view: ExpertView) -> dict[str, Any]:
    """What vLLM's `--eplb-config` takes. vLLM plans itself, from the load that it sees: only the slots are ours."""
    return {"num_redundant_experts": view.ranks * view.slots - view.experts, "log_balancedness": True}
