"""ExpertWeave (Shi et al., arXiv 2508.17624): adapters that replace a few experts, beside the base model's experts.

An adapter has experts of its own for some of each layer's experts; all else is the base model's. In a virtual tensor of
M + N·E_max experts a layer, pages lie under the experts that exist, so padding takes no memory. The router's answer is
renumbered by the adapter of each token, and one grouped product serves all. Served otherwise, each adapter is merged
into a model of its own.
"""

from __future__ import annotations

from typing import NamedTuple

from poise.core.errors import ScenarioError
from poise.core.model import Model
from poise.core.spec import Device
from poise.cost.efficiency import Efficiencies

BYTES = 2
"""Of a weight and of a cached value."""


class Room(NamedTuple):
    """KV space of one device in tokens, 0 where weights leave none: woven, padded, and one merged model an adapter.

    merged_part: of the woven space.  padding: bytes of the experts padded over those that exist.
    """

    woven_tokens: float
    padded_tokens: float
    merged_tokens: float
    merged_part: float
    padding: float


def room(
    model: Model, device: Device, adapters: int, *, tuned: float = 6.45, most: int = 13, part: float = 0.9
) -> Room:
    """KV space beside `adapters` adapters.

    tuned: experts of a layer that an adapter has, in the mean.  most: the most of any adapter in any layer.  part: of
    the memory that weights and KV take. ScenarioError for a dense model.
    """
    if model.moe is None:
        raise ScenarioError(f"model {model.name}: has no experts that an adapter could replace; give a mixture")
    layers, expert = model.moe.layers, model.expert_parameters * BYTES
    weights, memory = model.parameters * BYTES, device.memory_bytes * part
    token = model.kv_bytes_per_token(8 * BYTES)
    taken = (
        weights + adapters * tuned * layers * expert,
        weights + adapters * most * layers * expert,
        adapters * weights,
    )
    woven, padded, merged = (max(memory - each, 0.0) / token for each in taken)
    experts = model.moe.experts
    padding = (experts + adapters * most) / (experts + adapters * tuned)
    return Room(woven, padded, merged, merged / woven if woven else 0.0, padding)


def slower(
    model: Model, device: Device, adapters: int, *, requests: int = 64, context: int = 1024, tuned: float = 6.45,
    share: float = 0.2,
) -> float:  # fmt: skip
    """Seconds of a decode step with requests spread evenly over adapters, over those of the base model alone.

    share: of an adapter's pairs that go to its own experts. A layer reads each expert that any token chose, tokens
    choosing evenly among the experts of their kind, and renumbers by one light kernel. ScenarioError for a dense model.
    """
    if model.moe is None:
        raise ScenarioError(f"model {model.name}: has no experts that an adapter could replace; give a mixture")
    use, moe = Efficiencies(), model.moe
    each = model.expert_parameters * BYTES
    rest = (model.parameters - moe.layers * moe.experts * model.expert_parameters) * BYTES
    cached = requests * context * model.kv_bytes_per_token(8 * BYTES)
    fixed = model.layers * (2 * use.gemm_s + use.attention_s) + moe.layers * use.moe_s + use.sample_s + use.cpu_step_s
    fixed += (rest / use.stream_bf16 + cached / use.attention_decode_bf16) / device.memory_bw

    def read(own: float) -> float:
        pairs = requests * moe.active
        base = _touched(moe.experts, pairs * (1 - own))
        tuned_ones = adapters * _touched(tuned, pairs * own / adapters) if own else 0.0
        return moe.layers * (base + tuned_ones) * each / (device.memory_bw * use.moe_stream)

    return (fixed + read(share) + moe.layers * use.light_s) / (fixed + read(0.0))


def _touched(experts: float, pairs: float) -> float:
    """Experts that any of some pairs chose, in the mean."""
    return experts * (1 - (1 - 1 / experts) ** pairs) if experts > 1 else min(pairs, experts)
