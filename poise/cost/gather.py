"""Operator times of one pool from measured tables, looked up once when its costs are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from poise.core.experts import copies
from poise.core.layer import Attention, Mla
from poise.core.model import Model
from poise.core.precision import PARTS, Part
from poise.core.spec import Device, Pool
from poise.cost.coefficients import ACTIVATION_BYTES, Builder
from poise.cost.efficiency import Efficiencies
from poise.cost.exchange import Exchange
from poise.cost.expert_load import busiest
from poise.cost.formats import WEIGHT_ONLY, framework, weights_format
from poise.cost.grid import isotonic
from poise.cost.layout import kv_bytes_per_layer, products
from poise.cost.links import Links
from poise.cost.operator import TILE
from poise.cost.profiled_load import profiled
from poise.cost.ramp import Latent, Line, Ramp, Surface, Tried, spread
from poise.cost.spans import Span, spans
from poise.cost.tables import Curve, Slice, Tables, lacking

SKEW = 2.0
"""The uneven loads that tables have beside even ones, as they count them: `poise.cost.profiled_load`."""

UNEVEN = 1.84
"""Their coefficient of variation between 1 and 0.8 · 8192 tokens: √(ln(0.8 · 8192) / 2 − 1)."""

PROBE = 64.0
"""Decodes of the step at which kernels of attention are chosen."""

MOST_OCTAVES = 18
"""Octaves of tokens for each of which kernels of products are chosen; beyond, the last one's."""


DEEPSEEK_V3 = (Mla(512, 64, 128, 128, 1536), 7168)
"""The latent attention and the width of the models whose attention was measured whole."""


SENT = {"sglang": ("deepepmoe graph", "deepepmoe"), "trtllm": ("wideep_compute_cutlass",)}
"""Kernels of experts that are sent their tokens, of which the faster counts: SGLang's for decodes and for prompts."""


