"""The cost of a step: a lane's coefficients applied to a shape, fast enough to be asked at every batch change."""

from __future__ import annotations

from dataclasses import asdict
from itertools import pairwise
from math import ceil

from poise.core.estimate import Chunk, Piece, StepShape
from poise.core.spec import BITS, Pool
from poise.cost.coefficients import Coefficients, derive
from poise.cost.efficiency import Efficiencies
from poise.cost.layout import check, kv_copies, swap


def windowed_pairs(tokens: int, context: int, window: int) -> int:
    """Query-key pairs of `tokens` queries after `context` tokens, each seeing itself and at most `window` keys.

    Σ_{i=1..c} min(x + i, W): the first a = clamp(W − x, 0, c) queries see everything, the others W keys.
    """
    whole = window - context
    whole = 0 if whole < 0 else tokens if whole > tokens else whole
    return whole * context + whole * (whole + 1) // 2 + (tokens - whole) * window


class RooflineEstimator:
    """One pool's step costs (`poise.core.estimate.Estimator`), by closed forms in picoseconds.

    A step is host time, then layers one after another, then the output head for sampled tokens: every decode and every
    chunk that passes the last layer (engines compute a partial prompt's logits too, and drop them). A layer is its
    kernels' fixed times, dense GEMMs, routed experts, attention and communication, none overlapped.

    Approximations, beside those of `Coefficients` and `Shard`:
    data: attention ranks are equally loaded: a rank has n/data of the decodes, at least one, and 1/data of each chunk.
    pipeline: the batch is cut into `pipeline` microbatches that follow one another, so a step is a microbatch's way
        through all layers with n/pipeline of the decodes, at least one, plus `pipeline` hops. A chunk passes all stages
        whole: one prompt's latency is right, but several prompts' overlap in different stages is not counted.
    layer ranges: a chunk with (first, last) passes layers first ≤ l < last; GEMMs are counted per stretch of layers
        over which the passing tokens do not change. A cover of all layers costs the unsplit chunk, with weights and
        host time as often as there are steps.
    """

    __slots__ = ("_lanes", "_layers", "_part_chunk", "_part_decode", "_pieces", "_use", "pool", "window")

    def __init__(self, pool: Pool, use: Efficiencies) -> None:
        check(pool)
        self.pool = pool
        self.window = pool.model.window if pool.model.window_layers else 0
        self._use = use
        self._layers = pool.model.layers
        self._part_chunk = 1 / pool.data
        self._part_decode = 1 / (pool.data * pool.pipeline)
        self._lanes: dict[float, Coefficients] = {}
        self._pieces: dict[tuple[int, float], Piece] = {}
        self._lane(1.0)

    def step(self, shape: StepShape) -> Piece:
        """The piece of `shape`, valid for any context: bytes and arithmetic of decode attention are both linear."""
        decodes, chunks, share = shape
        if chunks:
            return self._mixed(decodes, chunks, share)
        piece = self._pieces.get((decodes, share))
        return self._decode(decodes, share) if piece is None else piece

    def kv_bytes(self, tokens: int) -> int:
        """Bytes that `tokens` tokens of one request keep on all devices of its replica, copies and states included."""
        if tokens <= 0:
            return 0
        state = self.pool.model.state_bytes
        rows = self.pool.model.kv_bytes(tokens, BITS[self.pool.kv]) - state
        return ceil(rows * kv_copies(self.pool)) + state

    def swap(self, kv_bytes: int) -> int:
        """Picoseconds to move `kv_bytes` over all devices' PCIe links at once; ScenarioError where none is stated."""
        return swap(self.pool, kv_bytes)

    def describe(self) -> dict[str, object]:
        """The pool, every efficiency with its source, and the whole device's coefficients in picoseconds."""
        pool = self.pool
        return {
            "estimator": "roofline",
            "model": pool.model.name,
            "device": pool.device.name,
            "device_source": pool.device.source,
            "layout": {name: getattr(pool, name) for name in ("tensor", "pipeline", "data", "expert")},
            "weights": pool.weights,
            "kv": pool.kv,
            "efficiencies": self._use.sources(),
            "coefficients_ps": asdict(self._lane(1.0)),
        }

    def _lane(self, share: float) -> Coefficients:
        """The coefficients of a lane, made once for each share."""
        found = self._lanes.get(share)
        if found is None:
            if not 0 < share <= 1:
                raise ValueError(f"share {share} is not in (0, 1]")
            found = self._lanes[share] = derive(self.pool, self._use, share)
        return found

    def _decode(self, decodes: int, share: float) -> Piece:
        """The piece of decodes alone, remembered."""
        k = self._lane(share)
        if decodes == 0:
            piece = Piece(0)
        else:
            tokens = max(1.0, decodes * self._part_decode)
            base = (
                k.step + k.sequence * decodes + k.state * tokens + self._layers * _layer(k, tokens) + _head(k, tokens)
            )
            rank = tokens / decodes
            piece = Piece(round(base), round(k.kv * rank), round(k.window_kv * rank))
        self._pieces[decodes, share] = piece
        return piece

    def _mixed(self, decodes: int, chunks: tuple[Chunk, ...], share: float) -> Piece:
        """The piece of decodes beside chunks: their GEMMs are shared, their attention adds up."""
        k = self._lanes.get(share) or self._lane(share)
        part, alone = self._part_chunk, self._pieces.get((decodes, share)) or self._decode(decodes, share)
        tokens = decodes * self._part_decode
        if 0.0 < tokens < 1.0:
            tokens = 1.0
        base = k.step + k.sequence * (decodes + len(chunks)) + k.state * tokens
        new = 0
        for count, context, first, last in chunks:
            if last and last - first != self._layers:
                return self._ranges(k, decodes, tokens, chunks, alone)
            new += count
            base += part * _attention(k, count, context, self.window)
        base += self._layers * _layer(k, tokens + new * part) + _head(k, tokens + len(chunks) * part)
        return Piece(round(base), alone.per_kv, alone.per_window)

    def _ranges(self, k: Coefficients, decodes: int, tokens: float, chunks: tuple[Chunk, ...], alone: Piece) -> Piece:
        """`_mixed` where some chunk passes only some layers: GEMMs by stretches of layers with the same tokens."""
        layers, part = self._layers, self._part_chunk
        base = k.step + k.sequence * (decodes + len(chunks)) + k.state * tokens
        change: dict[int, int] = {0: 0, layers: 0}
        finishing = 0
        for count, context, first, last in chunks:
            last = last or layers
            finishing += last == layers
            change[first] = change.get(first, 0) + count
            change[last] = change.get(last, 0) - count
            base += part * (last - first) / layers * _attention(k, count, context, self.window)
        edges = sorted(change)
        passing = 0
        for low, high in pairwise(edges):
            passing += change[low]
            if decodes or passing:
                base += (high - low) * _layer(k, tokens + passing * part)
        if decodes or finishing:
            base += _head(k, tokens + finishing * part)
        return Piece(round(base), alone.per_kv, alone.per_window)


