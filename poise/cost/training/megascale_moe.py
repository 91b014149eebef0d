"""MegaScale-MoE: sequence instead of tensor parallelism in attention, and experts by all-to-all or by all-gather.

Jin et al. (arXiv 2505.11432). A server of n devices shares each sequence. Attention by Ulysses moves (1 + 1/m)/n of
what tensor parallelism moves, with m query heads for each of keys and values; a token's k copies go to its experts by
an all-to-all, which moves k/n of what an all-gather and a reduce-scatter move, at a lower bandwidth. Exchanges run
beside compute, and gradients are summed in 16 bits.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

from poise.core.errors import ScenarioError
from poise.cost.training.experts import experts
from poise.cost.training.figures import Figures, figures
from poise.cost.training.job import Job
from poise.cost.training.layer import builder, head
from poise.cost.training.network import Network
from poise.cost.training.parts import Slice, light, mixer

__all__ = ["Network", "Step", "Way", "attention_part", "crossover", "dispatch_s", "step"]


@dataclass(frozen=True, slots=True)
class Way:
    """How a layer is laid over a server; the defaults are Megatron-LM's.

    dispatch: `exchange` is an all-to-all, `gather` an all-gather with a reduce-scatter, `least` the shorter.
    overlapped: exchanges run beside compute.  gradient_bytes: of a gradient value as it is summed over servers.
    """

    attention: Literal["tensor", "sequence"] = "tensor"
    dispatch: Literal["exchange", "gather", "least"] = "exchange"
    overlapped: bool = False
    gradient_bytes: int = 4


class Step(NamedTuple):
    """Seconds of a step and tokens a second; of one layer and microbatch computing and what exchanges add to it."""

    seconds: float
    rate: float
    computed_s: float
    exchanged_s: float


def attention_part(ranks: int, heads_per_key: float) -> float:
    """Bytes that sequence parallelism moves in attention over those of tensor parallelism: (1 + 1/m) / n.

    All-to-alls of queries, keys, values and outputs move (2 + 2/m)/n of the tokens' values; the all-gather and the
    reduce-scatter move them twice. Notes on the paper have twice this part.
    """
    return (1 + 1 / heads_per_key) / ranks


def dispatch_s(job: Job, use: Figures | None = None) -> tuple[float, float]:
    """Seconds to send a sequence's tokens to experts and back: by all-to-all; by all-gather and reduce-scatter."""
    moe = _experts_of(job)
    network, ranks = Network(job, use or figures()), job.inside
    whole = 2.0 * job.sequence * job.model.hidden
    sent = network.exchange(whole / ranks * moe, ranks, 1, moe, once=False)
    return 2.0 * float(sent), 2.0 * float(network.scatter(whole, ranks, 1))


def crossover(job: Job, use: Figures | None = None) -> int:
    """The most experts a token for which the all-to-all is the shorter."""
    moe = job.model.moe
    assert moe is not None
    shorter = 0
    for active in range(1, moe.experts + 1):
        exchange, gather = dispatch_s(replace(job, model=replace(job.model, moe=replace(moe, active=active))), use)
        if exchange > gather:
            break
        shorter = active
    return shorter


def step(job: Job, pipeline: int, way: Way) -> Step:
    """One step by 1F1B on `pipeline` stages of a server each, the servers that are left as data ranks; microbatches
    of one sequence. ScenarioError where layers, devices or the batch do not divide.
    """
    servers, model = job.devices // job.inside, job.model
    data = servers // pipeline
    for name, whole, part in (
        ("layers", model.layers, pipeline), ("devices", job.devices, job.inside * pipeline), ("batch", job.batch, data),
    ):  # fmt: skip
        if not part or whole % part:
            raise ScenarioError(f"{name} {whole} is not a multiple of {part}; give a multiple, or another pipeline")
    use = figures(job.host)
    forward, backward = _layer(job, way, use)
    kernels, network = builder(job, use)
    top, layers = head(job, kernels, _slice(job, "tensor")), model.layers // pipeline
    slot = layers * (sum(forward) + sum(backward)) + sum(top)
    summed = _summed_s(job, way, network, layers, data)
    behind = max(summed - use.hidden * layers * sum(backward), summed / layers) if data > 1 else 0.0
    fill = (pipeline - 1) * layers * (sum(forward) + sum(backward))
    seconds = job.batch // data * slot + fill + behind + use.step_s
    return Step(seconds, job.tokens / seconds, forward[0] + backward[0], forward[1] + backward[1])


def _experts_of(job: Job) -> int:
    if job.model.moe is None:
        raise ScenarioError(f"{job.model.name} has no experts; give a mixture of experts")
    return job.model.moe.active


def _slice(job: Job, attention: str) -> Slice:
    """What a device has of a sequence: heads of all its tokens, or all heads of its tokens."""
    ranks = job.inside
    return Slice(ranks, True, 1, ranks, 1, 1) if attention == "tensor" else Slice(1, False, ranks, ranks, 1, 1)


def _layer(job: Job, way: Way, use: Figures) -> tuple[tuple[float, float], tuple[float, float]]:
    """Of forward and backward the seconds of computing, and what exchanges add."""
    kernels, network = builder(job, use)
    cut = _slice(job, way.attention)
    tokens = job.sequence / cut.context
    own = experts(job, kernels, network, cut, tokens)
    parts = mixer(job, kernels, cut, tokens)[0].plus(light(job, kernels, cut, tokens)[0]).plus(own.parts)
    exchange, gather = dispatch_s(job, use)
    sent = {"exchange": exchange, "gather": gather, "least": min(exchange, gather)}[way.dispatch]
    sent += _attention_s(job, way, network)
    forward = max(parts.forward, use.forward_s + use.moe_s)
    backward = max(parts.inputs + parts.weights, use.backward_s + 1.5 * use.moe_s)
    if not way.overlapped:
        return (forward, sent), (backward, sent)
    return tuple((each, max(use.beside * sent, sent - each)) for each in (forward, backward))  # type: ignore[return-value]


def _attention_s(job: Job, way: Way, network: Network) -> float:
    """An all-gather with a reduce-scatter of all tokens, or all-to-alls of queries, keys, values and outputs."""
    model, ranks = job.model, job.inside
    whole = 2.0 * job.sequence * model.hidden
    if way.attention == "tensor":
        return float(network.reduce(whole, ranks, 1))
    moved = whole / ranks * (2 + 2 * model.kv_heads / model.heads)
    return float(network.exchange(moved, ranks, 1, 1, once=False))


def _summed_s(job: Job, way: Way, network: Network, layers: int, data: int) -> float:
    """Seconds to sum a stage's gradients over servers and to gather its weights again; attention that every device
    of a server has whole is summed inside the server, too.
    """
    model, ranks, moe = job.model, job.inside, job.model.moe
    assert moe is not None
    attention = layers * model.attention_parameters
    values = (layers * moe.experts * model.expert_parameters + attention) / ranks
    seconds = network.scatter((way.gradient_bytes + 2.0) * values, data, ranks)
    if way.attention == "sequence":
        seconds = seconds + network.scatter((way.gradient_bytes + 2.0) * attention, ranks, 1)
    return float(seconds)
