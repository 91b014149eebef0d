"""dLLM-Serve: phases of diffusion models that mix, logits under a cap, and KV of the tokens that matter to a head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from statistics import geometric_mean
from typing import NamedTuple

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
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
LLADA = replace(model("llama-2-7b"), name="LLaDA-8B", ffn=12_288, vocab=126_464)
"""Its shape: keys and values of every head, as Llama 2's (arXiv 2502.09992)."""
KEPT = 0.5
"""The part of tokens that a head keeps, the default of the authors' code."""
EVERY, BUDGET = 16, 16_384
"""Steps from one refresh to the next, and tokens of a step: in their code the first two of a block's 32 steps compute
the whole sequence, here one in 16."""

PROMPT, OUTPUT, REPLICAS = 300, 128, 2


class Way(NamedTuple):
    """How one device serves; cap: bytes for logits, 0 for those of all positions."""

    composer: Composer
    cap: float = 0.0
    static: bool = False
    kept: float = 1.0


ALL, BASE = "dLLM-Serve", "static"
WAYS = {
    BASE: Way(Aligned(), static=True),
    "static, capped": Way(Aligned(), 256e6, static=True),
    "static, sparse": Way(Aligned(), static=True, kept=KEPT),
    "mixed, whole logits": Way(Multiplexed()),
    "mixed, capped": Way(Multiplexed(), 256e6),
    ALL: Way(Multiplexed(), 256e6, kept=KEPT),
}

ROUTERS: dict[str, type[Router]] = {"least_requests": LeastRequests, "round_robin": RoundRobin}
STATIC, PHASED, MIXED = "static, whole logits", "aligned, capped", "mixed, capped, sparse"
TERMS = {
    STATIC: DllmServe(every=EVERY, refresh="aligned", cap_mb=0.0),
    PHASED: DllmServe(every=EVERY, refresh="aligned"),
    MIXED: DllmServe(every=EVERY, kept=KEPT),
}
"""What is simulated; the first by static batching, the others by continuous batching."""


def measure(bench: Bench) -> Findings:
    """Devices × loads (over the rate of static batches) × ways to serve × seeds, as events; × routers, simulated."""
    seeds = range(1, bench.seeds(5) + 1)
    most = {kind: {name: [_served(bench, kind, name, 1e3, seed).ends_s for seed in seeds] for name in WAYS}
            for kind in DEVICES}  # fmt: skip
    gains = {kind: {name: ratio(each, row[BASE]) for name, each in row.items()} for kind, row in most.items()}
    tails = {
        kind: {
            name: [[_p99(_served(bench, kind, name, load * bench.requests(300) / row[BASE][seed - 1], seed).latencies)
                    for seed in seeds] for load in LOADS]
            for name in (BASE, ALL)
        }
        for kind, row in most.items()
    }  # fmt: skip
    shorter = {
        kind: [ratio(one, other) for one, other in zip(row[ALL], row[BASE], strict=True)] for kind, row in tails.items()
    }
    parts = {name: [gains[kind][name] for kind in DEVICES] for name in list(WAYS)[1:-1]}
    criteria = [
        Answer(
            "throughput",
            _worded({kind: [row[ALL]] for kind, row in gains.items()}),
            [row[ALL] for row in gains.values()],
        ),
        Answer("tails", _worded(shorter) + _at(LOADS), [_third(row) for row in shorter.values()]),
        Answer("tail at most", _worded(shorter), max((each for row in shorter.values() for each in row), key=_value)),
        Answer("parts", _worded(parts), [each for row in parts.values() for each in row]),
    ]
    lines = {
        f"{kind}, {name}": [Point(load, geometric_mean(each)) for load, each in zip(LOADS, found, strict=True)]
        for kind, row in tails.items() for name, found in row.items()
    }  # fmt: skip
    simulated, behind = _simulated(bench)
    curve = Curve("P99 latency", "load over that of static batches", "seconds", lines)
    return Findings([*criteria, *simulated], [curve, behind])


