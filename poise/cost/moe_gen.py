"""MoE-Gen: on one device with its weights and KV on the host, each module runs on all tokens that it can get.

MoE-Gen (arXiv 2503.09716). Attention of B requests runs in micro-batches, then every expert once on all its tokens; so
an expert is fetched for many tokens instead of few. A plan is (B, ω, kept): requests, the part of them whose attention
runs on the host's CPU beside their KV, and weights kept on the device. A layer takes the longest path through its tasks
(section on the search), each resource (PCIe, device, CPU) doing one task after another. Routing is uniform.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import NamedTuple

from poise.core.errors import UserError
from poise.core.model import Model
from poise.core.spec import Device

BYTES = 2
"""Weights and KV in 16 bits."""

LAYERS = 4
"""Layers of a path: the last one's part of it is what a layer takes when all are under way."""


SHARES = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
"""Parts of attention on the CPU that a search tries."""


class Task(NamedTuple):
    """Seconds of a task, the resource that does it, and the tasks before it by their places."""

    seconds: float
    resource: str
    after: tuple[int, ...] = ()


def ends(tasks: Sequence[Task]) -> list[float]:
    """When each task ends: after those before it and after the last one of its resource; in the order given."""
    done: list[float] = []
    free: dict[str, float] = {}
    for task in tasks:
        begin = max([free.get(task.resource, 0.0), *(done[at] for at in task.after)])
        done.append(begin + task.seconds)
        free[task.resource] = done[-1]
    return done


class Plan(NamedTuple):
    """requests: decoding together.  on_cpu: ω, the part of attention that the CPU does.  kept: part of all experts'
    weights that stays on the device.
    """

    requests: int
    on_cpu: float = 0.0
    kept: float = 0.0


@dataclass(frozen=True, slots=True)
class Host:
    """What surrounds the device: bytes of memory, bytes per second at which the CPU reads KV, parts
    of the device's peaks that are reached.
    """

    memory: float = 512e9
    cpu_bw: float = 100e9
    flops_part: float = 0.5
    bandwidth_part: float = 0.8


