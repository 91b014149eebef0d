"""MoE-Gen: modules of an offloaded mixture of experts batched by themselves."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.policy import Batcher
from poise.core.records.records import Records
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.moe_gen import SHARES, Offloaded, Plan
from poise.cost.term import Termed
from poise.cost.terms.moe_gen import MoeGen
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.static_batch import StaticBatch
from poise.workload import closed

A5000 = replace(
    device("A10"), name="A5000", bf16_flops=111e12, memory_bw=768e9, memory_bytes=24 * 1024**3, host_bw=32e9, source=""
)
"""NVIDIA's data sheet: 222 TFLOP/s of sparse tensor arithmetic with 32-bit sums, so 111 of dense; 768 GB/s."""

MODELS = {"mixtral-8x7b": 469, "mixtral-8x22b": 91, "deepseek-v2": 31}
"""Decode tokens per second as published, outputs of 256."""

CONTEXT, PROMPT, OUTPUT = 512 + 128, 512, 256
SIZES = (500, 2000, 8000)
"""Requests of an offline load."""


def measure(bench: Bench) -> Findings:
    """Models × plans by closed forms; models × numbers of requests × batchers in the simulator."""
    engines = {name: Offloaded(model(name), A5000) for name in MODELS}
    plans = {name: each.best(CONTEXT) for name, each in engines.items()}
    rates = {name: plans[name].requests / each.decode_s(plans[name], CONTEXT) for name, each in engines.items()}
    gains = {
        name: rates[name] * each.model_based_s(each.model_batch(CONTEXT), CONTEXT) / each.model_batch(CONTEXT)
        for name, each in engines.items()
    }
    near = {name: rates[name] / paper for name, paper in MODELS.items()}
    first = engines["mixtral-8x7b"]
    whole = first.host_batch(PROMPT)
    prefill = (whole / first.prefill_s(whole, PROMPT)) / (64 / first.prefill_s(64, PROMPT))
    shares = [at / 10 for at in range(11)]
    curve = {
        name: [plans[name].requests / each.decode_s(plans[name]._replace(on_cpu=share), CONTEXT) for share in shares]
        for name, each in engines.items()
    }
    best = {name: shares[row.index(max(row))] for name, row in curve.items()}
    knee = first.knee()
    batches = [2**at for at in range(4, 21)]
    bare = [n / first.decode_s(Plan(n, 1.0), 1) for n in batches]
    saturates = next(n for n, rate in zip(batches, bare, strict=True) if rate >= 0.9 * bare[-1])
    rising = gains["mixtral-8x7b"] < gains["deepseek-v2"]
    criteria = [
        Answer("gain", "; ".join(f"{name}: {gain:.1f} times" for name, gain in gains.items()), list(gains.values())),
        Answer(
            "rates",
            "; ".join(
                f"{name}: {rate:.0f} (plan: {plans[name].requests} requests, ω {plans[name].on_cpu})"
                for name, rate in rates.items()
            ),
            list(near.values()),
        ),
        Answer("sparsity", "; ".join(f"{name}: {gain:.1f} times" for name, gain in gains.items()), rising),
        Answer("on the CPU", ", ".join(f"{name}: {each}" for name, each in best.items()), list(best.values())),
        Answer(
            "saturation",
            f"knee at {knee:,.0f} tokens an expert; 90 % of the most from {first.tokens_per_expert(saturates):,.0f} on",
            first.tokens_per_expert(saturates) / knee,
        ),
        Answer("prefill", f"{prefill:.2f} times", prefill),
    ]
    lines = {name: [Point(*each) for each in zip(shares, row, strict=True)] for name, row in curve.items()}
    simulated, gained = _simulated(bench, engines)
    return Findings(
        [*criteria, *simulated],
        [Curve("Decode tokens per second", "part of attention on the CPU", "number", lines), gained],
    )


def _simulated(bench: Bench, engines: dict[str, Offloaded]) -> tuple[list[Answer], Curve]:
    """One batch as large as memory allows by static batching, and offline loads by continuous batching."""
    modules, whole = MoeGen(), MoeGen(whole=True)
    decode: dict[str, tuple[float, float]] = {}
    gains: dict[str, list[float]] = {}
    near: dict[str, float] = {}
    for name, each in engines.items():
        most, few = each.host_batch(PROMPT + OUTPUT), each.model_batch(PROMPT + OUTPUT)
        batches = ((modules, most), (whole, few))
        one, two = (_decoding(_run(bench, name, term, n, n, StaticBatch(n))) for term, n in batches)
        decode[name] = one, two
        plans = [Plan(most, share, each.keepable()) for share in SHARES]
        near[name] = one / max(most / each.decode_s(plan, CONTEXT) for plan in plans)
        gains[name] = [
            _ended(_run(bench, name, whole, few, bench.requests(size), Chunked()))
            / _ended(_run(bench, name, modules, most, bench.requests(size), Chunked()))
            for size in SIZES
        ]
    ratios = {name: one / two for name, (one, two) in decode.items()}
    criteria = [
        Answer(
            "gain, simulated",
            "; ".join(
                f"{name}: {one:.0f} over {two:.1f} tokens per second, {ratios[name]:.1f} times"
                for name, (one, two) in decode.items()
            ),
            list(ratios.values()),
        ),
        Answer(
            "closed form", "; ".join(f"{name}: {each:.3f} times" for name, each in near.items()), list(near.values())
        ),
        Answer(
            "continuous",
            "; ".join(f"{name}: {', '.join(f'{gain:.2f}' for gain in row)}" for name, row in gains.items())
            + f" times at {', '.join(map(str, SIZES))} requests",
            [gain for row in gains.values() for gain in row],
        ),
    ]
    lines = {name: [Point(*each) for each in zip(SIZES, row, strict=True)] for name, row in gains.items()}
    return criteria, Curve("Throughput over whole batches, continuous batching", "requests", "number", lines)


def _run(bench: Bench, name: str, term: MoeGen, most: int, requests: int, batcher: Batcher) -> Records:
    """An offline load on one device; prompts of a whole batch may share a step."""
    engine = Engine(max_sequences=most, token_budget=most * PROMPT, prefix_caching=False)
    load = closed(requests, requests, prompt_tokens=PROMPT, output_tokens=OUTPUT)
    pool = Pool(model(name), A5000, engine=engine)
    return bench.simulate(
        Cluster((pool,)), load, Policies(batcher=batcher), cost=Termed(Roofline(), (term,))
    ).run.records


def _ended(records: Records) -> float:
    """Seconds until the last request has ended."""
    return max(records.ended_at) / SECOND


def _decoding(records: Records) -> float:
    """Tokens per second of one batch from its last first token on."""
    return records.rows * (OUTPUT - 1) / (_ended(records) - max(records.first_token_at) / SECOND)
