"""TokenWeave: all-reduces hidden behind the computation of the other half of a step's tokens."""

from __future__ import annotations

from functools import cache

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.cost import Roofline
from poise.cost.term import Termed
from poise.cost.terms.token_weave import TokenWeave
from poise.cost.work import Works
from poise.workload import all_at_once

MODELS = ("llama-3.3-70b", "qwen2.5-72b", "mixtral-8x22b")
TOKENS = (512, 1024, 2048, 4096, 8192, 16_384)
PROMPTS = (512, 2048, 8192)


def measure(bench: Bench) -> Findings:
    """Models × tokens of a step in closed form; models × prompts by runs."""
    requests = bench.requests(600)
    saved = {name: [_saved(_pool(name), StepShape(0, (Chunk(each, 0),))) for each in TOKENS] for name in MODELS}
    shares = {name: _share(_pool(name), 8192) for name in MODELS}
    calm = {name: _saved(_pool(name), StepShape(32)) for name in MODELS}

    @cache
    def rate(name: str, prompt: int, *terms: TokenWeave) -> float:
        load = all_at_once(requests=requests, prompt_tokens=prompt, output_tokens=128)
        run = bench.simulate(Cluster((_pool(name),)), load, cost=Termed(Roofline(), terms)).run
        return requests / (max(run.records.ended_at) / 1e12)

    gains = {name: {each: rate(name, each, TokenWeave()) / rate(name, each) for each in PROMPTS} for name in MODELS}
    max(map(max, saved.values()))
    criteria = [
        Answer(
            "steps",
            "; ".join(f"{name}: {', '.join(f'{each:.0%}' for each in saved[name])}" for name in MODELS)
            + f" at {', '.join(f'{each:,}' for each in TOKENS)} tokens",
            [each for name in MODELS for each in saved[name][2:]],
        ),
        Answer(
            "throughput",
            "; ".join(f"{name}: {', '.join(f'{each - 1:.0%}' for each in gains[name].values())}" for name in MODELS)
            + f" at prompts of {', '.join(f'{each:,}' for each in PROMPTS)}",
            [each for row in gains.values() for each in row.values()],
        ),
        Answer("decodes", ", ".join(f"{each:.1%}" for each in calm.values()), not any(calm.values())),
        Answer(
            "free",
            "; ".join(f"{name}: {saved[name][4]:.0%} less, all-reduces {shares[name]:.0%}" for name in MODELS),
            any(saved[name][4] > shares[name] for name in MODELS),
        ),
        Answer("share", ", ".join(f"{each:.0%}" for each in shares.values()), max(shares.values())),
    ]
    lines = {name: [Point(each, part) for each, part in zip(TOKENS, saved[name], strict=True)] for name in MODELS}
    return Findings(criteria, [Curve("Latency of a step that is saved", "tokens", "share", lines)])


def _pool(name: str) -> Pool:
    return Pool(model(name), device("H100"), tensor=8, engine=Engine(token_budget=2048))


def _saved(pool: Pool, shape: StepShape) -> float:
    inner = Roofline().build(pool)
    return 1 - TokenWeave().around(inner, pool).step(shape).base / inner.step(shape).base


def _share(pool: Pool, tokens: int) -> float:
    sent = Works(pool).reduced(1.0, tokens) * pool.model.layers
    return sent / Roofline().build(pool).step(StepShape(0, (Chunk(tokens, 0),))).base