class Gather:
    """Table look-ups for one pool, all in seconds."""

    def __init__(self, pool: Pool, use: Efficiencies, tables: Tables, device: Device, share: float) -> None:
        self.pool, self.model, self.use, self.tables, self.device = pool, pool.model, use, tables, device
        self.curves: dict[str, Curve] = {}
        self._framework = framework(pool.engine.name)
        self.forms = {part: self._form(part) for part in PARTS}
        self.cache = "bf16" if pool.kv == "bf16" else "bf16_kv8"
        self.reading = spans(self.model)
        self.measured = [span for span in self.reading if _measured(span)]
        self.roofline = Builder(pool, use, share, [span for span in self.reading if not _measured(span)])
        self._busiest = busiest(pool)
        if pool.model.moe is not None:
            experts = pool.model.moe.experts
            self._profiled = profiled(experts, pool.model.moe.active, pool.expert)
            self._slots = copies(pool.engine.expert_placement, experts)
        self._around = self._module()
        self._plain = [(often, self._product(n, k, form)) for often, n, k, form in self._products()]
        self._head = self._product(self.model.vocab / pool.tensor, self.model.hidden, self.forms["head"])
        self._links = Links(device, tables, self._framework, self.curves)
        self.exchange = Exchange(pool, self.forms["experts"], self._links, self.roofline)
        self._routed, self._reducers = self._expert(), self._links.all_reduces(pool.tensor)
        self._hop, self._gathered = self._hops(), self._logits()

    def _form(self, part: Part) -> str:
        """The table format of a part of the model."""
        form = weights_format(self.pool.device, self.pool.precision.of(part).format, self._framework)
        return "fp8_block" if form == "fp8" and self.model.fp8_block else form

    def tried(self, kind: str, form: str, *rest: float, last: float | None = None) -> Tried:
        """An operator by its tokens, the other coordinates fixed: engines choose a kernel for each octave of tokens.

        last: what the last coordinate is once kernels are chosen, where it lies between those that were measured.
        """
        octaves = [2.0**at for at in range(MOST_OCTAVES)]
        kernels = self._kernels(kind, form)
        found = self.tables.tried(kind, self.device, form, self._framework, [(m, *rest) for m in octaves], kernels)
        if not found:
            raise lacking(kind)
        for m, curve, before in zip(octaves, found, (None, *found), strict=False):
            if curve is not before:
                self.curves.setdefault(f"{kind} {form}" if before is None else f"{kind} {form} from {m:g}", curve)
        rest = rest if last is None else (*rest[:-1], last)
        slices = {curve: curve.slice(1, *rest) for curve in found}
        return Tried([slices[curve] for curve in found])

    def _kernels(self, kind: str, form: str) -> str:
        """The format whose kernels an operator is taken to run by.

        An engine without a measured product of narrow weights (Marlin: 16-bit arithmetic, narrow reading) is as
        efficient as its own in 16 bits, on the bytes of the format; another engine's plugin says less.
        """
        own = any((t.kind, t.format, t.framework) == (kind, form, self._framework) for t in self.tables.tables)
        return "bf16" if kind == "gemm" and form in WEIGHT_ONLY and not own else form

    def curve(self, kind: str, form: str, *probe: float) -> Curve:
        """The curve of a kind at this lane's device, chosen at `probe` and remembered for provenance."""
        found = self.curves.get(f"{kind} {form}")
        if found is None:
            found = (
                self.tables.usual(kind, self.device, form, self._framework, probe)
                if probe
                else self.tables.curve(kind, self.device, form, self._framework)
            )
            if found is None:
                raise lacking(kind)
            self.curves[f"{kind} {form}"] = found
        return found

    def layer(self, tokens: float) -> float:
        """Seconds of an average layer without attention."""
        use, total = self.use, self.local(tokens)
        total += self._experts(tokens) + self._reduced(tokens) + self.exchange.seconds(tokens)
        light = 2.5 * self.roofline.blocks + 2 * self.roofline.linear - (2 * self._mixing if self._around else 0.0)
        total += light * use.light_s + self._hop(tokens) + self._unmeasured()
        return total + tokens * self.roofline.elementwise()

    def local(self, tokens: float) -> float:
        """Seconds of an average layer's products without routed experts."""
        total = sum(often * product.seconds(tokens) for often, product in self._plain)
        return total + (self._around(tokens) if self._around else 0.0)

    def last(self, sampled: float) -> float:
        """Seconds of the output head and the sampler."""
        use, product = self.use, self._head.seconds(sampled)
        return product + use.light_s + use.sample_s + self._gathered(sampled) + use.sample_sequence_s * sampled

    def _product(self, n: float, k: float, form: str) -> Tried:
        """A product with (n × k) weights, by its tokens."""
        return self.tried("gemm", form, n, k)

    def _products(self) -> list[tuple[float, float, float, str]]:
        """(how often, n, k, format) of an average layer's products without routed experts."""
        model, tensor, forms = self.model, self.pool.tensor, self.forms
        found: list[tuple[float, float, float, str]] = []
        for count, mixer in model.mixers():
            whole = self._around is not None and isinstance(mixer, Attention)  # measured with its kernel
            each = [one for one in products(self.pool, mixer) if one.part == "index" or not whole]
            found += [
                (count / model.layers, one.n, one.k, forms["output" if one.part == "output" else "attention"])
                for one in each
            ]
        gated = 2 if model.gated else 1
        for width, count in _dense(model).items():
            found += [
                (count / model.layers, gated * width / tensor, model.hidden, forms["dense"]),
                (count / model.layers, model.hidden, width / tensor, forms["dense"]),
            ]
        if model.moe is not None:
            part, shared, form = self.roofline.moe, model.moe.shared * model.moe.shared_ffn / tensor, forms["shared"]
            found.append((part, model.moe.experts, model.hidden, "bf16"))
            if shared:
                found += [(part, gated * shared, model.hidden, form), (part, model.hidden, shared, form)]
            if model.moe.latent:
                found += [(part, model.moe.latent, model.hidden, form), (part, model.hidden, model.moe.latent, form)]
        return [each for each in found if each[0] > 0 and each[1] > 0 and each[2] > 0]

    def _module(self) -> Callable[[float], float] | None:
        """Seconds of the operations around the kernel of DeepSeek-V3's latent attention, by tokens: projections, norms,
        rotation and writing of the cache, as the engine itself was measured with them; None where it was not.

        The whole over prompts short enough for the kernel to count least, less the kernel.
        """
        model, pool = self.model, self.pool
        if (model.mla, model.hidden) != DEEPSEEK_V3:
            return None
        heads, short = model.heads / pool.tensor, 128.0
        kernel = "module" if self.cache == "bf16" else "module kv8"
        form, other = self.forms["attention"], self.forms["output"]
        whole = self.tables.curve("mla_prefill_module", self.device, form, self._framework, kernel)
        if whole is None or (whole.table.framework, whole.table.kernel) != (self._framework, kernel):
            return None
        self.curves[f"mla_prefill_module {form}"] = whole
        attention = self.curve("mla_prefill", self.cache, 512.0, heads)
        inner = heads * DEEPSEEK_V3[0].value_dim
        outputs = [self._product(model.hidden, inner, each) for each in dict.fromkeys((form, other))]

        def around(tokens: float) -> float:
            new, batch = min(tokens, short), max(1.0, tokens / short)
            seconds = whole.seconds(new, batch, heads) - attention.seconds(new, batch * heads)
            if len(outputs) > 1:  # the projection out of the heads has a format of its own
                seconds += outputs[1].seconds(tokens) - outputs[0].seconds(tokens)
            return self._mixing * max(0.0, seconds)

        return around

    def _expert(self) -> Sequence[Slice | Tried]:
        """A layer's routed experts on a device, by their mean load; several kernels for the fastest.

        Where ranks share the experts the rank with most was measured, under uneven loads. Where one rank has all,
        loads differ within it only, and are as far between even and uneven ones as their coefficient of variation.
        """
        moe, pool = self.model.moe, self.pool
        if moe is None:
            return []
        sliced = pool.tensor * pool.data / pool.expert
        expert, here = self.model.expert_parameters / sliced, self._slots / pool.expert
        if self.exchange.dispatches:
            found = [self._sent(kernel) for kernel in SENT.get(self._framework, ())]
            if all(found):
                return [curve.slice(1, expert, here, SKEW) for curve in found if curve]
        ranks = 1.0 if self.exchange.dispatches else float(pool.expert)
        uneven = 1.0 if pool.expert > 1 else min(1.0, self._busiest.spread / UNEVEN)
        return [self.tried("moe", self.forms["experts"], expert, here, ranks, SKEW, last=SKEW**uneven)]

    def _sent(self, kernel: str) -> Curve | None:
        """The curve of a kernel of experts to which their tokens are sent, where the engine has it in this format."""
        found = self.tables.curve("moe_ep", self.device, self.forms["experts"], self._framework, kernel)
        if found is None or (found.table.framework, found.table.kernel) != (self._framework, kernel):
            return None
        self.curves[f"moe_ep {self.forms['experts']} {kernel}"] = found
        return found

    def _hops(self) -> Callable[[float], float]:
        """Seconds of an average layer's part of the hops between pipeline stages, by tokens."""
        pool, line = self.pool, self.roofline.hop()
        hop = self._links.hop(pool.devices) if pool.pipeline > 1 else None
        if hop is None:
            return line.at
        often, size = pool.pipeline / self.model.layers, self.model.hidden * ACTIVATION_BYTES
        return lambda tokens: often * hop(tokens * size)

    def _logits(self) -> Callable[[float], float]:
        """Seconds to gather the logits of sampled tokens over the tensor group, by their number."""
        tensor, line = self.pool.tensor, self.roofline.vocabulary()
        gather = self._links.gather(tensor) if tensor > 1 else None
        if gather is None:
            return line.at
        return lambda sampled: gather(sampled * self.model.vocab * ACTIVATION_BYTES)

    def _experts(self, tokens: float) -> float:
        """Seconds of an average layer's routed experts on the most loaded rank.

        Tables were measured on the most loaded rank of another load: the kernel's is so much larger or smaller. Its
        time at a small one is that of reading the experts with any token, of which a more uneven load has fewer;
        between even loads and the measured one kernels show no such difference.
        """
        moe = self.model.moe
        if moe is None:
            return 0.0
        every = tokens * self.pool.data
        own, timed = self._busiest, self._profiled
        load = every * own.tokens(every) / timed.tokens(every) * moe.active / self._slots
        touched = min(1.0, own.fewer(every) / timed.fewer(every))
        seconds = min(kernel.seconds(load) for kernel in self._routed) * touched
        return moe.layers / self.model.layers * seconds

    def _reduced(self, tokens: float) -> float:
        """Seconds of a layer's all-reduces; by the roofline's lines where no table's link joins the ranks."""
        pool = self.pool
        if pool.tensor == 1:
            return 0.0
        if not self._reducers:
            return min(line.at(tokens) for line in self.roofline.all_reduces())
        times = self.roofline.blocks - (self.roofline.moe if pool.data > 1 else 0.0)
        size = tokens * self.model.hidden * ACTIVATION_BYTES
        return times * min(each.seconds(size) for each in self._reducers)

    @property
    def _mixing(self) -> float:
        """Attentions of an average layer."""
        return self.model.attending / self.model.layers

    def _unmeasured(self) -> float:
        """Fixed seconds, of an average layer, of mixers without a table: of an index, of compression, of states."""
        use, layers = self.use, self.model.layers
        indexed = sum([span.count for span in self.reading if span.index]) * (use.attention_s + use.light_s)
        other = sum([count for count, each in self.model.attentions() if each.same]) * use.attention_s
        return (indexed + other) / layers + self.roofline.linear * use.attention_s

    def surface(self, span: Span) -> Surface | Latent | None:
        """Prefill attention of a span; None where no table has its kind."""
        attention = span.attention
        if span.absorbed:
            return None
        if attention.mla is not None:
            heads = attention.heads / self.pool.tensor
            return Latent(self.curve("mla_prefill", self.cache, 512.0, heads), heads)
        kv_heads, group = self._grouped(attention)
        probe = (256.0, 512.0 * kv_heads * group, group, float(attention.head_dim))
        return Surface(self.curve("prefill", self.cache, *probe), group, attention.head_dim)

    def _grouped(self, attention: Attention) -> tuple[float, float]:
        """KV heads of a device, and queries of each."""
        kv_heads = max(1.0, attention.kv_heads / self.pool.tensor)
        return kv_heads, max(1.0, attention.heads / self.pool.tensor / kv_heads)

    def decoding(self, span: Span, surface: Surface | Latent | None) -> tuple[float, Line]:
        """A span's fixed seconds in a layer, and its decode line beyond them."""
        seconds = self._decoder(span.attention)
        floor = seconds(1.0, 1.0)
        if surface is not None:
            floor = min(floor, surface.floor)
        return floor, self._line(span, seconds, floor)

    def _decoder(self, attention: Attention) -> Callable[[float, float], float]:
        """Seconds of a layer's decode attention by (decodes, context of each)."""
        if attention.mla is not None:
            heads = attention.heads / self.pool.tensor
            latent = self.curve("mla_decode", self.cache, 1024.0, PROBE, heads).slice(2, heads)
            return lambda n, context: latent.seconds(context, n)
        (kv_heads, group), width = self._grouped(attention), float(attention.head_dim)
        grouped = self.curve("decode", self.cache, 1024.0, PROBE * kv_heads, group, width).slice(2, group, width)
        return lambda n, context: grouped.seconds(context, n * kv_heads)

    def beside(self, span: Span, surface: Surface | Latent | None, floor: float, alone: Line) -> Line:
        """Decode lines in one kernel with a chunk, never under those alone: each head of a decode fills a tile."""
        latent = span.attention.mla is not None
        own = None if latent else self.tables.curve("decode", self.device, self.cache, self._framework)
        tile = own.table.tile if own else 0
        if surface is None or tile == 0:
            return alone
        heads = tile * span.attention.heads / self.pool.tensor
        seconds = lambda n, context: surface.seconds(max(context, TILE), n * heads)  # noqa: E731
        return alone.over(self._line(span, seconds, floor))

    def _line(self, span: Span, seconds: Callable[[float, float], float], floor: float) -> Line:
        """For each number of decodes, the straight line in context that is nearest by ratio, never under the bytes'."""
        nodes, longest = spread(4096), span.bound or self.model.max_context
        read = kv_bytes_per_layer(self.pool, span.attention) / self.device.memory_bw
        fixed, slopes = [], []
        for n in nodes:
            line = _fit(n, seconds, floor, longest, self._room())
            fixed.append(line[0])
            slopes.append(max(line[1], n * read))
        return Line(Ramp(nodes, isotonic(fixed)), Ramp(nodes, isotonic(slopes)))

    def _room(self) -> float:
        """Tokens of KV that a device can hold at all."""
        each = sum([count * kv_bytes_per_layer(self.pool, one) for count, one in self.model.attentions()])
        return self.device.memory_bytes / each