@dataclass(frozen=True, slots=True)
class Offloaded:
    """A mixture of experts on one device, weights and KV on the host."""

    model: Model
    device: Device
    host: Host = field(default_factory=Host)

    def __post_init__(self) -> None:
        if self.model.moe is None:
            raise UserError(f"{self.model.name} has no experts to batch for; give a mixture of experts")
        if self.device.host_bw <= 0:
            raise UserError(f"{self.device.name} states no link to the host; give host_bw")

    @property
    def expert_bytes(self) -> float:
        """Of one expert."""
        return self.model.expert_parameters * BYTES

    @property
    def dense_bytes(self) -> float:
        """Of an average layer without routed experts."""
        moe = self.model.moe
        assert moe is not None
        return (self.model.parameters * BYTES - self.expert_bytes * moe.experts * moe.layers) / self.model.layers

    def touched(self, tokens: float) -> float:
        """Experts of a layer that some of so many tokens go to, in the mean."""
        moe = self.model.moe
        assert moe is not None
        missed: float = (1 - moe.active / moe.experts) ** tokens
        return moe.experts * (1 - missed)

    def tokens_per_expert(self, tokens: float) -> float:
        """Tokens of an expert, in the mean."""
        moe = self.model.moe
        assert moe is not None
        return tokens * moe.active / moe.experts

    def knee(self) -> float:
        """Tokens of an expert from which its arithmetic takes as long as its fetch."""
        flops = self.device.bf16_flops * self.host.flops_part
        return self.expert_bytes / self.device.host_bw * flops / (2 * self.model.expert_parameters)

    def decode_s(self, plan: Plan, context: int) -> float:
        """Seconds of a token of every request in a plan, all KV on the host."""
        return self.model.layers * self._layer_s(plan.requests, plan, context, kv=True)

    def prefill_s(self, requests: int, prompt: int, kept: float = 0.0) -> float:
        """Seconds of the prompts of so many requests, whose KV goes to the host beside them."""
        tokens = requests * prompt
        return self.model.layers * self._layer_s(tokens, Plan(requests, 0.0, kept), prompt, kv=False)

    def model_based_s(self, requests: int, context: int) -> float:
        """Seconds of a token where the whole model runs on one batch whose KV stays on the device."""
        reading = requests * context * self._kv_layer() / self._memory_bw()
        tasks = [Task(self._fetch(self.dense_bytes), "link"), Task(reading + self._math(requests), "device", (0,))]
        tasks += self._experts(requests, 0.0, len(tasks) - 1)
        return self.model.layers * ends(tasks)[-1]

    def model_batch(self, context: int) -> int:
        """Requests whose KV fits the device beside one layer's weights."""
        moe = self.model.moe
        assert moe is not None
        free = 0.9 * self.device.memory_bytes - self.dense_bytes - moe.experts * self.expert_bytes
        free = max(free, 0.1 * self.device.memory_bytes)
        return max(1, int(free / (context * self._kv_layer() * self.model.layers)))

    def host_batch(self, context: int) -> int:
        """Requests whose KV fits the host beside all weights."""
        free = self.host.memory - self.model.parameters * BYTES
        return max(1, int(free / (context * self._kv_layer() * self.model.layers)))

    def best(self, context: int, shares: Iterable[float] = SHARES) -> Plan:
        """The plan with the most tokens per second: requests by powers of two up to the host's memory, all shares."""
        most, sizes = self.host_batch(context), [1]
        while sizes[-1] * 2 <= most:
            sizes.append(sizes[-1] * 2)
        plans = [Plan(n, share, kept) for n, share, kept in product(sizes, shares, (0.0, self._keepable()))]
        return max(plans, key=lambda plan: plan.requests / self.decode_s(plan, context))

    def _keepable(self) -> float:
        """The part of all experts that fits half of the device."""
        moe = self.model.moe
        assert moe is not None
        return min(1.0, 0.5 * self.device.memory_bytes / (moe.experts * moe.layers * self.expert_bytes))

    def _layer_s(self, tokens: int, plan: Plan, context: int, kv: bool) -> float:
        times = [ends(self._path(tokens, plan, context, kv, layers))[-1] for layers in (LAYERS - 1, LAYERS)]
        return times[1] - times[0]

    def _path(self, tokens: int, plan: Plan, context: int, kv: bool, layers: int) -> list[Task]:
        """The tasks of some layers: weights, KV and attention in two places, then the experts; fetches run ahead."""
        tasks: list[Task] = []
        last: tuple[int, ...] = ()
        read = plan.requests * context * self._kv_layer()
        for _ in range(layers):
            tasks.append(Task(self._fetch(self.dense_bytes), "link"))
            weights = len(tasks) - 1
            near, far = read * (1 - plan.on_cpu), read * plan.on_cpu
            tasks.append(Task(self._fetch(near if kv else 0.0), "link"))
            attention = 0.0 if kv else self._prompt_math(tokens, context)
            work = near / self._memory_bw() + self._math(tokens) + attention
            tasks.append(Task(work, "device", (weights, weights + 1, *last)))
            tasks.append(Task(far / self.host.cpu_bw if kv else 0.0, "cpu", (weights, *last)))
            tasks += self._experts(tokens, plan.kept, len(tasks) - 1, len(tasks) - 2)
            last = (len(tasks) - 1,)
        return tasks

    def _experts(self, tokens: float, kept: float, *after: int) -> list[Task]:
        """Fetch and computation of the experts that are touched, in eight parts, each computed once it is there."""
        moe = self.model.moe
        assert moe is not None
        share, parts = moe.layers / self.model.layers, 8
        fetch = self._fetch(share * self.touched(tokens) * (1 - kept) * self.expert_bytes) / parts
        flops = 2 * tokens * moe.active * self.model.expert_parameters * share
        reading = share * self.touched(tokens) * self.expert_bytes / self._memory_bw()
        work = max(flops / (self.device.bf16_flops * self.host.flops_part), reading) / parts
        found, first = [], max(after) + 1
        for at in range(parts):
            found += [Task(fetch, "link"), Task(work, "device", (first + 2 * at, *after))]
        return found

    def _math(self, tokens: float) -> float:
        """Seconds of a layer's products outside routed experts."""
        return tokens * self.dense_bytes / BYTES * 2 / (self.device.bf16_flops * self.host.flops_part)

    def _prompt_math(self, tokens: float, prompt: int) -> float:
        flops = 2 * 2 * self.model.heads * self.model.head_dim * tokens * prompt / 2
        return flops / (self.device.bf16_flops * self.host.flops_part)

    def _kv_layer(self) -> float:
        return self.model.kv_values_per_layer * BYTES

    def _fetch(self, size: float) -> float:
        return size / self.device.host_bw

    def _memory_bw(self) -> float:
        return self.device.memory_bw * self.host.bandwidth_part