def _layer(k: Coefficients, tokens: float) -> float:
    """Picoseconds of an average layer without attention, for `tokens` tokens a rank."""
    dense = k.token * tokens
    total = k.fixed + k.linear * tokens + (dense if dense > k.weights else k.weights)
    if k.expert_weights:
        touched = k.expert_weights * (1.0 - k.miss ** (tokens * k.ranks))
        math = k.expert_token * tokens
        total += math if math > touched else touched
    if k.reduce:
        fixed, slope, other, rise = k.reduce
        one, two = fixed + slope * tokens, other + rise * tokens
        total += one if one < two else two
    return total


def _head(k: Coefficients, sampled: float) -> float:
    """Picoseconds of the output head and the sampler for `sampled` tokens a rank."""
    math = k.head_token * sampled
    return k.head_fixed + k.sample * sampled + (math if math > k.head_weights else k.head_weights)


def _attention(k: Coefficients, tokens: int, context: int, window: int) -> float:
    """Picoseconds of all layers' attention of `tokens` new tokens after `context` earlier ones, on one rank.

    Each layer kind takes the larger of its query-key pairs and of the KV that its queries span.
    """
    total = k.context * context
    if k.pair:
        math = k.pair * (tokens * context + tokens * (tokens + 1) // 2)
        read = k.read * (context + tokens)
        total += math if math > read else read
    if k.window_pair:
        math = k.window_pair * windowed_pairs(tokens, context, window)
        read = k.window_read * (tokens + (context if context < window else window - 1))
        total += math if math > read else read
    return total