def _measured(span: Span) -> bool:
    """Whether tables have attention of its kind: heads of their own, or latents, and no entries of several tokens."""
    return not (span.index or span.attention.same or span.entry > 1)


def _dense(model: Model) -> dict[int, int]:
    """Layers with a dense block, by its inner width."""
    found: dict[int, int] = {}
    for layer in model.kinds:
        if layer.moe is None and layer.ffn:
            found[layer.ffn] = found.get(layer.ffn, 0) + layer.count
    return found


def _fit(
    n: float, seconds: Callable[[float, float], float], floor: float, longest: int, room: float
) -> tuple[float, float]:
    """(fixed, slope) of seconds beyond `floor` by the context of each of `n` decodes, neither negative.

    Least squares of relative errors over contexts two to the octave, as long as memory could hold them.
    """
    sums = [0.0] * 5
    context = min(128.0, float(longest))
    while True:
        whole = seconds(n, context)
        weight, beyond = 1 / whole**2, whole - floor
        for at, value in enumerate((1.0, context, context**2, beyond, beyond * context)):
            sums[at] += weight * value
        context *= 2
        if context > longest or n * context > max(room, 256.0 * n):
            break
    one, x, xx, y, xy = sums
    bend = one * xx - x * x
    slope = (one * xy - x * y) / bend if bend > 1e-12 * one * xx else y / x
    slope = max(slope, 0.0)
    fixed = (y - slope * x) / one
    return (fixed, slope) if fixed > 0 else (0.0, max(xy / xx, 0.0))
