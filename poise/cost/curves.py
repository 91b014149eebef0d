"""What a pool's operators cost by measured tables, gathered once so that a step is a few look-ups."""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost.coefficients import Coefficients, bounded
from poise.cost.efficiency import Efficiencies
from poise.cost.gather import Gather
from poise.cost.grid import isotonic
from poise.cost.layout import kv_bytes_per_layer
from poise.cost.operator import TILE
from poise.cost.ramp import Latent, Line, Ramp, Surface, spread
from poise.cost.sm_share import reached, slower
from poise.cost.spans import Span, prompt_s, reach
from poise.cost.tables import Curve, Tables

MOST_TOKENS = 1 << 17
"""Tokens of a step up to which times are gathered; beyond, they go on as straight lines."""


class Curves:
    """A lane's costs (`poise.cost.step.Costs`), in picoseconds.

    GEMMs, attention, experts and all-reduces come from tables; what tables lack (light kernels, linear attention, hops,
    expert exchange, the sampler, the host) from the roofline's coefficients.
    """

    __slots__ = (
        "_attended",
        "_last",
        "_layer",
        "_local",
        "_reach",
        "_rest",
        "curves",
        "pool",
        "sequence",
        "step",
    )

    def __init__(self, pool: Pool, use: Efficiencies, tables: Tables, share: float) -> None:
        self.pool = pool
        self.curves: dict[str, Curve] = {}
        parts = reached(share, use.share_arithmetic), reached(share, use.share_bandwidth)
        gather = Gather(pool, use, tables, slower(pool.device, *parts), share)
        self._rest: Coefficients = gather.roofline.build()
        self.step, self.sequence = self._rest.step, self._rest.sequence
        self.curves = gather.curves
        self._attended = [Attended.of(gather, span) for span in gather.measured]
        self._reach = reach(pool.model)
        nodes = spread(MOST_TOKENS)
        floor = sum([each.count * each.floor for each in self._attended]) / pool.model.layers
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
        total = 0.0
        for each in self._attended:
            total += each.count * each.chunk(tokens, context)
        return SECOND * total + self._rest.attention(tokens, context, window)

    def decoding(self, tokens: float) -> tuple[float, float, float]:
        """All layers' attention of decodes beyond what `layer` holds already."""
        return self._decodes(tokens, mixed=False)

    def beside(self, tokens: float) -> tuple[float, float, float]:
        """The same in steps with prompt work."""
        return self._decodes(tokens, mixed=True)

    @property
    def scan(self) -> float:
        """All linear-attention layers' walk over one token of the longest chunk."""
        return self._rest.scan

    def walk(self, longest: float, tokens: float) -> float:
        """All linear-attention layers' walk over the chunks of a step."""
        return self._rest.walk(longest, tokens)

    def _decodes(self, tokens: float, *, mixed: bool) -> tuple[float, float, float]:
        rest = self._rest
        fixed, full, window = rest.state * tokens, rest.kv, rest.window_kv
        for each in self._attended:
            line = each.mixed if mixed else each.alone
            fixed += SECOND * each.count * line.fixed(tokens)
            slope = SECOND * each.count * line.slope(tokens)
            if each.bound == 0:
                full += slope / tokens
            elif each.bound == self._reach:
                window += slope / tokens
            else:
                fixed += slope * each.bound
        return fixed, full, window


@dataclass(frozen=True, slots=True)
class Attended:
    """Tables of one span of the context, in seconds of a layer.

    floor: fixed time of the kernel.  alone, mixed: decodes beyond it, in steps without and with prompt work.
    surface: prompts; where it is None the roofline has them (`pair`, `read`).
    """

    count: int
    bound: int
    heads: float
    floor: float
    alone: Line
    mixed: Line
    surface: Surface | Latent | None
    pair: float
    read: float
    chunked: bool = False

    @classmethod
    def of(cls, gather: Gather, span: Span) -> Attended:
        """The tables of a span."""
        surface = gather.surface(span)
        floor, alone = gather.decoding(span, surface)
        mixed = gather.beside(span, surface, floor, alone)
        pool, roofline = gather.pool, gather.roofline
        pair = prompt_s(pool, gather.use, roofline.lane, span)[0] if surface is None else 0.0
        read = kv_bytes_per_layer(pool, span.attention) / gather.device.memory_bw
        heads = span.attention.heads / pool.tensor
        return cls(span.count, span.bound, heads, floor, alone, mixed, surface, pair, read, span.chunked)

    def chunk(self, tokens: int, context: int) -> float:
        """Seconds beyond the fixed time of a chunk's queries."""
        if self.bound:
            pairs, read = bounded(tokens, context, self.bound, self.chunked)
            met = pairs / tokens
        else:
            met, read = context + (tokens + 1) / 2, context + tokens
        read_s = self.read * read
        if self.surface is None:
            found = self.pair * met * tokens
            return found if found > read_s else read_s
        queries = self.heads * (tokens if tokens > TILE else TILE)
        found = self.surface.seconds(met if met > TILE else TILE, queries)
        return (found if found > read_s else read_s) - self.floor
