"""What a pool's operators cost by measured tables, gathered once so that a step is a few look-ups."""

from __future__ import annotations

from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.coefficients import Builder, Coefficients, windowed_pairs
from poise.cost.efficiency import Efficiencies
from poise.cost.gather import Gather
from poise.cost.grid import isotonic
from poise.cost.layout import kv_bytes_per_layer
from poise.cost.operator import TILE
from poise.cost.ramp import Line, Ramp, spread
from poise.cost.sm_share import reached, slower
from poise.cost.tables import Curve, Tables

MOST_TOKENS = 1 << 17
"""Tokens of a step up to which times are gathered; beyond, they go on as straight lines."""


class Curves:
    """A lane's costs (`poise.cost.step.Costs`), in picoseconds.

    GEMMs, attention, experts and all-reduces come from tables; what tables lack (light kernels, linear attention, hops,
    expert exchange, the sampler, the host) from the roofline's coefficients.
    """

    __slots__ = (
        "_floor",
        "_heads",
        "_last",
        "_layer",
        "_lines",
        "_local",
        "_mixed",
        "_read",
        "_rest",
        "_surface",
        "curves",
        "pool",
        "sequence",
        "step",
    )

    def __init__(self, pool: Pool, use: Efficiencies, tables: Tables, share: float) -> None:
        self.pool = pool
        self.curves: dict[str, Curve] = {}
        self._rest: Coefficients = Builder(pool, use, share).build()
        self.step, self.sequence = self._rest.step, self._rest.sequence
        parts = reached(share, use.share_arithmetic), reached(share, use.share_bandwidth)
        gather = Gather(pool, use, tables, slower(pool.device, *parts), share)
        self.curves = gather.curves
        self._surface, self._heads = gather.surface(), pool.model.heads / pool.tensor
        self._floor, self._lines = gather.decoding(self._surface)
        self._mixed = gather.beside(self._surface, self._floor, self._lines)
        self._read = kv_bytes_per_layer(pool) / gather.device.memory_bw
        nodes = spread(MOST_TOKENS)
        floor = self._floor * gather.attending
        self._layer = Ramp(nodes, isotonic([SECOND * (gather.layer(m) + floor) for m in nodes]))
        self._local = Ramp(nodes, isotonic([SECOND * gather.local(m) for m in nodes]))
        sampled = spread(4096)
        self._last = Ramp(sampled, isotonic([SECOND * gather.last(m) for m in sampled]))

    def layer(self, tokens: float) -> float:
        """An average layer: its operators, light kernels and exchanges, and attention's fixed time."""
        return self._layer(tokens)

    def local(self, tokens: float) -> float:
        """An average layer's products of a rank's own tokens, routed experts apart."""
        return self._local(tokens)

    def last(self, sampled: float) -> float:
        """The output head and the sampler."""
        return self._last(sampled)

    def attention(self, tokens: int, context: int, window: int) -> float:
        """All layers' attention of a chunk beyond what `layer` holds already."""
        if self._surface is None:
            return self._rest.attention(tokens, context, window)
        model, total = self.pool.model, 0.0
        if model.full_layers:
            total += model.full_layers * self._chunk(tokens, context + (tokens + 1) / 2, context + tokens)
        if model.window_layers:
            span = windowed_pairs(tokens, context, window) / tokens
            total += model.window_layers * self._chunk(tokens, span, tokens + min(context, window - 1))
        return SECOND * total + self._rest.context * context

    def _chunk(self, tokens: int, span: float, read: int) -> float:
        """Seconds of one layer beyond its fixed time, of queries that see `span` keys each of `read` KV tokens."""
        assert self._surface is not None
        queries = self._heads * (tokens if tokens > TILE else TILE)
        found = self._surface.seconds(span if span > TILE else TILE, queries)
        read_s = self._read * read
        return (found if found > read_s else read_s) - self._floor

    def decoding(self, tokens: float) -> tuple[float, float, float]:
        """All layers' attention of decodes beyond what `layer` holds already."""
        return self._decodes(tokens, self._lines)

    def beside(self, tokens: float) -> tuple[float, float, float]:
        """The same in steps with prompt work."""
        return self._decodes(tokens, self._mixed)

    @property
    def scan(self) -> float:
        """All linear-attention layers' walk over one token of the longest chunk."""
        return self._rest.scan

    def _decodes(self, tokens: float, lines: tuple[Line | None, Line | None]) -> tuple[float, float, float]:
        fixed, slopes = self._rest.state * tokens, []
        for line, layers in zip(lines, (self.pool.model.full_layers, self.pool.model.window_layers), strict=True):
            if line is None:
                slopes.append(0.0)
                continue
            fixed += SECOND * layers * line.fixed(tokens)
            slopes.append(SECOND * layers * line.slope(tokens) / tokens)
        return fixed, slopes[0], slopes[1]
