"""Seesaw: what prompts and decodes cost where each have a layout of their own, and the host keeps the KV.

Su et al. (arXiv 2503.06433). The devices of a pool change their layout between prompts and decodes, for which each
loads its part of the weights from the host. The batcher `seesaw` decides when, and brings KV back; this term gives the
cost.
`poise.cost.seesaw` has the closed form of the phases for equal requests.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import ClassVar, NamedTuple

from poise.core.errors import ScenarioError
from poise.core.estimate import Chunk, Estimator, Piece, StepShape, Store
from poise.core.spec import BITS, Pool
from poise.core.units import SECOND, ps
from poise.cost.estimator_wrapper import EstimatorWrapper
from poise.cost.memory import kv_blocks
from poise.cost.seesaw import Load, Offline, layouts, name

Build = Callable[[Pool], Estimator]


class _Recipe(NamedTuple):
    """The costs that the closed form needs."""

    build: Build


@dataclass(frozen=True, slots=True)
class Seesaw:
    """prefill, decode: layouts of the pool's devices, as in P8 and T4P2; empty: the two that are best together for
    equal requests of `prompt_tokens` and `output_tokens`, in closed form.  host_gb: the host's memory for KV, by device
    (80 in the paper).  sequences: most that decode at once; the engine's `max_sequences` are those of the store.
    """

    phases: ClassVar[bool] = True
    takes: ClassVar[tuple[str, ...]] = ("layout", "KV")
    prefill: str = ""
    decode: str = ""
    host_gb: float = 80.0
    sequences: int = 256
    prompt_tokens: int = 2000
    output_tokens: int = 200

    def __post_init__(self) -> None:
        if self.host_gb <= 0 or min(self.sequences, self.prompt_tokens, self.output_tokens) < 1:
            raise ScenarioError(
                f"{self}: host_gb, sequences, prompt_tokens and output_tokens are above 0; correct them"
            )

    def over(self, build: Build, pool: Pool) -> Estimator:
        """Steps of `pool` under two layouts; ScenarioError for a pool that cannot have them."""
        if pool.role != "mixed":
            raise ScenarioError(f"pool.role is {pool.role}: Seesaw goes from prompts to decodes and back; give mixed")
        if not pool.device.host_bw:
            raise ScenarioError(f"pool.device {pool.device.name} states no link to its host; give host_gb_s")
        work = self._work(build, pool)
        prefill, decode = self._pair(work, pool)
        return Reshaped(build(prefill), build(decode), self._store(work, prefill, decode), prefill, decode)

    def held(self, pool: Pool) -> Pool:
        """The pool with as many KV blocks as the host has memory for."""
        block = pool.model.kv_bytes_per_token(BITS[pool.kv]) * pool.engine.block_tokens
        blocks = int(self.host_gb * 1e9 * pool.devices / block) if block else 0
        if blocks < 1:
            raise ScenarioError(f"pool.model {pool.model.name}: host_gb {self.host_gb} keeps no KV block; give more")
        return replace(pool, engine=replace(pool.engine, kv_blocks=blocks))

    def _work(self, build: Build, pool: Pool) -> Offline:
        return Offline(Load(self.prompt_tokens, self.output_tokens), self.host_gb * 1e9 * pool.devices, _Recipe(build))

    def _pair(self, work: Offline, pool: Pool) -> tuple[Pool, Pool]:
        """The two layouts: those named, else the best with the other."""
        engine = replace(pool.engine, kv_blocks=0, max_sequences=self.sequences)  # of the devices, not of the store
        own = replace(pool, engine=engine)
        choices = {name(each): each for each in layouts(own, pool.tensor * pool.pipeline)}
        for given in (self.prefill, self.decode):
            if given and given not in choices:
                known = f"give one of {', '.join(choices)}" if choices else "none does; give more devices"
                raise ScenarioError(f"layout {given} does not fit {pool.devices} {pool.device.name}; {known}")
        if not choices:
            raise ScenarioError(f"pool.model {pool.model.name} fits {pool.devices} {pool.device.name} in no layout")
        ones, twos = ([choices[given]] if given else [*choices.values()] for given in (self.prefill, self.decode))
        pairs = [(one, two) for one in ones for two in twos]
        return max(pairs, key=lambda pair: work.seesaw(*pair).rate)

    def _store(self, work: Offline, prefill: Pool, decode: Pool) -> Store:
        one, two = (0, 0) if prefill == decode else (ps(work.change_s(each)) for each in (prefill, decode))
        block = decode.model.kv_bytes_per_token(BITS[decode.kv]) * decode.engine.block_tokens
        return Store(kv_blocks(decode), self.sequences, one, two, ps(block / (decode.device.host_bw * decode.devices)))


class Reshaped(EstimatorWrapper):
    """Steps of prompts under one layout, of decodes under another.

    Prompts take the longest of their step, of KV on its way out and, on the safe side, of all earlier KV that they
    attend to on its way in: links to the host work both ways at once. What decodes add is copied out meanwhile at no
    cost.
    """

    def __init__(self, prefill: Estimator, decode: Estimator, store: Store, *layouts: Pool) -> None:
        super().__init__(decode)
        self.prefill, self.kept, self.layouts = prefill, store, layouts
        pool = layouts[1]
        bandwidth = pool.device.host_bw * pool.devices
        self.token = pool.model.kv_bytes_per_token(BITS[pool.kv]) / bandwidth * SECOND
        self.layers = pool.model.layers

    @property
    def store(self) -> Store:
        """The host's memory, and what the devices take to use it."""
        return self.kept

    def step(self, shape: StepShape) -> Piece:
        """The piece of prompts or of decodes; ScenarioError for both together."""
        if not shape.chunks:
            return self.inner.step(shape)
        if shape.decodes:
            raise ScenarioError("term seesaw: a step has prompts or decodes, for they have layouts of their own")
        base = self.prefill.step(shape).at(0).base
        return Piece(max(base, self._moved(shape.chunks)))

    def _moved(self, chunks: tuple[Chunk, ...]) -> int:
        """Picoseconds of the busier way of the links."""
        out = back = 0.0
        for tokens, context, first, last in chunks:
            part = ((last or self.layers) - first) / self.layers
            out, back = out + tokens * part, back + context * part
        return round(max(out, back) * self.token)

    def describe(self) -> dict[str, object]:
        """What decoding costs, and the two layouts with their store."""
        facts = {"prefill": name(self.layouts[0]), "decode": name(self.layouts[1]), **self.kept._asdict()}
        return {**self.inner.describe(), "seesaw": facts}
