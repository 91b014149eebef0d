"""Step costs of DistServe's artefact: the lines that its authors fitted to prompts and to decodes on A100-80GB.

LLMServe/DistServe (Apache-2.0) at 82831f1, simdistserve/estimators/profile_data: profiler-a100-80g.distserve.json and
.vllm.json.
A step of prompts takes a + b·Σ tokens + c·Σ tokens², one of decodes a + b·Σ context + c·decodes, by other lines from
95 decodes on. In p stages each stage takes a p-th of a microbatch's time, and p ms besides where it has prompts.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from poise.core.errors import ScenarioError
from poise.core.estimate import Piece, StepShape
from poise.core.spec import BITS, Pool
from poise.core.units import ps
from poise.cost.layout import swap

LARGE = 95
"""Decodes in a microbatch from which the lines of large batches hold."""
STAGE_MS = 1.0
"""What each stage takes longer for each stage that there is, where it has prompts."""


class Lines(NamedTuple):
    """Milliseconds: fixed, by the token, by the square of a prompt's tokens or by the decode."""

    prompts: tuple[float, float, float]
    few: tuple[float, float, float]
    many: tuple[float, float, float]


DISTSERVE: Mapping[str, Mapping[int, Lines]] = {
    "OPT-13B": {
        1: Lines((18.103, 0.10191, 7.1223e-6), (19.935, 6.2694e-4, 0.038507), (7.1662, 5.7980e-4, 0.15831)),
        2: Lines((14.743, 0.068577, 2.4496e-6), (13.295, 3.4109e-4, 0.062964), (10.639, 3.1183e-4, 0.085629)),
        4: Lines((12.062, 0.038081, 5.2262e-7), (10.256, 1.8787e-4, 0.032693), (10.484, 1.7121e-4, 0.045666)),
    },
    "OPT-66B": {
        2: Lines((43.059, 0.27423, 2.2478e-5), (48.288, 9.4243e-4, 0.12755), (28.728, 4.7448e-4, 0.29618)),
        4: Lines((29.442, 0.15135, 8.3175e-6), (30.760, 4.5195e-4, 0.063284), (27.471, 4.0468e-4, 0.12481)),
        8: Lines((25.491, 0.10659, 3.3911e-6), (23.155, 2.2691e-4, 0.048006), (21.718, 3.7581e-4, 0.089786)),
    },
}
VLLM: Mapping[str, Mapping[int, Lines]] = {
    "OPT-13B": {
        1: Lines((22.052, 0.14051, 8.0766e-6), (23.475, 5.9293e-4, 0.060727), (20.206, 4.9077e-4, 0.12)),
        2: Lines((27.441, 0.090545, 8.4521e-6), (24.541, 2.2440e-4, 0.087158), (17.948, 4.5709e-4, 0.11179)),
        4: Lines((30.536, 0.051506, 4.2325e-7), (25.901, 7.7536e-5, 0.055281), (23.884, 2.8400e-4, 0.062765)),
    },
    "OPT-66B": {
        4: Lines((42.965, 0.21287, 4.6010e-5), (39.582, 6.9457e-4, 0.13581), (40.860, 4.2649e-4, 0.19508)),
        8: Lines((38.931, 0.15737, 4.5317e-6), (31.176, 2.7557e-4, 0.067977), (29.088, 6.0277e-4, 0.13896)),
    },
}
"""By model and tensor ranks. vLLM's for OPT-66B in two ranks fall with a prompt's length, and are left out."""

ALIGNED: Mapping[str, tuple[float, float]] = {"DistServe": (1.1, 1.0), "vLLM": (1.4, 1.2)}
"""By what the artefact's last version multiplied its profiled lines of prompts and of decodes."""


def profiled(table: Mapping[str, Mapping[int, Lines]], engine: str) -> Mapping[str, Mapping[int, Lines]]:
    """A table of an engine as it was profiled, without the factors of `ALIGNED`."""
    prompts, decodes = ALIGNED[engine]

    def one(lines: Lines) -> Lines:
        slow, few, many = lines
        return Lines(_over(slow, prompts), _over(few, decodes), _over(many, decodes))

    return {model: {ranks: one(lines) for ranks, lines in known.items()} for model, known in table.items()}


def _over(line: tuple[float, float, float], factor: float) -> tuple[float, float, float]:
    first, second, third = line
    return first / factor, second / factor, third / factor


@dataclass(frozen=True, slots=True)
class PhaseLines:
    """A recipe of step costs, as `simulate` takes it.  table: `DISTSERVE` or `VLLM`."""

    table: Mapping[str, Mapping[int, Lines]]

    def build(self, pool: Pool) -> Phases:
        """The estimator of a pool; ScenarioError where no lines are known for its model and tensor ranks."""
        known = self.table.get(pool.model.name, {})
        if pool.tensor not in known:
            raise ScenarioError(
                f"pool: {pool.model.name} in {pool.tensor} tensor ranks has no lines; give ranks of {sorted(known)}"
            )
        return Phases(pool, known[pool.tensor])


class Phases:
    """One pool's step costs (`poise.core.estimate.Estimator`). A step with both is one of prompts and what the decodes
    add, without their fixed part; a microbatch has an equal part of a step, or its longest prompt.
    """

    window = 0

    def __init__(self, pool: Pool, lines: Lines) -> None:
        self.pool, self.lines = pool, lines

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, valid for any context."""
        stages = self.pool.pipeline
        prompts = [chunk for chunk in shape.chunks if chunk.tokens > 1 or not chunk.context]
        joined = [chunk for chunk in shape.chunks if chunk.tokens == 1 and chunk.context]
        running = shape.decodes + len(joined)
        decodes = max(1.0, running / stages) if running else 0.0
        part = decodes / running if running else 0.0
        fixed, by_token, each = self.lines.many if decodes >= LARGE else self.lines.few
        base = decodes * each + by_token * part * sum(chunk.context + 1 for chunk in joined)
        if prompts:
            start, token, square = self.lines.prompts
            work = [token * chunk.tokens + square * chunk.tokens**2 for chunk in prompts]
            base += start + max(sum(work) / stages, max(work)) + stages**2 * STAGE_MS * (stages > 1)
        elif running:
            base += fixed
        return Piece(max(ps(base / 1e3), 1), ps(by_token * part / 1e3))

    def kv_bytes(self, tokens: int) -> int:
        """Bytes of KV cache of one request, by the model's shape."""
        return self.pool.model.kv_bytes(tokens, BITS[self.pool.kv])

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds over all devices' PCIe links at once; ScenarioError where no bandwidth is stated."""
        return swap(self.pool, kv_bytes, runs)

    def describe(self) -> dict[str, object]:
        """The lines, in milliseconds."""
        return {"estimator": "phase lines", **self.lines._asdict()}
