"""MoE-Gen: on one device with its weights and KV on the host, each module runs on all tokens that it can get.

MoE-Gen (arXiv 2503.09716). Attention of B requests runs in micro-batches, then every expert once on all its tokens; so
an expert is fetched for many tokens instead of few. A plan is (B, ω, kept): requests, the part of them whose attention
runs on the host's CPU next to their KV, and weights kept on the device. A layer takes the longest path through its
tasks (section on the search), each resource (PCIe, device, CPU) doing one task after another. Routing is uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk
from poise.core.model import Model, Moe
from poise.core.spec import Device
from poise.cost.coefficients import windowed_pairs
from poise.cost.lines import Line

SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Parts of attention on the CPU that a search tries."""

PARTS = 8
"""Parts in which experts are fetched, each computed once it is there."""


class Plan(NamedTuple):
    """requests: decoding together.  on_cpu: ω, the part of attention that the CPU does.  kept: part of all experts'
    weights that stays on the device.
    """

    requests: int
    on_cpu: float = 0.0
    kept: float = 0.0


class Layer(NamedTuple):
    """Seconds of a layer's tasks; lines are in the KV tokens that decodes read, as if the device attended to all.

    weights: fetching what every token passes.  kv: fetching the KV that is read.  dense: attention, and products
    outside experts, on the device.  cpu: the CPU's attention to one KV token.  fetch, experts: fetching and computing
    experts.  out: new KV on its way to the host, for which the link has another direction.
    """

    weights: float
    kv: Line
    dense: Line
    cpu: float
    fetch: float
    experts: float
    out: float

    def lines(self, on_cpu: float | None) -> list[Line]:
        """What a layer keeps each resource busy with; it takes the largest once all are under way.

        Fetches wait for nothing, so the link is one loop. The other is the device's: experts wait for attention there
        and on the CPU, and the next attention for the experts.
        on_cpu: ω; None: the shortest at each number K of KV tokens. Let the link (or the device) take A, and a for
        each KV token that it has, and the CPU X and c. The layer is no shorter than A and X, nor than
        (cA + aX + acK)/(a + c), where both take equally long; of a linear program in ω there are no other bounds.
        """
        link = self.kv.plus(Line(self.weights + self.fetch))
        device, cpu = self.dense.plus(Line(self.experts)), Line(self.experts, self.cpu)
        if on_cpu is None:
            equal = [_equal(each, cpu) for each in (link, device) if each.per_kv and cpu.per_kv]
            return [Line(link.base), Line(device.base), Line(cpu.base), Line(self.out), *equal]
        near = [Line(each.base, each.per_kv * (1 - on_cpu)) for each in (link, device)]
        return [*near, Line(cpu.base, cpu.per_kv * on_cpu), Line(self.out)]

    def alone(self) -> list[Line]:
        """The paths through a layer that begins when the one before has ended and whose KV is in device memory."""
        fetched, part = self.weights + self.fetch / PARTS, self.experts / PARTS
        dense = self.dense.plus(Line(self.weights + self.experts))
        return [dense, Line(fetched + self.experts), Line(self.weights + self.fetch + part)]


def _equal(one: Line, two: Line) -> Line:
    """How long two resources take that share out KV tokens so that both take equally long."""
    a, c = one.per_kv, two.per_kv
    return Line((c * one.base + a * two.base) / (a + c), a * c / (a + c))


