"""Seesaw: prompts under one layout, decoding under another, with a host's memory for KV between the two.

Su et al. (arXiv 2503.06433). Stages suit prefill, which all-reduces of tensor groups hold up; tensor groups suit
decoding, which reads all weights once a microbatch. Devices change their layout only when the host's store is full (to
decode) or empty (to prefill); weights are loaded again from the host, KV changes its shards on the way through it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from typing import NamedTuple

from poise.core.errors import CapacityError, ScenarioError
from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND
from poise.cost.memory import kv_blocks
from poise.cost.roofline import Roofline
from poise.cost.term import Recipe

MICROBATCH = 2048
"""Prompt tokens that a stage has at once, at least: enough for a device's arithmetic to bind."""


class Load(NamedTuple):
    """Equal requests of an offline batch: tokens of prompt and output."""

    prompt: int
    output: int


class Phases(NamedTuple):
    """Seconds of one round: prompts, decoding, both changes of layout; and the requests that it serves."""

    prefill_s: float
    decode_s: float
    change_s: float
    requests: float

    @property
    def rate(self) -> float:
        """Requests per second."""
        return self.requests / (self.prefill_s + self.decode_s + self.change_s)


def layouts(pool: Pool, devices: int) -> Iterator[Pool]:
    """`pool` in each tensor × pipeline layout of its devices that leaves some room for KV."""
    for tensor in (each for each in range(1, devices + 1) if devices % each == 0):
        made = replace(pool, tensor=tensor, pipeline=devices // tensor)
        try:
            kv_blocks(made)
        except (CapacityError, ScenarioError):
            continue
        yield made


def name(pool: Pool) -> str:
    """A layout in short: T4P2."""
    return "".join(f"{letter}{n}" for letter, n in (("T", pool.tensor), ("P", pool.pipeline)) if n > 1) or "T1"


@dataclass(frozen=True, slots=True)
class Offline:
    """What a load costs on layouts of one pool.  host_bytes: the host's memory for KV, all devices together."""

    load: Load
    host_bytes: float
    cost: Recipe = field(default_factory=Roofline)

    def prefill_s(self, pool: Pool) -> float:
        """Seconds of a prompt where every stage has a microbatch."""
        together = pool.pipeline * ceil(MICROBATCH / self.load.prompt)
        shape = StepShape(0, (Chunk(self.load.prompt, 0),) * together)
        return self.cost.build(pool).step(shape).base / SECOND / together

    def decode_s(self, pool: Pool) -> float:
        """Seconds of a request's output where as many decode as the devices hold."""
        running, estimator = self.running(pool), self.cost.build(pool)
        return self.load.output * self._step_s(estimator, StepShape(running)) / running

    def running(self, pool: Pool) -> int:
        """Requests that decode at once: those whose KV fits half-way through, no more than the engine takes."""
        tokens = kv_blocks(pool) * pool.engine.block_tokens
        return max(1, min(int(tokens / (self.load.prompt + self.load.output / 2)), pool.engine.max_sequences))

    def static(self, pool: Pool) -> float:
        """Requests per second under one layout with chunked prefill, in the steady state.

        With n decodes each step has the prompt tokens of n requests, spread over their outputs.
        """
        running, estimator = self.running(pool), self.cost.build(pool)
        new = running * self.load.prompt / self.load.output
        chunks = _chunks(new, self.load.prompt, pool.pipeline)
        return running / self.load.output / self._step_s(estimator, StepShape(running, chunks))

    def unmixed(self, pool: Pool) -> float:
        """Requests per second under one layout whose steps are prompts alone or decodes alone."""
        return 1 / (self.prefill_s(pool) + self.decode_s(pool))

    def seesaw(self, prefill: Pool, decode: Pool) -> Phases:
        """A round: prompts until the host is full, a change, decoding until it is empty, a change back.

        KV leaves during prefill and returns during decoding, so each phase takes the longer of both.
        """
        kv = self.load.prompt * prefill.model.kv_bytes_per_token(BITS[prefill.kv])
        requests = self.host_bytes / kv
        moved = requests * kv / (prefill.device.host_bw * prefill.devices)
        changes = sum(self.change_s(each) for each in (prefill, decode))
        first = max(requests * self.prefill_s(prefill), moved)
        return Phases(first, max(requests * self.decode_s(decode), moved), changes, requests)

    def change_s(self, pool: Pool) -> float:
        """Seconds to load a layout's weights: each device its part over its own PCIe link."""
        return pool.weight_bytes / pool.devices / pool.device.host_bw

    def changes(self, requests: int, pool: Pool) -> int:
        """Changes of layout over `requests` requests: two for each fill of the host."""
        kv = requests * self.load.prompt * pool.model.kv_bytes_per_token(BITS[pool.kv])
        return 2 * ceil(kv / self.host_bytes)

    def best(self, choices: Sequence[Pool]) -> tuple[Pool, Pool]:
        """The two layouts of the highest rate."""
        pairs = [(one, two) for one in choices for two in choices]
        return max(pairs, key=lambda pair: self.seesaw(*pair).rate)

    def _step_s(self, estimator: Estimator, shape: StepShape) -> float:
        context = self.load.prompt + self.load.output / 2
        piece = estimator.step(shape)
        return (piece.base + shape.decodes * context * piece.per_kv) / SECOND


def _chunks(new: float, prompt: int, stages: int) -> tuple[Chunk, ...]:
    """`new` prompt tokens as chunks of prompts, one a stage at least, which are half-way through in the mean."""
    count = max(stages, ceil(new / prompt))
    tokens = max(1, round(new / count))
    return (Chunk(tokens, max(0, (prompt - tokens) // 2)),) * count
