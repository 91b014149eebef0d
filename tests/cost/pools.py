"""Devices, models and pools for the cost tests: datasheet figures, real shapes, and small random ones."""

from __future__ import annotations

from hypothesis import strategies as st

from poise.core.estimate import Chunk, Estimator, StepShape
from poise.core.model import Linear, Mla, Model, Moe
from poise.core.spec import Device, Engine, Pool

H100 = Device(
    "H100",
    "NVIDIA",
    bf16_flops=989e12,
    memory_bytes=85_520_000_000,
    memory_bw=3.35e12,
    fp8_flops=1979e12,
    int8_ops=1979e12,
    scaleup_bw=450e9,
    scaleup_domain=8,
    host_bw=64e9,
    scaleout_bw=50e9,
)
PCIE = Device("PCIe card", "any", bf16_flops=165e12, memory_bytes=25_250_627_584, memory_bw=1.008e12, host_bw=32e9)

LLAMA_8B = Model("Llama-3.1-8B", 32, 4096, 32, 8, 128, 128256, 14336, 131072)
LLAMA_70B = Model("Llama-3.1-70B", 80, 8192, 64, 8, 128, 128256, 28672, 131072)
DEEPSEEK_V3 = Model(
    "DeepSeek-V3",
    61,
    7168,
    128,
    128,
    192,
    129280,
    18432,
    131072,
    mla=Mla(512, 64, 128, 128, q_rank=1536),
    moe=Moe(experts=256, active=8, ffn=2048, layers=58, shared=1, shared_ffn=2048),
)
GEMMA = Model("Gemma-3-27B", 62, 5376, 32, 16, 128, 262144, 21504, 131072, tied=True, window=1024, window_layers=52)
HYBRID = Model(
    "hybrid",
    48,
    2048,
    16,
    2,
    256,
    151936,
    5120,
    262144,
    linear_layers=36,
    linear=Linear(16, 32, 128, 128),
    moe=Moe(experts=512, active=10, ffn=512, layers=48, shared=1, shared_ffn=512),
)
REAL = (LLAMA_8B, LLAMA_70B, DEEPSEEK_V3, GEMMA, HYBRID)


@st.composite
def models(draw: st.DrawFn) -> Model:
    """Small models of every kind: grouped heads or latents, windows, linear layers, dense and MoE blocks."""
    layers = draw(st.integers(1, 6))
    window_layers = draw(st.integers(0, layers))
    linear_layers = draw(st.integers(0, layers - window_layers))
    kv_heads = draw(st.sampled_from((1, 2, 4, 8)))
    latent = window_layers == 0 and draw(st.booleans())
    moe = None
    if draw(st.booleans()):
        experts = draw(st.sampled_from((4, 8, 64)))
        moe = Moe(
            experts,
            draw(st.integers(1, 4)),
            64 * draw(st.integers(1, 16)),
            draw(st.integers(1, layers)),
            shared=draw(st.integers(0, 2)),
            shared_ffn=128,
        )
    return Model(
        "small",
        layers,
        256 * draw(st.integers(1, 8)),
        16,
        kv_heads,
        64,
        draw(st.integers(1000, 50_000)),
        512 * draw(st.integers(1, 8)),
        100_000,
        gated=draw(st.booleans()),
        tied=draw(st.booleans()),
        window=draw(st.integers(1, 40)) if window_layers else 0,
        window_layers=window_layers,
        linear_layers=linear_layers,
        mla=Mla(128, 16, 32, 48, q_rank=draw(st.sampled_from((0, 96)))) if latent else None,
        moe=moe,
        linear=Linear(4, 8, 32, 64) if draw(st.booleans()) else None,
        extra_parameters=draw(st.integers(0, 1000)),
    )


@st.composite
def pools(draw: st.DrawFn, spread: bool = True) -> Pool:
    """Pools of small models; `spread`: with data ranks, stages and expert ranks too."""
    model = draw(models())
    tensor = draw(st.sampled_from((1, 2, 4, 8, 16)))
    data = draw(st.sampled_from((1, 2, 4))) if spread else 1
    return Pool(
        model,
        draw(st.sampled_from((H100, PCIE))),
        tensor=tensor,
        data=data,
        pipeline=draw(st.integers(1, min(3, model.layers))) if spread else 1,
        expert=draw(st.sampled_from([n for n in (1, 2, 4, 8) if (tensor * data) % n == 0])),
        weights=draw(st.sampled_from(("bf16", "fp8", "int8", "int4", "fp4"))),
        kv=draw(st.sampled_from(("bf16", "fp8"))),
        engine=Engine(max_sequences=8, token_budget=64),
    )


shares = st.sampled_from((0.1, 0.3, 0.5, 0.9, 1.0))


def cost(estimator: Estimator, shape: StepShape, context: int) -> int:
    """Picoseconds of a step whose decodes all have `context` tokens."""
    piece, window = estimator.step(shape), estimator.window
    return piece.base + shape.decodes * (piece.per_kv * context + piece.per_window * min(context, window))


def more_work(
    decodes: int, new: int, earlier: int, context: int, extra: int, share: float
) -> tuple[tuple[StepShape, int], ...]:
    """Steps with more work than decodes at `context` beside one chunk, each with the context of its decodes."""
    return (
        (StepShape(decodes, (Chunk(new + extra, earlier),), share), context),
        (StepShape(decodes, (Chunk(new, earlier + extra),), share), context),
        (StepShape(decodes, (Chunk(new, earlier), Chunk(extra, 0)), share), context),
        (StepShape(decodes, (Chunk(new, earlier),), share), context + extra),
    )