@dataclass(frozen=True, slots=True)
class Host:
    """What surrounds the device: bytes of memory, bytes per second at which the CPU reads KV, parts
    of the device's peaks that are reached.

    The default of `cpu_bw` is that of 16 threads of 6.2 GB/s each, as `bench/cpu_attention.c` measures one thread of an
    EPYC (Zen 5) by AVX2.
    """

    memory: float = 512e9
    cpu_bw: float = 100e9
    flops_part: float = 0.5
    bandwidth_part: float = 0.8


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A mixture of experts on one device, weights and KV on the host.

    weights, kv: bits of a value.  ScenarioError for a model without experts and a device without a link to the host.
    """

    model: Model
    device: Device
    host: Host = field(default_factory=Host)
    weights: float = 16
    kv: float = 16

    def __post_init__(self) -> None:
        if self.model.moe is None:
            raise ScenarioError(f"{self.model.name} has no experts to batch for; give a mixture of experts")
        if self.device.host_bw <= 0:
            raise ScenarioError(f"{self.device.name} states no link to the host; give host_bw")

    @property
    def moe(self) -> Moe:
        """The model's experts."""
        assert self.model.moe is not None
        return self.model.moe

    @property
    def expert_bytes(self) -> float:
        """Of one expert."""
        return self.model.expert_parameters * self.weights / 8

    @property
    def dense_bytes(self) -> float:
        """Of an average layer without routed experts."""
        experts = self.expert_bytes * self.moe.experts * self.moe.layers
        return (self.model.weight_bytes(self.weights) - experts) / self.model.layers

    @property
    def kv_bytes(self) -> float:
        """Of one token in an average layer, as far as layers keep every token."""
        model = self.model
        return model.kv_values_per_layer * self.kv / 8 * model.full_layers / model.layers

    @property
    def window_bytes(self) -> float:
        """Of one token in an average layer, as far as layers keep a window."""
        model = self.model
        return model.kv_values_per_layer * self.kv / 8 * model.window_layers / model.layers

    @property
    def memory_bw(self) -> float:
        """Bytes per second of device memory that are reached."""
        return self.device.memory_bw * self.host.bandwidth_part

    @property
    def flops(self) -> float:
        """Operations per second that are reached."""
        return self.device.bf16_flops * self.host.flops_part

    def touched(self, tokens: float) -> float:
        """Mean number of a layer's experts that `tokens` tokens use."""
        missed: float = (1 - self.moe.active / self.moe.experts) ** tokens
        return self.moe.experts * (1 - missed)

    def tokens_per_expert(self, tokens: float) -> float:
        """Tokens of an expert, in the mean."""
        return tokens * self.moe.active / self.moe.experts

    def knee(self) -> float:
        """Tokens of an expert from which its arithmetic takes as long as its fetch."""
        return self.expert_bytes / self.device.host_bw * self.flops / (2 * self.model.expert_parameters)

    def layer(self, decodes: int, chunks: Sequence[Chunk] = (), kept: float = 0.0) -> Layer:
        """An average layer of one token of each of `decodes` requests, and of prompts with them."""
        model, link, part = self.model, self.device.host_bw, self.moe.layers / self.model.layers
        tokens = decodes + sum(each.tokens for each in chunks)
        touched = part * self.touched(tokens) * self.expert_bytes
        experts = 2 * tokens * part * self.moe.active * model.expert_parameters
        dense = model.active_parameters / model.layers - part * self.moe.active * model.expert_parameters
        states = model.state_bytes / model.layers * (decodes + len(chunks))
        attended = 4 * model.heads * model.head_dim * self._pairs(chunks)
        return Layer(
            weights=self.dense_bytes / link,
            kv=Line((self.kv_bytes * sum(each.context for each in chunks) + states) / link, self.kv_bytes / link),
            dense=Line((2 * tokens * dense + attended) / self.flops, self.kv_bytes / self.memory_bw),
            cpu=self.kv_bytes / self.host.cpu_bw,
            fetch=touched * (1 - kept) / link,
            experts=max(experts / self.flops, touched / self.memory_bw),
            out=((self.kv_bytes + self.window_bytes) * tokens + states) / link,
        )

    def _pairs(self, chunks: Sequence[Chunk]) -> float:
        """Queries and keys that meet in an average layer."""
        model, found = self.model, 0.0
        for each in chunks:
            whole = each.tokens * each.context + each.tokens * (each.tokens + 1) / 2
            found += whole * model.full_layers / model.layers
            if model.window_layers:
                within = windowed_pairs(each.tokens, each.context, model.window)
                found += within * model.window_layers / model.layers
        return found

    def decode_s(self, plan: Plan, context: int) -> float:
        """Seconds of a token of every request in a plan, all KV on the host."""
        lines = self.layer(plan.requests, (), plan.kept).lines(plan.on_cpu)
        return self.model.layers * max(line.at(plan.requests * context) for line in lines)

    def prefill_s(self, requests: int, prompt: int, kept: float = 0.0) -> float:
        """Seconds of the prompts of `requests` requests, whose KV goes to the host meanwhile."""
        lines = self.layer(0, [Chunk(prompt, 0)] * requests, kept).lines(0.0)
        return self.model.layers * max(line.at(0) for line in lines)

    def model_based_s(self, requests: int, context: int) -> float:
        """Seconds of a token where the whole model runs on one batch whose KV stays on the device."""
        return self.model.layers * max(line.at(requests * context) for line in self.layer(requests).alone())

    @property
    def bytes_by_head(self) -> float:
        """Of one token's keys and values in all layers where each head has its own; a latent is unfolded."""
        mla = self.model.mla
        if mla is None:
            return self._token_bytes()
        values = self.model.heads * (mla.nope_dim + mla.rope_dim + mla.value_dim)
        return self.model.layers * values * self.kv / 8

    def streamed(self, context: int) -> float:
        """Tokens per second where each layer's weights, all experts included, come before it runs, and nothing runs
        meanwhile; keys and values are kept by head in what is left of 0.9 of the device. So vLLM offloaded weights, and
        kept DeepSeek-V2's KV, at the paper's time.
        """
        free = 0.9 * self.device.memory_bytes - self.dense_bytes - self.moe.experts * self.expert_bytes
        requests = max(1, int(free / (self.bytes_by_head * context)))
        layer, model = self.layer(requests), self.model
        fetched = self.dense_bytes + self.moe.experts * self.expert_bytes * self.moe.layers / model.layers
        read = requests * context * self.bytes_by_head / model.layers / self.memory_bw
        return requests / (model.layers * (fetched / self.device.host_bw + layer.dense.base + layer.experts + read))

    def device_tokens(self) -> float:
        """Tokens whose KV fits the device next to one layer's weights: at least a tenth of its memory."""
        free = 0.9 * self.device.memory_bytes - self.dense_bytes - self.moe.experts * self.expert_bytes
        return max(free, 0.1 * self.device.memory_bytes) / self._token_bytes()

    def host_tokens(self, sequences: int = 0) -> float:
        """Tokens whose KV fits the host next to all weights and the constant states of `sequences`; 0 or less: none."""
        taken = self.model.weight_bytes(self.weights) + sequences * self.model.state_bytes
        return (self.host.memory - taken) / self._token_bytes()

    def model_batch(self, context: int) -> int:
        """Requests whose KV fits the device next to one layer's weights."""
        return max(1, int(self.device_tokens() / context))

    def host_batch(self, context: int) -> int:
        """Requests whose KV fits the host next to all weights."""
        return max(1, int(self.host_tokens() / context))

    def best(self, context: int, shares: Iterable[float] = SHARES) -> Plan:
        """The plan with the most tokens per second: requests by powers of two up to the host's memory, all shares."""
        most, sizes = self.host_batch(context), [1]
        while sizes[-1] * 2 <= most:
            sizes.append(sizes[-1] * 2)
        plans = [Plan(n, share, kept) for n, share, kept in product(sizes, shares, (0.0, self.keepable()))]
        return max(plans, key=lambda plan: plan.requests / self.decode_s(plan, context))

    def keepable(self) -> float:
        """The part of all experts that fits half of the device."""
        return min(1.0, 0.5 * self.device.memory_bytes / (self.moe.experts * self.moe.layers * self.expert_bytes))

    def _token_bytes(self) -> float:
        """Bytes of a token's KV in all layers; what leaves a window is counted as if it stayed."""
        return (self.kv_bytes + self.window_bytes) * self.model.layers


