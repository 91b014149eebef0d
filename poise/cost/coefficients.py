"""The coefficients of one lane: all inputs of a step's cost from pool, layout and efficiencies, in picoseconds.

Work is that of one device; ranks of a replica are taken as equally loaded (mean field), but for their experts, of which
the most loaded rank counts. A pipeline adds its stages up.
"""

from __future__ import annotations

from dataclasses import dataclass

from poise.core.precision import Part
from poise.core.spec import Device, Format, Pool
from poise.core.units import SECOND
from poise.cost.collective import Line, Link, all_gather, all_reduce_forms, all_to_all, far_all_reduce, p2p
from poise.cost.efficiency import Efficiencies
from poise.cost.expert_load import Busiest, busiest
from poise.cost.layout import TOKEN_PARTS, Shard, link_of, shard
from poise.cost.sm_share import reached
from poise.cost.spans import Span, chunked_pairs, decode_s, prompt_s, raised_flops, rates, reach, spans

ACTIVATION_BYTES = 2
"""Activations travel and are kept in 16 bits between operators."""


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Picoseconds as floats, rounded once when a piece is made; a layer is an average one (`Shard`), tokens a rank's.

    step, sequence: host and sampler time of a step, and per sequence in it.
    fixed, linear: of a layer: kernels' fixed times, fixed parts of collectives and hops; and per token.
    weights, token: of a layer: streaming its weights, and arithmetic per token; the larger counts.
    expert_weights, expert_token, ranks: the same for routed experts, evenly loaded; `ranks` data ranks bring their
        tokens to the same experts.  busiest: what of them the most loaded rank has, by the tokens of all data ranks.
    reduce: fixed and per token of a layer's all-reduces in one form, then in another (the cheaper counts); () for one.
    head_weights, head_token, head_fixed, sample: of the output head and the sampler, per sampled token.
    kv, window_kv: reading one token of KV while decoding, over all full and all sliding-window layers.
    pair, window_pair: one query meeting one key while prefilling, over all full and all sliding-window layers.
    read, window_read: reading one token of KV while prefilling. context: raising one earlier token from its MLA latent.
        A window is the longest bound of what layers read (`reach`); "full" is what has none.
    near: (bound, pair, read, chunked) of shorter bounds than that, and of chunks.
    state: one decoding sequence's linear-attention states and what it reads within shorter bounds, all layers.
    scan, scanned: the states' walk over one token of the longest chunk, and arithmetic of one token of any chunk; the
        larger of a step counts.
    """

    step: float
    sequence: float
    fixed: float
    linear: float
    weights: float
    token: float
    expert_weights: float
    expert_token: float
    ranks: int
    busiest: Busiest
    reduce: tuple[float, ...]
    head_weights: float
    head_token: float
    head_fixed: float
    sample: float
    kv: float
    window_kv: float
    pair: float
    window_pair: float
    read: float
    window_read: float
    context: float
    state: float
    scan: float
    scanned: float
    near: tuple[tuple[int, float, float, bool], ...] = ()

    def beside(self, tokens: float) -> tuple[float, float, float]:
        """Decode attention takes as long with a chunk as alone."""
        return self.decoding(tokens)

    def layer(self, tokens: float) -> float:
        """Picoseconds of an average layer without attention, for `tokens` tokens a rank."""
        dense = self.token * tokens
        total = self.fixed + self.linear * tokens + (dense if dense > self.weights else self.weights)
        if self.expert_weights:
            every = tokens * self.ranks
            fullest, touched = self.busiest.load(every)
            math, read = self.expert_token * fullest / self.ranks, self.expert_weights * touched
            total += math if math > read else read
        if self.reduce:
            fixed, slope, other, rise = self.reduce
            one, two = fixed + slope * tokens, other + rise * tokens
            total += one if one < two else two
        return total

    def experts(self, tokens: float) -> tuple[float, float]:
        """Picoseconds of a layer's routed experts on their most loaded rank, by bytes and by arithmetic."""
        fullest, touched = self.busiest.load(tokens * self.ranks)
        return self.expert_weights * touched, self.expert_token * fullest / self.ranks

    def local(self, tokens: float) -> float:
        """Picoseconds of an average layer's products of a rank's own tokens, routed experts apart."""
        return max(self.token * tokens, self.weights)

    def last(self, sampled: float) -> float:
        """Picoseconds of the output head and the sampler for `sampled` tokens a rank."""
        math = self.head_token * sampled
        return self.head_fixed + self.sample * sampled + (math if math > self.head_weights else self.head_weights)

    def attention(self, tokens: int, context: int, window: int) -> float:
        """Picoseconds of all layers' attention of `tokens` new tokens after `context` earlier ones, on one rank.

        Each layer kind takes the larger of its query-key pairs and of the KV that its queries span.
        """
        total = self.context * context
        if self.pair:
            math = self.pair * (tokens * context + tokens * (tokens + 1) // 2)
            read = self.read * (context + tokens)
            total += math if math > read else read
        if self.window_pair:
            math = self.window_pair * windowed_pairs(tokens, context, window)
            read = self.window_read * (tokens + (context if context < window else window - 1))
            total += math if math > read else read
        for bound, pair, one, chunked in self.near:
            pairs, seen = bounded(tokens, context, bound, chunked)
            math, read = pair * pairs, one * seen
            total += math if math > read else read
        return total

    def walk(self, longest: float, tokens: float) -> float:
        """Picoseconds of all linear layers' walk over chunks of `tokens` tokens in all, the longest of `longest`.

        Chunks walk side by side until their arithmetic takes longer.
        """
        return max(self.scan * longest, self.scanned * tokens)

    def decoding(self, tokens: float) -> tuple[float, float, float]:
        """Picoseconds of all layers' attention of `tokens` decodes a rank: fixed, per KV token, per one in a window."""
        return self.state * tokens, self.kv, self.window_kv


def windowed_pairs(tokens: int, context: int, window: int) -> int:
    """Query-key pairs of `tokens` queries after `context` tokens, each seeing itself and at most `window` keys.

    Σ_{i=1..c} min(x + i, W): the first a = clamp(W − x, 0, c) queries see everything, the others W keys.
    """
    whole = window - context
    whole = 0 if whole < 0 else tokens if whole > tokens else whole
    return whole * context + whole * (whole + 1) // 2 + (tokens - whole) * window


def bounded(tokens: int, context: int, bound: int, chunked: bool) -> tuple[int, int]:
    """Query-key pairs of a chunk's queries, and the keys they span, within a window or a chunk of `bound` tokens."""
    if chunked:
        return chunked_pairs(tokens, context, bound), tokens + context % bound
    return windowed_pairs(tokens, context, bound), tokens + min(context, bound - 1)


def arithmetic(device: Device, weights: Format, use: Efficiencies) -> tuple[float, float]:
    """(peak FLOP/s, GEMM efficiency) for a weight format; formats without a native path are raised to BF16.

    MXFP4 counts as FP4: both are native on the same devices.
    """
    native = {
        "fp8": (device.fp8_flops, use.gemm_fp8),
        "int8": (device.int8_ops, use.gemm_int8),
        "fp4": (device.fp4_flops, use.gemm_fp4),
        "mxfp4": (device.fp4_flops, use.gemm_fp4),
    }
    peak, efficiency = native.get(weights, (0.0, 0.0))
    return (peak, efficiency) if peak > 0 else (device.bf16_flops, use.gemm_bf16)


def streaming(weights: Format, use: Efficiencies) -> float:
    """The part of the bandwidth that products of few tokens reach on weights of a format."""
    return float(getattr(use, f"stream_{'fp4' if weights == 'mxfp4' else weights}"))


def derive(pool: Pool, use: Efficiencies, share: float) -> Coefficients:
    """The coefficients of a lane that has `share` of the SMs of every device of `pool`."""
    return Builder(pool, use, share).build()


class Builder:
    """Derives a lane's coefficients, one group of operators per method; times in seconds until `build`."""

    def __init__(self, pool: Pool, use: Efficiencies, share: float, reading: list[Span] | None = None) -> None:
        """reading: what of the context is priced here; all of it by default."""
        self.pool, self.model, self.use = pool, pool.model, use
        self.part: Shard = shard(pool)
        self.moe = pool.model.moe.layers / pool.model.layers if pool.model.moe else 0.0
        self.mixed, self.blocks = pool.model.mixed / pool.model.layers, pool.model.blocks / pool.model.layers
        self.dense = pool.model.dense_layers / pool.model.layers
        self.linear = pool.model.linear_layers / pool.model.layers
        self.bandwidth = pool.device.memory_bw * reached(share, use.share_bandwidth)
        self.math = reached(share, use.share_arithmetic)
        self.bf16 = pool.device.bf16_flops * self.math
        self.precision = pool.precision
        self.lane = rates(pool.device, self.bandwidth, self.math)
        self.spans = spans(pool.model) if reading is None else reading
        self.reach = reach(pool.model)

    def build(self) -> Coefficients:
        """All groups, scaled to picoseconds."""
        use, experts = self.use, self.precision.experts
        reduce = self.all_reduces()
        exchange = self.exchange()
        hop = self.hop()
        gather = self.vocabulary()
        seconds: dict[str, float] = {
            "step": use.cpu_step_s,
            "sequence": use.cpu_sequence_s,
            "fixed": self.kernels() + exchange.fixed_s + hop.fixed_s,
            "linear": self.elementwise() + exchange.per_byte_s + hop.per_byte_s,
            "weights": sum([self.streamed(self.part.of(name), name) for name in TOKEN_PARTS]),
            "token": sum([2 * self.part.of(name) / self.rate(name) for name in TOKEN_PARTS]),
            "expert_weights": self.part.experts * experts.bits / 8 / (self.bandwidth * use.moe_stream),
            "expert_token": self.expert_flops() / (self.peak(experts.format) * use.moe_gemm),
            "head_weights": self.streamed(self.part.head, "head"),
            "head_token": 2 * self.part.head / self.rate("head"),
            "head_fixed": self.product_s("head") + use.light_s + use.sample_s + gather.fixed_s,
            "sample": use.sample_sequence_s + gather.per_byte_s,
            "context": self.raised_flops() / self.rate("attention"),
            "scan": use.scan_token_s * self.model.linear_layers,
            "scanned": self.scanned(),
            **self.reading(),
        }
        return Coefficients(
            **{name: value * SECOND for name, value in seconds.items()},
            near=tuple((bound, pair * SECOND, read * SECOND, cut) for bound, pair, read, cut in self.near()),
            ranks=self.pool.data,
            busiest=busiest(self.pool),
            reduce=tuple(second * SECOND for line in reduce for second in line),
        )

    def peak(self, form: Format) -> float:
        """FLOP/s of the lane in a format."""
        return arithmetic(self.pool.device, form, self.use)[0] * self.math

    def rate(self, part: Part) -> float:
        """FLOP/s that products of a part reach."""
        form = self.precision.of(part).format
        return self.peak(form) * arithmetic(self.pool.device, form, self.use)[1]

    def streamed(self, weights: float, part: Part) -> float:
        """Seconds to read so many weights of a part."""
        store = self.precision.of(part)
        return weights * store.bits / 8 / (self.bandwidth * streaming(store.format, self.use))

    def product_s(self, part: Part) -> float:
        """Fixed time of a product of a part."""
        return self.use.gemm_s if self.precision.of(part).format == "bf16" else self.use.quantised_gemm_s

    def kernels(self) -> float:
        """Fixed times of a layer: GEMMs, attention, five light kernels (two norms, rotary, KV write, activation).

        An index adds two GEMMs, its scores and its choice; a linear layer a convolution and a gated norm.
        """
        use, moe = self.use, self.model.moe
        mixing = (1.0 if self.model.mla is None else 5.0) * self.product_s("attention") + self.product_s("output")
        gemms = mixing * self.mixed + 2 * self.dense * self.product_s("dense")
        gemms += 2 * self.moe * self.product_s("shared") if moe and moe.shared else 0.0
        indexed = sum([span.count for span in self.spans if span.index]) / self.model.layers
        chosen = indexed * (2 * self.product_s("attention") + use.attention_s + use.light_s)
        light = (2.5 * self.blocks + 2 * self.linear) * use.light_s
        return gemms + self.mixed * use.attention_s + light + self.moe * use.moe_s + chosen

    def elementwise(self) -> float:
        """Per token, what light kernels move: two norms with residuals (8 widths), rotary (2), activation (3).

        A linear layer's gated norm reads two widths of values and writes one; its convolution reads and writes each
        channel.
        """
        model, moe = self.model, self.model.moe
        heads = self.mixed * (model.heads + 2 * model.kv_heads if model.mla is None else model.heads)
        dense = sum([layer.count * layer.ffn for layer in model.kinds if layer.moe is None]) / model.layers
        inner = dense + (self.moe * moe.shared * moe.shared_ffn if moe else 0.0)
        moved = 4 * self.blocks * model.hidden + (2 * heads * model.head_dim + 3 * inner) / self.pool.tensor
        moved += 3 * sum([count * each.values for count, each in model.linears()]) / model.layers / self.pool.tensor
        plain = moved * ACTIVATION_BYTES / (self.bandwidth * self.use.stream_bf16)
        channels = sum([count * each.channels for count, each in model.linears() if each.conv > 1]) / model.layers
        return plain + 2 * channels / self.pool.tensor * ACTIVATION_BYTES / (self.bandwidth * self.use.convolution)

    def scanned(self) -> float:
        """Per token of a chunk, of all layers: update and query of the state, 4 FLOP for each of its values."""
        flops = 4 * sum([count * each.matrices for count, each in self.model.linears()]) / self.pool.tensor
        return flops / (self.bf16 * self.use.scan_flops)

    def state_read(self) -> float:
        """Per decoding sequence: its states read and written once."""
        moved = 2 * self.model.state_bytes / self.pool.tensor
        return moved / (self.bandwidth * self.use.state_stream)

    def expert_flops(self) -> float:
        """Per token of a data rank: its `active` experts, spread over all ranks, which hold tokens of `data` ranks."""
        moe = self.model.moe
        return 2 * moe.active * self.model.expert_parameters * self.moe / self.pool.tensor if moe else 0.0

    def reading(self) -> dict[str, float]:
        """What layers read of the context: without a bound, within the longest one, and within shorter ones at once."""
        reach, state = self.reach, self.state_read()
        found = dict.fromkeys(("kv", "pair", "read", "window_kv", "window_pair", "window_read"), 0.0)
        for span in self.spans:
            decode = max(decode_s(self.pool, self.use, self.lane, span))
            pair, read = prompt_s(self.pool, self.use, self.lane, span)
            if span.bound in (0, reach):
                window = "window_" if span.bound else ""
                found[f"{window}kv"] += decode * span.count
                if not span.chunked:
                    found[f"{window}pair"] += pair * span.count
                    found[f"{window}read"] += read * span.count
            else:
                state += decode * span.count * span.bound
        return {**found, "state": state}

    def near(self) -> list[tuple[int, float, float, bool]]:
        """Bound, pair and read of each span within a shorter bound than the longest, or in chunks."""
        found = []
        for span in self.spans:
            if span.chunked or span.bound not in (0, self.reach):
                pair, read = prompt_s(self.pool, self.use, self.lane, span)
                found.append((span.bound, pair * span.count, read * span.count, span.chunked))
        return found

    def raised_flops(self) -> float:
        """FLOP to raise one cached MLA latent to keys and values in all layers; each later chunk does it again."""
        return sum([count * raised_flops(self.pool, each) for count, each in self.model.attentions()])

    def all_reduces(self) -> tuple[Line, ...]:
        """A layer's all-reduces over the tensor group, after attention and after the feed-forward block, in two forms.

        Per token; empty for one rank. With data ranks, experts exchange tokens instead of the second all-reduce.
        """
        if self.pool.tensor == 1:
            return ()
        tensor, inside = self.pool.tensor, self.pool.device.scaleup_domain
        link = self.link(tensor)
        times = self.blocks if self.pool.data == 1 else self.blocks - self.moe
        size = self.model.hidden * ACTIVATION_BYTES
        forms = all_reduce_forms(tensor, link)
        if inside > 1 and tensor > inside and tensor % inside == 0:
            forms = (far_all_reduce(tensor, inside, self.link(inside), link),)
        return tuple(Line(times * form.fixed_s, times * form.per_byte_s * size) for form in (forms[0], forms[-1]))

    def exchange(self, *, gathers: bool = False) -> Line:
        """Per token of a data rank: experts' dispatch and combine over the data ranks of an average layer.

        With expert parallelism each rank of a tensor group sends its part of the tokens to the `active` experts of each
        and gets them back (all-to-all); without it all tokens go everywhere and their sums come back (all-gather,
        reduce-scatter), and so it is where an engine `gathers`. One data rank needs neither: the tensor group's
        all-reduce combines.
        """
        pool, moe = self.pool, self.model.moe
        if moe is None or pool.data == 1:
            return Line()
        token = moe.width(self.model.hidden) * ACTIVATION_BYTES
        if pool.expert > 1 and not gathers:
            line, size = all_to_all(pool.expert, self.link(pool.tensor * pool.data)), token * moe.active / pool.tensor
        else:
            ranks = pool.tensor * pool.data
            line, size = all_gather(ranks, self.link(ranks)), float(token * pool.data)
        return Line(2 * self.moe * line.fixed_s, 2 * self.moe * line.per_byte_s * size)

    def hop(self) -> Line:
        """Per token, of an average layer: `pipeline` transfers of activations in a pass through all layers."""
        pool = self.pool
        if pool.pipeline == 1:
            return Line()
        line = p2p(self.link(pool.devices))
        often = pool.pipeline / self.model.layers
        return Line(often * line.fixed_s, often * line.per_byte_s * self.model.hidden * ACTIVATION_BYTES)

    def vocabulary(self) -> Line:
        """Per sampled token: gathering its logits over the tensor group."""
        if self.pool.tensor == 1:
            return Line()
        line = all_gather(self.pool.tensor, self.link(self.pool.tensor))
        return Line(line.fixed_s, line.per_byte_s * self.model.vocab * ACTIVATION_BYTES)

    def link(self, ranks: int) -> Link:
        """The link of a group of `ranks` devices at the recipe's efficiency."""
        return link_of(self.pool.device, ranks, self.use)
