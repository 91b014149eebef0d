"""Introspective diffusion: several tokens a pass under causal attention, in a stationary batch."""

from __future__ import annotations

from itertools import pairwise

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Cluster, Pool
from poise.cost import Roofline
from poise.cost.term import Term, Termed
from poise.cost.terms.introspective_diffusion import IntrospectiveDiffusion, tokens_a_pass
from poise.workload import closed

PUBLISHED = {2: (1.82, 1.80), 4: (2.92, 2.96), 8: (4.09, 4.01)}
CROWDS = (1, 4, 16, 32, 64, 256)
WAYS: dict[str, tuple[Term, ...]] = {
    "one token a pass": (),
    "stride 4": (IntrospectiveDiffusion(stationary=False),),
    "stride 4, stationary": (IntrospectiveDiffusion(),),
    "stride 8, stationary": (IntrospectiveDiffusion(stride=8),),
}


def measure(bench: Bench) -> Findings:
    """Ways to decode × requests at once, each by a run with a fixed concurrency."""
    cluster = Cluster((Pool(model("qwen3-8b"), device("H100")),))

    def rate(crowd: int, terms: tuple[Term, ...]) -> float:
        load = closed(crowd, bench.requests(20) * crowd, prompt_tokens=500, output_tokens=500)
        run = bench.simulate(cluster, load, cost=Termed(Roofline(), terms)).run
        return 500 * len(run.records.ended_at) / (max(run.records.ended_at) / 1e12)

    rates = {name: {crowd: rate(crowd, terms) for crowd in CROWDS} for name, terms in WAYS.items()}
    gains = {name: [row[crowd] / rates["one token a pass"][crowd] for crowd in CROWDS] for name, row in rates.items()}
    still = [rates["stride 4, stationary"][crowd] / rates["stride 4"][crowd] - 1 for crowd in (16, 32)]
    passes = {stride: tokens_a_pass(stride, 0.9) for stride in PUBLISHED}
    ours = gains["stride 4, stationary"]
    falls = all(one >= two for one, two in pairwise(ours[1:]))
    criteria = [
        Answer(
            "tokens a pass",
            ", ".join(f"{stride}: {each:.3f}" for stride, each in passes.items()),
            all(
                abs(passes[stride] / published - 1) <= 0.01 and abs(passes[stride] / met - 1) <= 0.03
                for stride, (published, met) in PUBLISHED.items()
            ),
        ),
        Answer(
            "throughput",
            ", ".join(f"{crowd}: {gain:.2f} times" for crowd, gain in zip(CROWDS, ours, strict=True)),
            list(ours[:4]),
        ),
        Answer("falls", ", ".join(f"{gain:.2f}" for gain in ours), falls),
        Answer("stationary", ", ".join(f"{each:.1%}" for each in still), list(still)),
    ]
    lines = {name: [Point(*each) for each in zip(CROWDS, row, strict=True)] for name, row in gains.items()}
    return Findings(criteria, [Curve("Throughput over one token a pass", "requests at once", "number", lines)])
