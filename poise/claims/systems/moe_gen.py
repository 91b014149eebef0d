"""MoE-Gen: modules of an offloaded mixture of experts batched by themselves."""

from __future__ import annotations

from dataclasses import replace

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.policy import Batcher
from poise.core.records import Records
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

CLAIM = Claim(
    system="MoE-Gen",
    paper="arXiv 2503.09716",
    year=2025,
    slot="cost",
    policies=("terms/moe_gen", "moe_gen"),
    others=("chunked", "static_batch"),
    headline="8 to 31 times the decode throughput of systems that batch the whole model; prefill 1.06 times",
    conditions="one A5000 with 24 GB and PCIe 4 at 32 GB/s, 512 GB of host memory, prompts of 512 and outputs of 256 "
    "or 1,024 tokens; Mixtral-8x7B 469 tokens per second, 8x22B 91, DeepSeek-V2 31",
    here="closed forms at half of the arithmetic and four fifths of the bandwidth, a CPU that reads KV at 100 GB/s; "
    "the baseline runs the model on as many requests as the device's memory holds, with every touched expert fetched; "
    "simulated are offline batches of 512/256 tokens by the term, with as many requests at once as memory holds",
    trust="notes",
)

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
    inside = all(0 < each < 1 for each in best.values())
    close = all(0.5 <= each <= 1.5 for each in near.values())
    criteria = [
        Criterion(
            "Module batching decodes faster, and the most that it gains is 8 to 31 times within a factor 2",
            "8 to 31 times", "; ".join(f"{name}: {gain:.1f} times" for name, gain in gains.items()),
            min(gains.values()) > 1 and 4 <= max(gains.values()) <= 62, headline=True,
        ),
        Criterion(
            "Decode throughput is the published one within half of it, for each model",
            ", ".join(f"{name} {paper}" for name, paper in MODELS.items()),
            "; ".join(f"{name}: {rate:.0f} (plan: {plans[name].requests} requests, ω {plans[name].on_cpu})"
                      for name, rate in rates.items()), close,
            why="" if close else "routing is uniform and fetches hide perfectly here, and nothing of the host's own "
            "work is counted",
        ),
        Criterion(
            "The gain rises with sparsity", "7 to 13 times and more for sparser models",
            "; ".join(f"{name}: {gain:.1f} times" for name, gain in gains.items()), rising,
            why="" if rising else "DeepSeek-V2's latents are so small that the baseline has many requests, too",
        ),
        Criterion(
            "The best part of attention on the CPU lies inside", "about 0.6",
            ", ".join(f"{name}: {each}" for name, each in best.items()), inside,
            why="" if inside else "fetching experts keeps the link busy, so all KV is better read by the CPU",
        ),
        Criterion(
            "Without KV, decoding saturates where an expert's arithmetic takes as long as its fetch, within an octave",
            "2^10 to 2^11 tokens an expert", f"knee at {knee:,.0f} tokens an expert; 90 % of the most from "
            f"{first.tokens_per_expert(saturates):,.0f} on", 0.5 <= first.tokens_per_expert(saturates) / knee <= 2,
        ),
        Criterion(
            "Prefill of Mixtral-8x7B gains 6 % within half of it over batches of 64 prompts", "1.06 times",
            f"{prefill:.2f} times", 1.03 <= prefill <= 1.09,
            why="" if 1.03 <= prefill <= 1.09 else "batches of 64 prompts hide the fetch here",
        ),
    ]  # fmt: skip
    lines = {name: [Point(*each) for each in zip(shares, row, strict=True)] for name, row in curve.items()}
    simulated, gained = _simulated(bench, engines)
    return Findings(
        [*criteria, *simulated],
        [Curve("Decode tokens per second", "part of attention on the CPU", "number", lines), gained],
    )


def _simulated(bench: Bench, engines: dict[str, Offloaded]) -> tuple[list[Criterion], Curve]:
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
    agrees = all(0.99 <= each <= 1.05 for each in near.values())
    criteria = [
        Criterion(
            "Simulated, one static batch decodes faster than one of the whole model, and the most is within a factor 2",
            "8 to 31 times",
            "; ".join(f"{name}: {one:.0f} over {two:.1f} tokens per second, {ratios[name]:.1f} times"
                      for name, (one, two) in decode.items()),
            min(ratios.values()) > 1 and 4 <= max(ratios.values()) <= 62, headline=True,
        ),
        Criterion(
            "The simulator decodes no slower than the closed form of the best tenth of ω, and up to 5 % faster",
            "the plan is searched in a model of this kind",
            "; ".join(f"{name}: {each:.3f} times" for name, each in near.items()), agrees,
            why="" if agrees else "ω is chosen anew at each step",
        ),
        Criterion(
            "With continuous batching, prompts included, offline loads of 3 sizes end sooner, for each model",
            "module batching is ahead",
            "; ".join(f"{name}: {', '.join(f'{gain:.2f}' for gain in row)}" for name, row in gains.items())
            + f" times at {', '.join(map(str, SIZES))} requests",
            all(gain > 1 for row in gains.values() for gain in row),
        ),
    ]  # fmt: skip
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