def _worded(found: Mapping[str, Sequence[Ratio]]) -> str:
    return "; ".join(f"{name}: {', '.join(map(times, row))}" for name, row in found.items())


def _at(loads: Sequence[float]) -> str:
    return f" at {', '.join(map(str, loads))}"


def _value(found: Ratio) -> float:
    return found.value or 0.0


def _third(row: Sequence[Ratio]) -> Ratio:
    """The ratio that three loads reach or exceed, by their lower ends."""
    return sorted(row, key=lambda each: each.low or 0.0)[-3]


Tails = dict[tuple[str, str, float], list[float]]
"""P99 latencies over seeds, by device, way and load."""


def _simulated(bench: Bench) -> tuple[list[Answer], Curve]:
    """Two replicas behind each router, by the term."""
    seeds = range(1, bench.seeds(5) + 1)
    ends = {kind: {name: [max(_run(bench, kind, name, LeastRequests(), 1e3, seed).ended_at) for seed in seeds]
                   for name in (STATIC, MIXED)} for kind in DEVICES}  # fmt: skip
    gains = {kind: ratio(row[MIXED], row[STATIC]) for kind, row in ends.items()}
    tails: dict[str, Tails] = {router: {} for router in ROUTERS}
    for router, kind, name, load in product(ROUTERS, DEVICES, TERMS, LOADS[:4]):
        tails[router][kind, name, load] = [
            _tail(_run(bench, kind, name, ROUTERS[router](), load * bench.requests(300) / (end / SECOND), seed))
            for seed, end in zip(seeds, ends[kind][STATIC], strict=True)
        ]
    criteria = [
        *(_ahead(router, tails[router], STATIC) for router in ROUTERS),
        *(_ahead(router, tails[router], PHASED) for router in ROUTERS),
        Answer("throughput, simulated", _worded({kind: [each] for kind, each in gains.items()}), list(gains.values())),
    ]
    tail = tails["least_requests"]
    lines = {
        f"{kind}, {name}": [Point(load, geometric_mean(tail[kind, name, load])) for load in LOADS[:4]]
        for kind in DEVICES for name in (STATIC, MIXED)
    }  # fmt: skip
    return criteria, Curve("P99 latency of two replicas", "load over that of static batches", "seconds", lines)


def _ahead(router: str, tails: Tails, other: str) -> Answer:
    """Mixed phases beside another way, at three loads or more on each device."""
    shorter = {
        kind: [ratio(tails[kind, MIXED, load], tails[kind, other, load]) for load in LOADS[:4]] for kind in DEVICES
    }
    text = _worded(shorter) + _at(LOADS[:4])
    return Answer(f"{router}, against {other}", text, [_third(row) for row in shorter.values()])


def _run(bench: Bench, kind: str, name: str, router: Router, rate: float, seed: int) -> Records:
    """A load on two replicas that run as many requests at once as whole sequences fit."""
    term, engine = TERMS[name], Engine(prefix_caching=False)
    pool = Pool(LLADA, device(kind), replicas=REPLICAS, engine=engine)
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


def _served(bench: Bench, kind: str, name: str, rate: float, seed: int) -> Served:
    """What one way serves on a device at a load."""
    card, way = device(kind), WAYS[name]
    load = _load(rate, bench.requests(300), seed)
    rows = [
        Request(int(prompt), int(output), float(at) / SECOND)
        for at, prompt, output in zip(load.arrival, load.prompt, load.output, strict=True)
    ]
    free = 0.9 * card.memory_bytes - LLADA.weight_bytes(16)
    memory = Memory(free, LLADA.kv_bytes_per_token(16) * way.kept, LLADA.vocab * LOGIT_BYTES, way.cap)
    estimator = Roofline().build(Pool(LLADA, card))
    return serve(rows, way.composer, estimator, memory, Denoising(every=EVERY, kept=way.kept), BUDGET, way.static)


def _p99(latencies: list[float]) -> float:
    ordered = sorted(latencies)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
