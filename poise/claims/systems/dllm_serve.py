"""dLLM-Serve: phases of diffusion models that mix, and logits under a cap."""

from __future__ import annotations

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.dllm_serve import Aligned, Composer, Denoising, Memory, Multiplexed, Request, Served, serve
from poise.workload import lognormal, poisson

CLAIM = Claim(
    system="dLLM-Serve",
    paper="arXiv 2512.17077",
    year=2025,
    slot="cost",
    policies=("dllm_serve",),
    headline="1.61 to 1.81 times the throughput on RTX 4090 and 1.60 to 1.74 on L40S, tails about 4 times shorter",
    conditions="LLaDA-8B; LiveBench, Burst and OSC; against other engines for diffusion models; with head-centric "
    "sparsity besides",
    here="a model of LLaDA-8B's shape by the roofline, blocks of 32 tokens and steps, a refresh every 8 steps, prompts "
    "of 300 and outputs of 128 tokens in the mean; static batches whose steps are aligned and whose logits are whole "
    "against mixed phases under a cap of 256 MB; no sparsity",
    trust="notes",
)

DEVICES, LOADS = ("RTX-4090", "L40S"), (0.5, 0.8, 1.0, 1.5, 3.0)
VOCABULARY, LOGIT_BYTES = 126_464, 4 + 4
"""LLaDA's vocabulary; a logit and its probability in 32 bits."""

WAYS: dict[str, tuple[Composer, float, bool]] = {
    "static": (Aligned(), 0.0, True),
    "static, capped": (Aligned(), 256e6, True),
    "mixed, whole logits": (Multiplexed(), 0.0, False),
    "mixed, capped": (Multiplexed(), 256e6, False),
}


def measure(bench: Bench) -> Findings:
    """Devices × loads (over the rate of static batches) × ways to serve."""
    runs = {kind: _device(kind, bench.requests(300)) for kind in DEVICES}
    gains = {kind: row["static"][-1].ends_s / row["mixed, capped"][-1].ends_s for kind, row in runs.items()}
    tails = {
        kind: [_p99(one) / _p99(two) for one, two in zip(row["static"], row["mixed, capped"], strict=True)]
        for kind, row in runs.items()
    }
    alone = {
        name: {kind: row["static"][-1].ends_s / row[name][-1].ends_s for kind, row in runs.items()} for name in WAYS
    }
    size = all(1.3 <= gain <= 2.71 for gain in gains.values())
    tail = max(max(row) for row in tails.values())
    criteria = [
        Criterion(
            "At least 1.3 times the throughput, and within half of the published gain, on both devices",
            "1.61 to 1.81 and 1.60 to 1.74 times",
            "; ".join(f"{kind}: {gain:.2f} times" for kind, gain in gains.items()), size, headline=True,
            why="" if size else "refreshes are two thirds of all tokens and bound by arithmetic, which mixing does not "
            "lessen; sparsity is not modelled",
        ),
        Criterion(
            "Shorter P99 latency than static batches at 3 loads or more on both devices", "about 4 times shorter",
            "; ".join(f"{kind}: {', '.join(f'{each:.2f}' for each in row)}" for kind, row in tails.items())
            + f" times at {', '.join(map(str, LOADS))}",
            all(sum(each > 1 for each in row) >= 3 for row in tails.values()), headline=True,
        ),
        Criterion(
            "The most that the tail gains is within a factor 2 of that", "about 4 times", f"{tail:.1f} times",
            2 <= tail <= 8,
        ),
        Criterion(
            "Both parts help: a cap on logits alone, and mixed phases alone", "both are parts of the gain",
            "; ".join(
                f"{name}: {', '.join(f'{gain:.2f} on {kind}' for kind, gain in alone[name].items())}"
                for name in ("static, capped", "mixed, whole logits")
            ),
            all(gain > 1 for name in ("static, capped", "mixed, whole logits") for gain in alone[name].values()),
        ),
    ]  # fmt: skip
    lines = {
        f"{kind}, {name}": [Point(load, _p99(each)) for load, each in zip(LOADS, row[name], strict=True)]
        for kind, row in runs.items() for name in ("static", "mixed, capped")
    }  # fmt: skip
    return Findings(criteria, [Curve("P99 latency", "load over that of static batches", "seconds", lines)])


def _device(kind: str, requests: int) -> dict[str, list[Served]]:
    """What each way serves on a device at each load."""
    shape, card = model("llama-3-8b"), device(kind)
    estimator = Roofline().build(Pool(shape, card))
    kv = shape.kv_bytes_per_token(16)
    free = 0.9 * card.memory_bytes - shape.weight_bytes(16)

    def run(name: str, rate: float) -> Served:
        composer, cap, static = WAYS[name]
        load = poisson(
            rate, requests=requests, prompt_tokens=lognormal(300, 0.8), output_tokens=lognormal(128, 0.5), seed=2
        )
        rows = [
            Request(int(prompt), int(output), float(at) / 1e12)
            for at, prompt, output in zip(load.arrival, load.prompt, load.output, strict=True)
        ]
        memory = Memory(free, kv, VOCABULARY * LOGIT_BYTES, cap)
        return serve(rows, composer, estimator, memory, Denoising(), static=static)

    most = requests / run("static", 1e3).ends_s
    return {name: [run(name, load * most) for load in LOADS] for name in WAYS}


def _p99(served: Served) -> float:
    ordered = sorted(served.latencies)
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]