class Decoding(NamedTuple):
    """Tokens per second of a plan, of the whole model on one batch, of `Offloaded.streamed`; on_cpu: ω of the plan."""

    rate: float
    whole: float
    streamed: float
    on_cpu: float


def decoding(
    model: Model, device: Device, context: int, on_cpu: float | None = None, cpu_bw: float = 100e9
) -> Decoding:
    """The best plan, or it with another ω, beside the whole model on as many requests as the device holds."""
    engine = Offloaded(model, device, Host(cpu_bw=cpu_bw))
    plan = engine.best(context)
    plan = plan if on_cpu is None else plan._replace(on_cpu=on_cpu)
    few = engine.model_batch(context)
    whole = few / engine.model_based_s(few, context)
    rate = plan.requests / engine.decode_s(plan, context)
    return Decoding(rate, whole, engine.streamed(context), plan.on_cpu)


def full_rate(model: Model, device: Device, context: int, requests: int) -> float:
    """Tokens per second of so many requests with the best ω in `SHARES`."""
    engine = Offloaded(model, device)
    plans = (Plan(requests, share, engine.keepable()) for share in SHARES)
    return max(requests / engine.decode_s(plan, context) for plan in plans)


def saturation(model: Model, device: Device) -> float:
    """Tokens of an expert, by powers of two of requests without KV, from which on decoding has 0.9 of its most; over
    those at which its arithmetic takes as long as its fetch."""
    engine = Offloaded(model, device)
    batches = [2**at for at in range(4, 21)]
    rates = [each / engine.decode_s(Plan(each, 1.0), 1) for each in batches]
    first = next(each for each, rate in zip(batches, rates, strict=True) if rate >= 0.9 * rates[-1])
    return engine.tokens_per_expert(first) / engine.knee()


def prefill_gain(model: Model, device: Device, prompt: int, batch: int = 64) -> float:
    """How many times as fast as in batches of `batch` prompts are computed in one that fills the host."""
    engine = Offloaded(model, device)
    whole = engine.host_batch(prompt)
    return whole / engine.prefill_s(whole, prompt) / (batch / engine.prefill_s(batch, prompt))
