"""The cost of a step: a lane's coefficients applied to a shape, fast enough for every batch change."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate, pairwise
from math import ceil
from typing import Protocol

from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.fast_tuple import made
from poise.core.power import capped, clocks
from poise.core.spec import BITS, Pool
from poise.core.units import NEVER
from poise.cost.coefficients import derive
from poise.cost.efficiency import Efficiencies
from poise.cost.expert_load import describe_load
from poise.cost.layout import check, kv_copies, swap
from poise.cost.sm_share import STARVED, Contention, slower
from poise.cost.spans import reach

FULL = (1.0, 1.0)
"""The clocks of devices without a power cap."""

Decodes = tuple[float, float, int, int]
"""Decodes with chunks: tokens of a rank, their fixed picoseconds, those per KV token and per KV token in a window."""


class Costs(Protocol):
    """What a lane's operators cost in picoseconds, tokens being a rank's: what `Steps` adds up.

    step, sequence: host and sampler time of a step, and per sequence in it.
    """

    @property
    def step(self) -> float: ...  # noqa: D102

    @property
    def sequence(self) -> float: ...  # noqa: D102

    @property
    def scan(self) -> float:
        """All linear-attention layers' walk over one token of a single chunk; 0 without such layers."""
        ...

    def walk(self, longest: float, tokens: float) -> float:
        """All linear-attention layers' walk over chunks of `tokens` tokens in all, the longest of `longest`."""
        ...

    def layer(self, tokens: float) -> float:
        """An average layer without attention beyond its fixed time."""
        ...

    def local(self, tokens: float) -> float:
        """What of `layer` are products of a rank's own tokens alone, beyond attention and routed experts."""
        ...

    def last(self, sampled: float) -> float:
        """The output head and the sampler."""
        ...

    def attention(self, tokens: int, context: int, window: int) -> float:
        """All layers' attention of `tokens` new tokens after `context` earlier ones."""
        ...

    def decoding(self, tokens: float) -> tuple[float, float, float]:
        """All layers' attention of `tokens` decodes: fixed, per KV token, per KV token in a window."""
        ...

    def beside(self, tokens: float) -> tuple[float, float, float]:
        """The same in a step with prompt work."""
        ...


