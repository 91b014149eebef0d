"""A slow, separate account of a step in seconds: real layers one by one, requests and tokens in plain loops.

It shares the efficiencies with the estimator and nothing else; collectives are written out from their formulas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from poise.core.estimate import Chunk
from poise.core.spec import BITS, Pool
from poise.cost.efficiency import Efficiencies
from poise.cost.expert_load import busiest


@dataclass
class Slow:
    """One rank's step. Requires as many decodes as there are data ranks × stages (or none), so that loads are whole."""

    pool: Pool
    use: Efficiencies
    share: float = 1.0

    def __post_init__(self) -> None:
        device, use = self.pool.device, self.use
        self.math, bandwidth = (
            ((1 + limit**-3) / (self.share**-3 + limit**-3)) ** (1 / 3)
            for limit in (use.share_arithmetic, use.share_bandwidth)
        )
        self.bandwidth = device.memory_bw * bandwidth
        self.bf16 = device.bf16_flops * self.math
        self.moe_peak = self.peak("experts") * use.moe_gemm

    def peak(self, part: str) -> float:
        """FLOP/s of a part's format."""
        name, device = getattr(self.pool.precision, part).format, self.pool.device
        fp4 = device.fp4_flops
        native = {"fp8": device.fp8_flops, "int8": device.int8_ops, "fp4": fp4, "mxfp4": fp4}.get(name, 0.0)
        return (native or device.bf16_flops) * self.math

    def gemm_peak(self, part: str) -> float:
        """FLOP/s that its products reach."""
        name = getattr(self.pool.precision, part).format
        native = self.peak(part) != self.bf16
        name = "fp4" if name == "mxfp4" else name
        return self.peak(part) * float(getattr(self.use, f"gemm_{name}") if native else self.use.gemm_bf16)

    def read(self, weights: float, part: str) -> float:
        """Seconds to read so many weights of a part."""
        store = getattr(self.pool.precision, part)
        stream = getattr(self.use, f"stream_{'fp4' if store.format == 'mxfp4' else store.format}")
        return weights * float(store.bits) / 8 / (self.bandwidth * float(stream))

    def step(self, contexts: Sequence[int], chunks: Sequence[Chunk]) -> float:
        """Seconds of one step whose decodes have `contexts`; every chunk passes all layers."""
        pool, model, use = self.pool, self.pool.model, self.use
        groups = pool.data * pool.pipeline
        mine = contexts[::groups] if contexts else []
        decodes = max(1.0, len(contexts) / groups) if contexts else 0.0
        stages = pool.pipeline if pool.data == 1 else 1
        new = sum(chunk.tokens for chunk in chunks) / pool.data
        part = 1 / pool.data
        if stages > 1 and chunks:
            longest = max(chunk.tokens for chunk in chunks)
            part = max(1 / stages, longest / new)
            new = max(new / stages, float(longest))
        total = use.cpu_step_s + use.cpu_sequence_s * ceil((len(contexts) + len(chunks)) / pool.data)
        for index in range(model.layers):
            dense = index < model.dense_layers
            kind = "full" if index < model.full_layers else "window"
            kind = "linear" if index >= model.full_layers + model.window_layers else kind
            total += self.fixed(dense, kind) + self.matrices(dense, kind, decodes + new)
            total += self.messages(dense, decodes + new)
            total += self.light(dense, decodes + new)
            if kind == "linear" or model.linear_layers:
                total += self.linear(kind, decodes, decodes + new)
            if kind != "linear":
                total += sum(self.decode(kind, context) for context in mine)
        prefills = [self.prefill(chunk) for chunk in chunks]
        total += max(sum(prefills) / (pool.data * stages), self.fullest(prefills))
        total += self.longer(decodes, new, max(new, self.fullest([float(chunk.tokens) for chunk in chunks])))
        total += pool.pipeline * self.hop(decodes + new)
        longest = max((chunk.tokens for chunk in chunks), default=0)
        total += self.scan(longest, max(new, longest))
        return total + self.head(decodes + (ceil(len(chunks) / pool.data) if pool.data > 1 else len(chunks) * part))

    def fullest(self, each: list[float]) -> float:
        """The largest sum that some data rank has however chunks are spread: of any r·k + 1 of them, k + 1 meet."""
        found = max(each, default=0.0)
        if self.pool.data == 1:
            return found
        for most in range(1, len(each) + 1):
            together = ceil(most / self.pool.data)
            found = max(found, sum(sorted(sorted(each)[-most:])[:together]))
        return found

    def longer(self, decodes: float, even: float, most: float) -> float:
        """What the products of all layers take longer with `most` prompt tokens than with `even`, of average layers."""
        model = self.pool.model
        total = 0.0
        for index in range(model.layers):
            kind = "linear" if index >= model.full_layers + model.window_layers else "full"
            here = self.weights(index < model.dense_layers, kind)
            total += self.product(here, decodes + most) - self.product(here, decodes + even)
        return total

    def product(self, weights: dict[str, float], tokens: float) -> float:
        """So many weights of each part read, or `tokens` tokens multiplied by them."""
        read = sum(self.read(count, part) for part, count in weights.items())
        return max(read, sum(2 * count * tokens / self.gemm_peak(part) for part, count in weights.items()))

    def copies(self) -> float:
        """How many ranks keep each KV value."""
        model, tensor = self.pool.model, self.pool.tensor
        return float(tensor) if model.mla else max(1.0, tensor / model.kv_heads)

    def scan(self, longest: int, tokens: float) -> float:
        """Scans go token by token, side by side, until their arithmetic takes longer."""
        model, use = self.pool.model, self.use
        walked = computed = 0.0
        for _ in range(model.linear_layers):
            walked += longest * use.scan_token_s
            heads, keys, values = (
                (model.linear.value_heads, model.linear.key_dim, model.linear.value_dim)
                if model.linear
                else (model.heads, model.head_dim, model.head_dim)
            )
            computed += 4 * heads * keys * values * tokens / self.pool.tensor / (self.bf16 * use.scan_flops)
        return max(walked, computed)

    def fixed(self, dense: bool, kind: str) -> float:
        use, model = self.use, self.pool.model
        parts = ["attention"] * (5 if model.mla else 1) + ["output"]
        parts += ["dense"] * 2 if dense else ["shared"] * 2 if model.moe and model.moe.shared else []
        total = 0.0
        for part in parts:
            plain = getattr(self.pool.precision, part).format == "bf16"
            total += use.gemm_s if plain else use.quantised_gemm_s
        return total + use.attention_s + (7 if kind == "linear" else 5) * use.light_s + (0 if dense else use.moe_s)

    def weights(self, dense: bool, kind: str) -> dict[str, float]:
        """A layer's weights without routed experts, one by one: what a rank holds whole, what is cut `tensor` ways."""
        model, tensor = self.pool.model, self.pool.tensor
        if kind == "linear" and model.linear:
            here = model.linear.parameters(model.hidden) / tensor
        elif model.mla:
            mla, query_in = model.mla, model.mla.q_rank or model.hidden
            here = model.hidden * (mla.q_rank + mla.kv_rank + mla.rope_dim)
            here += query_in * model.heads * (mla.nope_dim + mla.rope_dim) / tensor
            here += mla.kv_rank * model.heads * (mla.nope_dim + mla.value_dim) / tensor
            here += model.heads * mla.value_dim * model.hidden / tensor
        else:
            heads = 2 * model.heads / tensor + 2 * model.kv_heads * self.copies() / tensor
            if kind == "linear":  # without a shape of its own it counts as an attention layer, cut evenly
                heads = (2 * model.heads + 2 * model.kv_heads) / tensor
            here = model.hidden * model.head_dim * heads
        if kind == "linear" and not model.linear and model.mla:
            here = model.attention_parameters / tensor
        width = model.mla.value_dim if model.mla else model.head_dim
        output = 0.0 if kind == "linear" else width * model.heads * model.hidden / tensor
        found, matrices = {"attention": here - output, "output": output}, 3 if model.gated else 2
        if dense:
            return {**found, "dense": matrices * model.hidden * model.ffn / tensor}
        assert model.moe is not None
        shared = matrices * model.moe.shared * model.moe.shared_ffn + model.moe.experts
        return {**found, "shared": model.hidden * shared / tensor}

    def matrices(self, dense: bool, kind: str, tokens: float) -> float:
        """All GEMMs of a layer."""
        pool, model, tensor, moe = self.pool, self.pool.model, self.pool.tensor, self.pool.model.moe
        total = self.product(self.weights(dense, kind), tokens)
        if dense:
            return total
        assert moe is not None
        bits = pool.precision.experts.bits / 8
        seen, expert = tokens * pool.data, (3 if model.gated else 2) * model.hidden * moe.ffn + moe.bias
        fullest = busiest(pool)  # proved by drawn tokens in test_expert_load
        touched = moe.experts * fullest.touched(seen)
        ranks = tensor * pool.data
        read = touched * expert * bits / ranks / (self.bandwidth * self.use.moe_stream)
        return total + max(float(read), 2 * fullest.tokens(seen) * moe.active * expert / ranks / self.moe_peak)

    def light(self, dense: bool, tokens: float) -> float:
        """Values moved by norms, rotary and activation, two bytes each."""
        model = self.pool.model
        heads = model.heads if model.mla else model.heads + 2 * model.kv_heads
        inner = model.ffn if dense else model.moe.shared * model.moe.shared_ffn  # type: ignore[union-attr]
        moved = 8 * model.hidden + (2 * heads * model.head_dim + 3 * inner) / self.pool.tensor
        return 2 * moved * tokens / (self.bandwidth * self.use.stream_bf16)

    def linear(self, kind: str, decodes: float, tokens: float) -> float:
        """States of decodes read and written; the gated norm and the convolution of all tokens."""
        if kind != "linear":
            return 0.0
        model, use = self.pool.model, self.use
        state = model.state_bytes / model.linear_layers / self.pool.tensor
        total = 2 * state * decodes / (self.bandwidth * use.state_stream)
        shape = model.linear
        values = shape.value_heads * shape.value_dim if shape else model.heads * model.head_dim
        total += 2 * 3 * values * tokens / self.pool.tensor / (self.bandwidth * use.stream_bf16)
        if shape is None or shape.conv < 2:
            return total
        channels = 2 * shape.key_heads * shape.key_dim + values
        return total + 2 * 2 * channels * tokens / self.pool.tensor / (self.bandwidth * use.convolution)

    def decode(self, kind: str, context: int) -> float:
        """One decoding request in one attending layer, key by key."""
        model, use, tensor = self.pool.model, self.use, self.pool.tensor
        seen = min(context, model.window) if kind == "window" else context
        values = model.mla.kv_rank + model.mla.rope_dim if model.mla else 2 * model.kv_heads * model.head_dim
        byte, flops = 0.0, 0.0
        for _ in range(seen):
            byte += values * BITS[self.pool.kv] / 8 * self.copies() / tensor
            if model.mla:
                flops += 2 * model.heads / tensor * (2 * model.mla.kv_rank + model.mla.rope_dim)
            else:
                flops += 4 * model.heads / tensor * model.head_dim
        if model.mla:
            return max(byte / (self.bandwidth * use.mla_decode), flops / (self.bf16 * use.mla_decode_flops))
        reached = use.attention_decode_bf16 if self.pool.kv == "bf16" else use.attention_decode_fp8
        return max(byte / (self.bandwidth * reached), flops / (self.bf16 * use.attention_prefill))

    def prefill(self, chunk: Chunk) -> float:
        """One chunk in all attending layers: each query meets each key that it sees."""
        model, use, tensor = self.pool.model, self.use, self.pool.tensor
        mla = model.mla
        width = mla.nope_dim + mla.rope_dim + mla.value_dim if mla else 2 * model.head_dim
        values = mla.kv_rank + mla.rope_dim if mla else 2 * model.kv_heads * model.head_dim
        total = 0.0
        for window in [0] * model.full_layers + [model.window] * model.window_layers:
            keys: set[int] = set()
            pairs = 0
            for position in range(chunk.context, chunk.context + chunk.tokens):
                first = max(0, position + 1 - window) if window else 0
                keys.update(range(first, position + 1))
                pairs += position + 1 - first
            math = 2 * model.heads / tensor * width * pairs / (self.bf16 * use.attention_prefill)
            byte = values * BITS[self.pool.kv] / 8 * self.copies() / tensor * len(keys)
            total += max(math, byte / (self.bandwidth * use.stream_bf16))
            if mla:
                raised = mla.kv_rank * model.heads / tensor * (mla.nope_dim + mla.value_dim) * chunk.context
                total += 2 * raised / self.gemm_peak("attention")
        return total

    def link(self, ranks: int) -> tuple[float, float, bool]:
        """(α, β, direct)."""
        device, use = self.pool.device, self.use
        if ranks <= device.scaleup_domain:
            return use.collective_s, device.scaleup_bw * use.link, True
        near = device.scaleup_domain == 1 and ranks <= 8
        host = device.host_bw if device.scaleup_bw else min(device.host_bw, 32e9)  # copies through the host's memory
        order = (host, device.scaleout_bw) if near else (device.scaleout_bw, device.host_bw)
        return use.far_s, (order[0] or order[1]) * (use.host_link if near else use.link), False

    def messages(self, dense: bool, tokens: float) -> float:
        pool, model = self.pool, self.pool.model
        token, n = 2 * model.hidden, pool.tensor
        total = 0.0
        if n > 1:
            alpha, beta, direct = self.link(n)
            size = tokens * token
            ring = 2 * (n - 1) * (alpha + size / n / beta)
            best = min(alpha + (n - 1) * size / beta, 2 * alpha + 2 * (n - 1) / n * size / beta) if direct else ring
            inside = pool.device.scaleup_domain
            if n > inside > 1 and n % inside == 0:
                near, wide, _ = self.link(inside)
                hosts, part = n // inside, size / inside
                best = 2 * (near + (inside - 1) * part / wide) + 2 * (hosts - 1) * (alpha + part / hosts / beta)
            total += best * (2 if dense or pool.data == 1 else 1)
        if not dense and pool.data > 1:
            assert model.moe is not None
            n = pool.expert if pool.expert > 1 else pool.tensor * pool.data
            alpha, beta, direct = self.link(pool.tensor * pool.data)
            sent, everywhere = tokens / pool.tensor * model.moe.active, tokens * pool.data
            size = token * (sent if pool.expert > 1 else everywhere)
            total += 2 * ((alpha if direct else (n - 1) * alpha) + (n - 1) / n * size / beta)
        return total

    def hop(self, tokens: float) -> float:
        if self.pool.pipeline == 1:
            return 0.0
        alpha, beta, _ = self.link(self.pool.devices)
        return alpha + tokens * 2 * self.pool.model.hidden / beta

    def head(self, sampled: float) -> float:
        use, model, n = self.use, self.pool.model, self.pool.tensor
        weights = model.vocab * model.hidden / n
        total = self.product({"head": weights}, sampled)
        total += use.gemm_s if self.pool.precision.head.format == "bf16" else use.quantised_gemm_s
        total += use.light_s + use.sample_s + use.sample_sequence_s * sampled
        if n > 1:
            alpha, beta, direct = self.link(n)
            total += (alpha if direct else (n - 1) * alpha) + (n - 1) / n * sampled * model.vocab * 2 / beta
        return total
