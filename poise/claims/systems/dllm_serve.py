"""dLLM-Serve: phases of diffusion models that mix, and logits under a cap."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from statistics import geometric_mean

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.policy import Router
from poise.core.records.records import Records
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline, kv_blocks
from poise.cost.dllm_serve import Aligned, Composer, Denoising, Memory, Multiplexed, Request, Served, serve
from poise.cost.term import Termed
from poise.cost.terms.dllm_serve import LOGIT_BYTES, DllmServe
from poise.policies import Policies
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.static_batch import StaticBatch
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.round_robin import RoundRobin
from poise.workload import Workload, lognormal, poisson

DEVICES, LOADS = ("RTX-4090", "L40S"), (0.5, 0.8, 1.0, 1.5, 3.0)
VOCABULARY = 126_464
"""LLaDA's; the term takes that of the model's shape, which is 1 % more."""

PROMPT, OUTPUT, REPLICAS = 300, 128, 2

WAYS: dict[str, tuple[Composer, float, bool]] = {
    "static": (Aligned(), 0.0, True),
    "static, capped": (Aligned(), 256e6, True),
    "mixed, whole logits": (Multiplexed(), 0.0, False),
    "mixed, capped": (Multiplexed(), 256e6, False),
}

ROUTERS: dict[str, type[Router]] = {"least_requests": LeastRequests, "round_robin": RoundRobin}
STATIC, PHASED, MIXED = "static, whole logits", "aligned, capped", "mixed, capped"
TERMS = {STATIC: DllmServe(refresh="aligned", cap_mb=0.0), PHASED: DllmServe(refresh="aligned"), MIXED: DllmServe()}
"""What is simulated; the first by static batching, the others by continuous batching."""


def measure(bench: Bench) -> Findings:
    """Devices × loads (over the rate of static batches) × ways to serve, as events; × routers × seeds, simulated."""
    runs = {kind: _device(kind, bench.requests(300)) for kind in DEVICES}
    gains = {kind: row["static"][-1].ends_s / row["mixed, capped"][-1].ends_s for kind, row in runs.items()}
    tails = {
        kind: [
            _p99(one.latencies) / _p99(two.latencies)
            for one, two in zip(row["static"], row["mixed, capped"], strict=True)
        ]
        for kind, row in runs.items()
    }
    alone = {
        name: {kind: row["static"][-1].ends_s / row[name][-1].ends_s for kind, row in runs.items()} for name in WAYS
    }
    tail = max(max(row) for row in tails.values())
    criteria = [
        Answer(
            "throughput", "; ".join(f"{kind}: {gain:.2f} times" for kind, gain in gains.items()), list(gains.values())
        ),
        Answer(
            "tails",
            "; ".join(f"{kind}: {', '.join(f'{each:.2f}' for each in row)}" for kind, row in tails.items())
            + f" times at {', '.join(map(str, LOADS))}",
            [sum(each > 1 for each in row) for row in tails.values()],
        ),
        Answer("tail at most", f"{tail:.1f} times", tail),
        Answer(
            "parts",
            "; ".join(
                f"{name}: {', '.join(f'{gain:.2f} on {kind}' for kind, gain in alone[name].items())}"
                for name in ("static, capped", "mixed, whole logits")
            ),
            [gain for name in ("static, capped", "mixed, whole logits") for gain in alone[name].values()],
        ),
    ]
    lines = {
        f"{kind}, {name}": [Point(load, _p99(each.latencies)) for load, each in zip(LOADS, row[name], strict=True)]
        for kind, row in runs.items() for name in ("static", "mixed, capped")
    }  # fmt: skip
    simulated, behind = _simulated(bench)
    return Findings(
        [*criteria, *simulated],
        [Curve("P99 latency", "load over that of static batches", "seconds", lines), behind],
    )


Tails = dict[tuple[str, str, float], list[float]]
"""P99 latencies over seeds, by device, way and load."""


def _simulated(bench: Bench) -> tuple[list[Answer], Curve]:
    """Two replicas behind each router, by the term."""
    most = {kind: {name: _run(bench, kind, name, LeastRequests(), 1e3, 2) for name in TERMS} for kind in DEVICES}
    ends = {kind: {name: max(each.ended_at) for name, each in row.items()} for kind, row in most.items()}
    gains = {kind: row[STATIC] / row[MIXED] for kind, row in ends.items()}
    tails: dict[str, Tails] = {router: {} for router in ROUTERS}
    for router, kind, name, load in product(ROUTERS, DEVICES, TERMS, LOADS[:4]):
        rate = load * bench.requests(300) / (ends[kind][STATIC] / SECOND)
        tails[router][kind, name, load] = [
            _tail(_run(bench, kind, name, ROUTERS[router](), rate, seed)) for seed in range(1, bench.seeds(5) + 1)
        ]
    criteria = [
        *(_ahead(router, tails[router], STATIC) for router in ROUTERS),
        *(_ahead(router, tails[router], PHASED) for router in ROUTERS),
        Answer(
            "throughput, simulated",
            "; ".join(f"{kind}: {gain:.2f} times" for kind, gain in gains.items()),
            list(gains.values()),
        ),
    ]
    tail = tails["least_requests"]
    lines = {
        f"{kind}, {name}": [Point(load, geometric_mean(tail[kind, name, load])) for load in LOADS[:4]]
        for kind in DEVICES for name in (STATIC, MIXED)
    }  # fmt: skip
    return criteria, Curve("P99 latency of two replicas", "load over that of static batches", "seconds", lines)


def _ahead(router: str, tails: Tails, other: str) -> Answer:
    """Mixed phases beside another way, seed by seed."""
    shares = {
        kind: [
            [one / two for one, two in zip(tails[kind, other, load], tails[kind, MIXED, load], strict=True)]
            for load in LOADS[:4]
        ]
        for kind in DEVICES
    }
    _paper, _why = "phases that mix are a part of the gain", "with 8 requests at once arithmetic binds blocks, too"
    if other == STATIC:
        pass
    return Answer(
        f"{router}, against {other}",
        "; ".join(
            f"{kind}: " + ", ".join(f"{geometric_mean(each):.2f} ({min(each):.2f} to {max(each):.2f})" for each in row)
            for kind, row in shares.items()
        )
        + f" times at {', '.join(map(str, LOADS[:4]))}",
        [sum(min(each) > 1 for each in row) for row in shares.values()],
    )


def _run(bench: Bench, kind: str, name: str, router: Router, rate: float, seed: int) -> Records:
    """A load on two replicas that run as many requests at once as whole sequences fit."""
    term, engine = TERMS[name], Engine(prefix_caching=False)
    pool = Pool(model("llama-3-8b"), device(kind), replicas=REPLICAS, engine=engine)
    most = kv_blocks(term.held(pool)) * engine.block_tokens // (PROMPT + OUTPUT)
    budget = max(engine.token_budget, most * PROMPT)
    pool = replace(pool, engine=replace(engine, max_sequences=most, token_budget=budget))
    batcher = StaticBatch(most) if name == STATIC else Chunked()
    load, cost = _load(rate, bench.requests(300), seed), Termed(Roofline(), (term,))
    return bench.simulate(Cluster((pool,)), load, Policies(router=router, batcher=batcher), cost=cost).run.records


def _load(rate: float, requests: int, seed: int) -> Workload:
    prompts, outputs = lognormal(PROMPT, 0.8), lognormal(OUTPUT, 0.5)
    return poisson(rate, requests=requests, prompt_tokens=prompts, output_tokens=outputs, seed=seed)


def _tail(records: Records) -> float:
    pairs = zip(records.ended_at, records.arrived_at, strict=True)
    return _p99([(end - at) / SECOND for end, at in pairs])


def _device(kind: str, requests: int) -> dict[str, list[Served]]:
    """What each way serves on a device at each load."""
    shape, card = model("llama-3-8b"), device(kind)
    estimator = Roofline().build(Pool(shape, card))
    kv = shape.kv_bytes_per_token(16)
    free = 0.9 * card.memory_bytes - shape.weight_bytes(16)

    def run(name: str, rate: float) -> Served:
        composer, cap, static = WAYS[name]
        load = _load(rate, requests, 2)
        rows = [
            Request(int(prompt), int(output), float(at) / SECOND)
            for at, prompt, output in zip(load.arrival, load.prompt, load.output, strict=True)
        ]
        memory = Memory(free, kv, VOCABULARY * LOGIT_BYTES, cap)
        return serve(rows, composer, estimator, memory, Denoising(), static=static)

    most = requests / run("static", 1e3).ends_s
    return {name: [run(name, load * most) for load in LOADS] for name in WAYS}


def _p99(latencies: list[float]) -> float:
    ordered = sorted(latencies)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
