"""Operator times of one pool from measured tables, looked up once when its costs are built."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf

from poise.core.errors import ScenarioError
from poise.core.experts import copies
from poise.core.model import Mla
from poise.core.spec import Device, Pool
from poise.cost.coefficients import ACTIVATION_BYTES, Builder, bandwidth_share
from poise.cost.efficiency import Efficiencies
from poise.cost.expert_load import busiest
from poise.cost.grid import isotonic
from poise.cost.layout import kv_bytes_per_layer, kv_copies
from poise.cost.operator import TILE
from poise.cost.profiled_load import profiled
from poise.cost.ramp import Latent, Line, Ramp, Surface, Tried, spread
from poise.cost.tables import Curve, Slice, Tables

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

NARROW = ("fp4", "int4")
"""Formats in which the checkpoints of such models keep experts only, and attention in 16 bits (the quantisation files
of nvidia/DeepSeek-R1-FP4 and moonshotai/Kimi-K2.5)."""

HOST = 4
"""Devices of a host in scale-up domains of more than two hosts (GB200 and GB300 NVL72)."""

SENT = {"sglang": ("deepepmoe graph", "deepepmoe"), "trtllm": ("wideep_compute_cutlass",)}
"""Kernels of experts that are sent their tokens, of which the faster counts: SGLang's for decodes and for prompts."""

NORMAL = "deepep sms 20"
"""The table of DeepEP's normal mode with as many SMs as it takes by default (`Buffer.num_sms`)."""

WEIGHTS = {"bf16": "bf16", "fp8": "fp8", "int8": "int8", "int4": "int4_wo", "fp4": "nvfp4"}
RAISED = {"fp8": "int8_wo", "int8": "int8_wo", "fp4": "mxfp4_wo"}
"""Formats of weights by their names in tables, with and without a native path on the device."""


FRAMEWORKS = {"vllm": "vllm", "sglang": "sglang", "tensorrt": "trtllm", "trt": "trtllm"}
"""Engines by how their names begin, and by their names in tables."""


def framework(engine: str) -> str:
    """The tables' name of an engine in any spelling; itself where they have none."""
    spelt = "".join(letter for letter in engine.lower() if letter.isalnum())
    return next((name for start, name in FRAMEWORKS.items() if spelt.startswith(start)), engine)


def weights_format(device: Device, weights: str) -> str:
    """The table format of a pool's weights: those without a native path are stored so and computed in BF16."""
    native = {"fp8": device.fp8_flops, "int8": device.int8_ops, "fp4": device.fp4_flops}.get(weights, 1.0)
    return WEIGHTS[weights] if native else RAISED[weights]


def lane_device(device: Device, share: float, serial: float) -> Device:
    """A device's rates for a lane with `share` of its SMs: that share of arithmetic, more of the bandwidth."""
    if share == 1.0:
        return device
    peaks = {name: getattr(device, name) * share for name in ("bf16_flops", "fp8_flops", "int8_ops", "fp4_flops")}
    return replace(device, memory_bw=device.memory_bw * bandwidth_share(share, serial), **peaks)


