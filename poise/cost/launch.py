"""Steps that wait for the CPU to launch their kernels: the floor of an iteration, and when it gives way to the device.

Vellaisamy et al., "Characterizing and Optimizing LLM Inference Workloads on CPU-GPU Coupled Architectures" (SKIP,
arXiv 2504.11750). TKLQT is the time from each launch call to the start of its kernel, summed over kernels. It stays
flat over the batch while the CPU binds and grows where kernels queue; the batch between is the transition. Engines
that capture graphs launch a step's kernels at once: their `kernels` is the number of graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from poise.core.errors import UserError
from poise.core.spec import Pool
from poise.cost.one_step import step_s
from poise.cost.roofline import Roofline


class Iteration(NamedTuple):
    """latency_s: until the last kernel ends.  tklqt_s: from launch calls to starts, summed.  idle_s: of the device."""

    latency_s: float
    tklqt_s: float
    idle_s: float


def played(kernels_s: Sequence[float], launch_s: float, path_s: float = 0.0) -> Iteration:
    """An iteration of kernels that last so long: one is launched each `launch_s`, and may start `path_s` later."""
    if launch_s < 0 or path_s < 0:
        raise UserError(f"launch_s {launch_s} and path_s {path_s} are durations; give 0 or more")
    end = waited = 0.0
    for index, lasting in enumerate(kernels_s):
        called = index * launch_s
        start = max(called + launch_s + path_s, end)
        waited += start - called
        end = start + lasting
    return Iteration(end, waited, end - sum(kernels_s))


def floor_s(kernels: int, launch_s: float) -> float:
    """No iteration is shorter than its launches: kernels × launch."""
    return kernels * launch_s


def bound_s(device_s: float, kernels: int, launch_s: float) -> float:
    """An iteration's time in closed form: the larger of the device's work and of the launches."""
    return max(device_s, floor_s(kernels, launch_s))


def transition(device_s: Callable[[int], float], kernels: int, launch_s: float, most: int = 4096) -> int:
    """The least batch up to `most` at which the device takes as long as the launches (most + 1: none); by bisection.

    device_s: the device's work of a batch, which does not fall with it.
    """
    low, high = 1, most + 1
    while low < high:
        batch = (low + high) // 2
        if device_s(batch) >= floor_s(kernels, launch_s):
            high = batch
        else:
            low = batch + 1
    return low


@dataclass(frozen=True, slots=True)
class Prefill:
    """A step of `batch` prompts whose kernels take equally long, by the roofline without host time; seconds."""

    pool: Pool
    launch_s: float
    kernels: int
    prompt_tokens: int
    batch: int = 1

    def work_s(self, batch: int) -> float:
        """The device's part of a step of so many prompts."""
        bare = Roofline(cpu_step_s=0.0, cpu_sequence_s=0.0)
        return step_s(self.pool, prompts=batch, prompt_tokens=self.prompt_tokens, roofline=bare)

    def time_s(self) -> float:
        """The whole iteration."""
        return bound_s(self.work_s(self.batch), self.kernels, self.launch_s)

    def tklqt_s(self, batch: int) -> float:
        """TKLQT of an iteration of so many prompts that is played through."""
        return played([self.work_s(batch) / self.kernels] * self.kernels, self.launch_s).tklqt_s

    def knee(self) -> int:
        """The least batch at which the device takes as long as the launches."""
        return transition(self.work_s, self.kernels, self.launch_s)

    def before(self) -> float:
        """TKLQT just below that batch, over that of a single prompt."""
        return self.tklqt_s(max(self.knee() - 1, 1)) / self.tklqt_s(1)

    def beyond(self) -> float:
        """TKLQT of four times that batch, over that of a single prompt."""
        return self.tklqt_s(4 * self.knee()) / self.tklqt_s(1)