class Steps:
    """One pool's step costs (`poise.core.estimate.Estimator`), added up from those of its operators.

    A step is host time, then layers one after another, then the output head for sampled tokens: every decode and every
    chunk that passes the last layer (engines compute a partial prompt's logits too, and drop them). A layer is its
    kernels' fixed times, dense GEMMs, routed experts, attention and communication, none overlapped.

    Approximations, besides those of `Coefficients` and `Shard`:
    data: requests are spread by number, as balancers do, so the fullest rank has ⌈n/data⌉ of n decodes or chunks; of
        the chunks' tokens it has 1/data, or what whole chunks leave no rank without (`_most`): all wait for it, while
        its routed experts are spread over all. A rank without requests computes a token all the same (a dummy batch).
        Each rank has a scheduler of its own, so host time grows with its own sequences.
    pipeline: the batch is cut into `pipeline` microbatches that follow one another, so a step is a microbatch's way
        through all layers with n/pipeline of the decodes, at least one, plus `pipeline` hops. Chunks spread over the
        microbatches, of which one has 1/pipeline of them or the longest: a chunk passes all stages whole. Beside data
        ranks every microbatch is taken to have all chunks of its rank.
    layer ranges: a chunk with (first, last) passes layers first ≤ l < last; GEMMs are counted per stretch of layers
        over which the passing tokens do not change. A cover of all layers costs the unsplit chunk, with weights and
        host time as often as there are steps.
    power caps: a step with prompt work has the clock that the cap leaves to prompts, one without that of decodes
        (`poise.core.power`); the reads of decodes with prompts are bound by memory and as fast as alone.
    """

    __slots__ = (
        "_beside",
        "_calm",
        "_clocks",
        "_kept",
        "_lanes",
        "_layers",
        "_part_chunk",
        "_pieces",
        "_sharing",
        "_stages",
        "_state",
        "pool",
        "window",
    )

    def __init__(self, pool: Pool) -> None:
        check(pool)
        self.pool = pool
        self.window = reach(pool.model)
        self._layers = pool.model.layers
        bits, keys = BITS[pool.kv] / 8, pool.tensor
        self._kept = [
            (each, count * each.kv_values * bits * kv_copies(pool, each), count * keys if each.index else 0)
            for count, each in pool.model.attentions()
        ]
        self._state = pool.model.state_bytes
        self._part_chunk = 1 / pool.data
        self._stages = pool.pipeline if pool.data == 1 else 1
        self._clocks = clocks(pool)
        self._lanes: dict[float, Costs] = {}
        self._calm: dict[float, Costs] = {}
        self._pieces: dict[tuple[int, float], Piece] = {}
        self._beside: dict[tuple[int, float], Decodes] = {}
        self._sharing: Contention | None = None
        self._lane(1.0)

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, valid for any context: bytes and arithmetic of decode attention are both linear."""
        decodes, chunks, share = shape
        if chunks:
            return self._mixed(decodes, chunks, share)
        piece = self._pieces.get((decodes, share))
        return self._decode(decodes, share) if piece is None else piece

    def one_chunk(self, decodes: int, tokens: int, context: int) -> tuple[int, int]:
        """Base and per_kv of the step of one chunk through all layers on the whole device, with no shape to be made."""
        if self._part_chunk < 1.0 or self._stages > 1:
            piece = self._mixed(decodes, (Chunk(tokens, context),), 1.0)
            return piece.base, piece.per_kv
        k = self._lanes[1.0]
        beside, fixed, kv, _ = self._beside.get((decodes, 1.0)) or self._decodes_beside(k, decodes, 1.0)
        base = k.step + k.sequence * (decodes + 1) + fixed
        base += k.attention(tokens, context, self.window)
        base += self._layers * k.layer(beside + tokens) + k.last(beside + 1)
        if k.scan:
            base += k.walk(tokens, tokens)
        return round(base), kv

    def kv_bytes(self, tokens: int) -> int:
        """Bytes that `tokens` tokens of one request keep on all devices of its replica, copies and states included."""
        if tokens <= 0:
            return 0
        total = 0.0
        for each, entry, key in self._kept:
            total += each.kept(tokens) * entry
            if key:
                total += each.chosen(tokens) * key
        return ceil(total) + self._state

    def swap(self, kv_bytes: int, runs: int = 0) -> int:
        """Picoseconds to move `kv_bytes` over all devices' PCIe links at once; ScenarioError where none is stated."""
        return swap(self.pool, kv_bytes, runs)

    def _about(self, name: str) -> dict[str, object]:
        """How `describe` begins: the estimator's name and the pool."""
        pool = self.pool
        return {
            "estimator": name,
            "model": pool.model.name,
            "device": pool.device.name,
            "device_source": pool.device.source,
            "layout": {name: getattr(pool, name) for name in ("tensor", "pipeline", "data", "expert")},
            "weights": pool.weights,
            "kv": pool.kv,
            **({} if self._clocks == FULL else {"power_cap_w": pool.power_cap_w, "clocks": self._clocks}),
        }

    @property
    def sharing(self) -> Contention:
        """How lanes of the pool slow one another."""
        if self._sharing is None:
            device = self.pool.device
            math = self.on(replace(self.pool, device=slower(device, STARVED, 1.0)))
            memory = self.on(replace(self.pool, device=slower(device, 1.0, STARVED)))
            use = self.use
            self._sharing = Contention(
                self.step, math.step, memory.step, self.host, use.share_friction, use.share_switch_s
            )
        return self._sharing

    @property
    def use(self) -> Efficiencies:
        """What it counts with."""
        raise NotImplementedError

    def on(self, pool: Pool) -> Steps:
        """The estimator of another pool that counts as this one does."""
        raise NotImplementedError

    def _derive(self, pool: Pool, share: float) -> Costs:
        """The costs of a lane of `pool` that has `share` of the SMs."""
        raise NotImplementedError

    def _lane(self, share: float) -> Costs:
        """The costs of a lane in steps with prompt work, made once for each share."""
        found = self._lanes.get(share)
        if found is None:
            if not 0 < share <= 1:
                raise ValueError(f"share {share} is not in (0, 1]")
            found = self._lanes[share] = self._derive(self._at(self._clocks[0]), share)
        return found

    def _calm_lane(self, share: float) -> Costs:
        """The costs of a lane in steps without: the same, unless a cap slows prompts alone."""
        prompts, decodes = self._clocks
        if prompts == decodes:
            return self._lane(share)
        found = self._calm.get(share)
        if found is None:
            found = self._calm[share] = self._derive(self._at(decodes), share)
        return found

    def _at(self, clock: float) -> Pool:
        """The pool at a part of its clock."""
        return self.pool if clock == 1.0 else replace(self.pool, device=capped(self.pool.device, clock))

    def host(self, shape: StepShape) -> int:
        """Picoseconds of a step in which the device waits for the host."""
        return round(self._host(self._lanes[1.0], shape.decodes + len(shape.chunks)))

    def _host(self, k: Costs, sequences: int) -> float:
        """Host time of a step: each data rank schedules its own part of the sequences."""
        return k.step + k.sequence * self._fullest(sequences)

    def _fullest(self, requests: int) -> int:
        """The requests of the fullest data rank."""
        return -(-requests // self.pool.data)

    def _decode(self, decodes: int, share: float) -> Piece:
        """The piece of decodes alone, remembered."""
        k = self._calm_lane(share)
        if decodes == 0:
            piece = Piece(0)
        else:
            tokens = max(1.0, self._fullest(decodes) / self.pool.pipeline)
            fixed, kv, window_kv = k.decoding(tokens)
            base = self._host(k, decodes) + fixed + self._layers * k.layer(tokens) + k.last(tokens)
            rank = tokens / decodes
            piece = Piece(round(base), round(kv * rank), round(window_kv * rank))
        self._pieces[decodes, share] = piece
        return piece

    def _mixed(self, decodes: int, chunks: tuple[Chunk, ...], share: float) -> Piece:
        """The piece of decodes with chunks: their GEMMs are shared, their attention adds up."""
        k = self._lanes.get(share) or self._lane(share)
        _, _, first, last = chunks[0]
        if last and last - first != self._layers:
            return self._ranges(k, decodes, chunks, share)
        part = self._part_chunk if len(chunks) == 1 else self._spread(chunks)
        tokens, fixed, kv, window_kv = self._beside.get((decodes, share)) or self._decodes_beside(k, decodes, share)
        base = self._host(k, decodes + len(chunks)) + fixed
        new, attending, costliest = 0, 0.0, 0.0
        for count, context, first, last in chunks:
            if last and last - first != self._layers:
                return self._ranges(k, decodes, chunks, share)
            new += count
            one = k.attention(count, context, self.window)
            attending += one
            costliest = one if one > costliest else costliest
        base += self._part_chunk * (max(costliest, attending / self._stages) if self._stages > 1 else attending)
        base += self._layers * k.layer(tokens + new * part) + k.last(tokens + self._sampled(len(chunks), part))
        if self._part_chunk < 1.0:
            most = self._most([chunk.tokens for chunk in chunks])
            base += self._layers * self._longer(k, tokens, new, most) + self._alone(k, chunks)
        if k.scan:
            longest = max(chunk.tokens for chunk in chunks)
            base += k.walk(longest, max(new * part, longest))
        return made(Piece, (round(base), kv, window_kv, NEVER, None))

    def _decodes_beside(self, k: Costs, decodes: int, share: float) -> Decodes:
        """What decodes add to a step with chunks, remembered."""
        tokens = self._fullest(decodes) / self.pool.pipeline
        if 0.0 < tokens < 1.0:
            tokens = 1.0
        fixed, kv, window_kv = k.beside(tokens) if decodes else (0.0, 0.0, 0.0)
        rank = tokens / decodes if decodes else 0.0
        found = self._beside[decodes, share] = (tokens, fixed, round(kv * rank), round(window_kv * rank))
        return found

    def _spread(self, chunks: tuple[Chunk, ...]) -> float:
        """The part of all chunks that a rank's microbatch has: an even one, and no less than the longest chunk."""
        if self._stages == 1 or len(chunks) == 1:
            return self._part_chunk
        new = sum(chunk.tokens for chunk in chunks)
        return max(1 / self._stages, max(chunk.tokens for chunk in chunks) / new)

    def _most(self, each: Sequence[float]) -> float:
        """What the fullest data rank has of chunks at least: of the k·data + 1 largest, k + 1 are on one rank."""
        if len(each) <= self.pool.data:
            return max(each)
        ranks, ordered = self.pool.data, sorted(each, reverse=True)
        return max(sum(ordered[k * ranks - k : k * ranks + 1]) for k in range(self._fullest(len(each))))

    def _sampled(self, chunks: int, part: float) -> float:
        """Chunks of which the fullest rank computes logits; `part` of them in a microbatch of a pipeline."""
        return self._fullest(chunks) if self._part_chunk < 1.0 else chunks * part

    def _longer(self, k: Costs, tokens: float, new: int, most: float) -> float:
        """What a layer takes longer on a rank with `most` tokens of chunks than with `new` spread evenly."""
        even = new * self._part_chunk
        return k.local(tokens + most) - k.local(tokens + even) if most > even else 0.0

    def _alone(self, k: Costs, chunks: tuple[Chunk, ...]) -> float:
        """What attention takes longer on the fullest rank than spread evenly."""
        each = [self._passed(chunk) * k.attention(chunk.tokens, chunk.context, self.window) for chunk in chunks]
        return max(0.0, self._most(each) - self._part_chunk * sum(each))

    def _passed(self, chunk: Chunk) -> float:
        """The part of all layers that a chunk passes."""
        return ((chunk.last_layer or self._layers) - chunk.first_layer) / self._layers

    def _ranges(self, k: Costs, decodes: int, chunks: tuple[Chunk, ...], share: float) -> Piece:
        """`_mixed` where some chunk passes only some layers: GEMMs by stretches of layers with the same tokens."""
        layers, window = self._layers, self.window
        part = self._part_chunk if self._stages == 1 else self._spread(chunks)
        tokens, fixed, kv, window_kv = self._beside.get((decodes, share)) or self._decodes_beside(k, decodes, share)
        base = self._host(k, decodes + len(chunks)) + fixed
        finishing, new, attending, costliest = 0, 0, 0.0, 0.0
        _, _, begin, end = chunks[0]
        alike = True
        for count, context, first, last in chunks:
            alike = alike and first == begin and last == end
            last = last or layers
            if last == layers:
                finishing += 1
            new += count
            one = (last - first) / layers * k.attention(count, context, window)
            attending += one
            costliest = one if one > costliest else costliest
        base += self._part_chunk * (max(costliest, attending / self._stages) if self._stages > 1 else attending)
        end = end or layers
        alone = (0, begin, 0), (begin, end, new), (end, layers, 0)
        for low, high, passing in alone if alike else self._stretches(chunks):
            if passing or (decodes and low < high):
                base += (high - low) * k.layer(tokens + passing * part)
            if passing and self._part_chunk < 1.0:
                most = self._most([c.tokens for c in chunks if c.first_layer <= low < (c.last_layer or layers)])
                base += (high - low) * self._longer(k, tokens, passing, most)
        if self._part_chunk < 1.0:
            base += self._alone(k, chunks)
        if decodes or finishing:
            base += k.last(tokens + self._sampled(finishing, part))
        if k.scan:
            each = [self._passed(chunk) * chunk.tokens for chunk in chunks]
            base += k.walk(max(each), max(sum(each) * part, *each))
        return made(Piece, (round(base), kv, window_kv, NEVER, None))

    def stretches(self, shape: StepShape) -> list[tuple[int, float]]:
        """Layers that the same tokens of a step pass, and how many these are on all ranks together."""
        decodes, chunks, _ = shape
        if not chunks:
            return [(self._layers, float(decodes))]
        found = [(high - low, float(decodes + passing)) for low, high, passing in self._stretches(chunks)]
        return [each for each in found if each[1]]

    def _stretches(self, chunks: tuple[Chunk, ...]) -> list[tuple[int, int, int]]:
        """Stretches of layers in which the same tokens pass: the first layer, the one after the last, the tokens."""
        layers = self._layers
        change: dict[int, int] = {0: 0, layers: 0}
        for count, _, first, last in chunks:
            last = last or layers
            change[first] = change.get(first, 0) + count
            change[last] = change.get(last, 0) - count
        edges = sorted(change)
        passing = accumulate([change[edge] for edge in edges[:-1]])
        return [(low, high, tokens) for (low, high), tokens in zip(pairwise(edges), passing, strict=True)]


class RooflineEstimator(Steps):
    """Steps by closed forms: datasheet figures at stated efficiencies."""

    __slots__ = ("_use",)

    def __init__(self, pool: Pool, use: Efficiencies) -> None:
        self._use = use
        super().__init__(pool)

    @property
    def use(self) -> Efficiencies:
        """What it counts with."""
        return self._use

    def on(self, pool: Pool) -> RooflineEstimator:
        """The roofline of another pool."""
        return RooflineEstimator(pool, self._use)

    def _derive(self, pool: Pool, share: float) -> Costs:
        return derive(pool, self._use, share)

    def describe(self) -> dict[str, object]:
        """The pool, every efficiency with its source, and the whole device's coefficients in picoseconds."""
        coefficients = asdict(derive(self._at(self._clocks[0]), self._use, 1.0))
        return {
            **self._about("roofline"),
            "efficiencies": self._use.sources(),
            **describe_load(self.pool),
            "coefficients_ps": {name: value for name, value in coefficients.items() if name != "busiest"},
        }