class Gather:
    """Table look-ups for one pool, all in seconds."""

    def __init__(self, pool: Pool, use: Efficiencies, tables: Tables, device: Device, share: float) -> None:
        self.pool, self.model, self.use, self.tables, self.device = pool, pool.model, use, tables, device
        self.curves: dict[str, Curve] = {}
        self._framework = framework(pool.engine.name)
        self.roofline = Builder(pool, use, share)
        self.form = weights_format(pool.device, pool.weights)
        if self.form == "fp8" and pool.model.fp8_block:
            self.form = "fp8_block"
        self.cache = "bf16" if pool.kv == "bf16" else "bf16_kv8"
        self.attending = 1 - self.model.linear_layers / self.model.layers
        self._busiest = busiest(pool)
        if pool.model.moe is not None:
            experts = pool.model.moe.experts
            self._profiled = profiled(experts, pool.model.moe.active, pool.expert)
            self._slots = copies(pool.engine.expert_placement, experts)
        self._around = self._module()
        self._plain = [(often, self._product(n, k, form)) for often, n, k, form in self._products()]
        self._head = self._product(self.model.vocab / pool.tensor, self.model.hidden, "bf16")
        self._routed, self._reducers = self._expert(), self._all_reducers()
        self._exchange, self._hop = self._exchanges(), self.roofline.hop()

    def tried(self, kind: str, form: str, *rest: float, last: float | None = None) -> Tried:
        """An operator by its tokens, the other coordinates fixed: engines choose a kernel for each octave of tokens.

        last: what the last coordinate is once kernels are chosen, where it lies between those that were measured.
        """
        octaves = [2.0**at for at in range(MOST_OCTAVES)]
        found = self.tables.tried(kind, self.device, form, self._framework, [(m, *rest) for m in octaves])
        if not found:
            raise self._lacking(kind)
        for m, curve, before in zip(octaves, found, (None, *found), strict=False):
            if curve is not before:
                self.curves.setdefault(f"{kind} {form}" if before is None else f"{kind} {form} from {m:g}", curve)
        rest = rest if last is None else (*rest[:-1], last)
        slices = {curve: curve.slice(1, *rest) for curve in found}
        return Tried([slices[curve] for curve in found])

    def _lacking(self, kind: str) -> ScenarioError:
        return ScenarioError(f"cost.tables: no table of {kind}; fit one to profiles that have it, or take the roofline")

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
                raise self._lacking(kind)
            self.curves[f"{kind} {form}"] = found
        return found

    def layer(self, tokens: float) -> float:
        """Seconds of an average layer without attention."""
        use, total = self.use, self.local(tokens)
        total += self._experts(tokens) + self._reduced(tokens) + self._exchange(tokens)
        total += (3 if self._around else 5) * use.light_s + self._hop.fixed_s
        per_token = self.roofline.elementwise() + self.roofline.linear_attention()
        return total + tokens * (per_token + self._hop.per_byte_s)

    def local(self, tokens: float) -> float:
        """Seconds of an average layer's products without routed experts."""
        total = sum(often * product.seconds(tokens) for often, product in self._plain)
        return total + (self._around(tokens) if self._around else 0.0)

    def last(self, sampled: float) -> float:
        """Seconds of the output head and the sampler."""
        gathered, use = self.roofline.vocabulary(), self.use
        product = self._head.seconds(sampled)
        per_sequence = use.sample_sequence_s + gathered.per_byte_s
        return product + use.light_s + use.sample_s + gathered.fixed_s + per_sequence * sampled

    def _product(self, n: float, k: float, form: str) -> Tried:
        """A product with (n × k) weights, by its tokens."""
        return self.tried("gemm", form, n, k)

    def _products(self) -> list[tuple[float, float, float, str]]:
        """(how often, n, k, format) of an average layer's products without routed experts."""
        model, tensor, form = self.model, self.pool.tensor, self.form
        mixing = self.attending
        dense = model.dense_layers / model.layers
        found: list[tuple[float, float, float, str]] = []
        if self._around is not None:
            pass  # measured with its kernel
        elif model.mla is not None:
            mla = model.mla
            wide = model.heads * (mla.nope_dim + mla.rope_dim) / tensor
            down = mla.kv_rank + mla.rope_dim + mla.q_rank
            found += [
                (mixing, down, model.hidden, form),
                (mixing, wide, mla.q_rank or model.hidden, form),
                (mixing, model.heads * (mla.nope_dim + mla.value_dim) / tensor, mla.kv_rank, form),
                (mixing, model.hidden, model.heads * mla.value_dim / tensor, form),
            ]
        else:
            values = model.head_dim * (model.heads + 2 * model.kv_heads * kv_copies(self.pool)) / tensor
            found += [
                (mixing, values, model.hidden, form),
                (mixing, model.hidden, model.heads * model.head_dim / tensor, form),
            ]
        gated = 2 if model.gated else 1
        found += [
            (dense, gated * model.ffn / tensor, model.hidden, form),
            (dense, model.hidden, model.ffn / tensor, form),
        ]
        if model.linear_layers:
            part, width = 1 - mixing, model.linear_parameters / (2 * model.hidden * tensor)
            found += [(part, width, model.hidden, form), (part, model.hidden, width, form)]
        if model.moe is not None:
            part, shared = 1 - dense, model.moe.shared * model.moe.shared_ffn / tensor
            found.append((part, model.moe.experts, model.hidden, "bf16"))
            if shared:
                found += [(part, 2 * shared, model.hidden, form), (part, model.hidden, shared, form)]
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
        form = "bf16" if pool.weights in NARROW else self.form
        whole = self.tables.curve("mla_prefill_module", self.device, form, self._framework, kernel)
        if whole is None or (whole.table.framework, whole.table.kernel) != (self._framework, kernel):
            return None
        self.curves[f"mla_prefill_module {form}"] = whole
        attention = self.curve("mla_prefill", self.cache, 512.0, heads)

        def around(tokens: float) -> float:
            new, batch = min(tokens, short), max(1.0, tokens / short)
            return self.attending * max(0.0, whole.seconds(new, batch, heads) - attention.seconds(new, batch * heads))

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
        if self._dispatches:
            found = [self._sent(kernel) for kernel in SENT.get(self._framework, ())]
            if all(found):
                return [curve.slice(1, expert, here, SKEW) for curve in found if curve]
        ranks = 1.0 if self._dispatches else float(pool.expert)
        uneven = 1.0 if pool.expert > 1 else min(1.0, self._busiest.spread / UNEVEN)
        return [self.tried("moe", self.form, expert, here, ranks, SKEW, last=SKEW**uneven)]

    def _sent(self, kernel: str) -> Curve | None:
        """The curve of a kernel of experts to which their tokens are sent, where the engine has it in this format."""
        found = self.tables.curve("moe_ep", self.device, self.form, self._framework, kernel)
        if found is None or (found.table.framework, found.table.kernel) != (self._framework, kernel):
            return None
        self.curves[f"moe_ep {self.form} {kernel}"] = found
        return found

    @property
    def _dispatches(self) -> bool:
        """Whether tokens go only to the ranks of their experts, so that a kernel sees none that are meant for others.

        vLLM and SGLang gather all tokens on every rank unless configured otherwise (`all2all_backend`,
        `moe-a2a-backend`). Published recipes configure SGLang so where experts spread over hosts that one scale-up
        domain joins, and nearly nowhere else (NVIDIA/srt-slurm, 2026-04).
        """
        pool = self.pool
        if pool.expert == 1 or pool.data == 1 or self._framework == "vllm":
            return False
        joined = HOST < pool.expert <= pool.device.scaleup_domain > 2 * HOST
        return joined or self._framework != "sglang"

    def _exchanges(self) -> Callable[[float], float]:
        """Seconds of a layer's exchange of tokens between data ranks, by a rank's tokens."""
        pool, moe = self.pool, self.model.moe
        if moe is None or pool.data == 1:
            return lambda tokens: 0.0
        if self._dispatches and pool.tensor * pool.data <= pool.device.scaleup_domain:
            one, other = (self._ways(mode) for mode in ("", "_normal"))
            token = self.model.hidden * ACTIVATION_BYTES / pool.tensor
            size, once = token * moe.active, token * pool.expert * (1 - (1 - 1 / pool.expert) ** moe.active)
            return lambda tokens: self.roofline.moe * min(one(tokens * size), other(tokens * once))
        line = self.roofline.exchange(gathers=not self._dispatches)
        return lambda tokens: line.at(tokens)

    def _ways(self, mode: str) -> Callable[[float], float]:
        """Seconds of both ways of an exchange in one of DeepEP's modes, by the bytes that a rank sends."""
        ways = [
            self.tables.curve(kind + mode, self.device, "bf16", self._framework, NORMAL if mode else "")
            for kind in ("dispatch", "combine")
        ]
        if any(way is None for way in ways):
            return lambda size: inf
        slices = [way.slice(1, self.pool.expert) for way in ways if way is not None]
        for way in ways:
            assert way is not None
            self.curves[f"{way.table.kind} bf16"] = way
        return lambda size: sum(way.seconds(size) for way in slices)

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

    def _all_reducers(self) -> list[Slice]:
        """All-reduces over the tensor group by bytes: the engine's kernel, and NCCL's, between which engines choose."""
        tensor, device = self.pool.tensor, self.device
        if tensor == 1 or tensor > device.scaleup_domain or device.scaleup_bw <= 0:
            return []
        found = {}
        for name in (self._framework, "nccl"):
            curve = self.tables.curve("all_reduce", device, "bf16", name)
            if curve is not None:
                found[curve.table.framework] = curve.slice(1, tensor)
                self.curves[f"all_reduce {curve.table.framework}"] = curve
        return list(found.values())

    def _reduced(self, tokens: float) -> float:
        """Seconds of a layer's all-reduces; by the roofline's lines where no table's link joins the ranks."""
        pool = self.pool
        if pool.tensor == 1:
            return 0.0
        if not self._reducers:
            return min(line.at(tokens) for line in self.roofline.all_reduces())
        times = 2.0 if pool.data == 1 else 2 - self.roofline.moe
        size = tokens * self.model.hidden * ACTIVATION_BYTES
        return times * min(each.seconds(size) for each in self._reducers)

    def surface(self) -> Surface | Latent | None:
        """Prefill attention; None where no layer attends."""
        if self.model.linear_layers == self.model.layers:
            return None
        if self.model.mla is not None:
            heads = self.model.heads / self.pool.tensor
            return Latent(self.curve("mla_prefill", self.cache, 512.0, heads), heads)
        probe = (256.0, 512.0 * self._kv_heads * self._group, self._group, float(self.model.head_dim))
        return Surface(self.curve("prefill", self.cache, *probe), self._group, self.model.head_dim)

    @property
    def _kv_heads(self) -> float:
        return max(1.0, self.model.kv_heads / self.pool.tensor)

    @property
    def _group(self) -> float:
        return max(1.0, self.model.heads / self.pool.tensor / self._kv_heads)

    def decoding(self, surface: Surface | Latent | None) -> tuple[float, tuple[Line | None, Line | None]]:
        """Attention's fixed seconds, and decode lines of full and of window layers beyond them."""
        model = self.model
        if model.linear_layers == model.layers:
            return 0.0, (None, None)
        seconds = self._decoder()
        floor = seconds(1.0, 1.0)
        if surface is not None:
            floor = min(floor, surface.floor)
        full = self._line(seconds, floor, model.max_context) if model.full_layers else None
        window = self._line(seconds, floor, model.window) if model.window_layers else None
        return floor, (full, window)

    def _decoder(self) -> Callable[[float, float], float]:
        """Seconds of a layer's decode attention by (decodes, context of each)."""
        model = self.model
        if model.mla is not None:
            heads = model.heads / self.pool.tensor
            latent = self.curve("mla_decode", self.cache, 1024.0, PROBE, heads).slice(2, heads)
            return lambda n, context: latent.seconds(context, n)
        kv_heads, group, width = self._kv_heads, self._group, float(model.head_dim)
        grouped = self.curve("decode", self.cache, 1024.0, PROBE * kv_heads, group, width).slice(2, group, width)
        return lambda n, context: grouped.seconds(context, n * kv_heads)

    def beside(
        self, surface: Surface | Latent | None, floor: float, alone: tuple[Line | None, Line | None]
    ) -> tuple[Line | None, Line | None]:
        """Decode lines in one kernel with a chunk, never under those alone: each head of a decode fills a tile."""
        own = None if self.model.mla else self.tables.curve("decode", self.device, self.cache, self._framework)
        tile = own.table.tile if own else 0
        if surface is None or tile == 0:
            return alone
        heads = tile * self.model.heads / self.pool.tensor
        seconds = lambda n, context: surface.seconds(max(context, TILE), n * heads)  # noqa: E731
        full, window = alone
        return (
            full and full.over(self._line(seconds, floor, self.model.max_context)),
            window and window.over(self._line(seconds, floor, self.model.window)),
        )

    def _line(self, seconds: Callable[[float, float], float], floor: float, longest: int) -> Line:
        """For each number of decodes, the straight line in context that is nearest by ratio, never under the bytes'."""
        nodes = spread(4096)
        read = kv_bytes_per_layer(self.pool) / self.device.memory_bw
        fixed, slopes = [], []
        for n in nodes:
            line = _fit(n, seconds, floor, longest, self._room())
            fixed.append(line[0])
            slopes.append(max(line[1], n * read))
        return Line(Ramp(nodes, isotonic(fixed)), Ramp(nodes, isotonic(slopes)))

    def _room(self) -> float:
        """Tokens of KV that a device can hold at all."""
        layers = max(1, self.model.full_layers + self.model.window_layers)
        return self.device.memory_bytes / (layers * kv_bytes_per_layer(self.pool))


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
