"""Diagonal batching: grouped cells of recurrent-memory transformers."""

from __future__ import annotations

from functools import partial

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.diagonal_batching import Cells, diagonal_s, most, sequential_s
from poise.cost.term import Recipe, Termed
from poise.cost.terms.diagonal_batching import DiagonalBatching
from poise.policies.route.least_tokens import LeastTokens

LENGTHS = (8192, 16_384, 32_768, 65_536, 131_072)
SEGMENT = 1024
RATES, PROMPT = (0.2, 0.4, 0.7), 65_536
"""Simulated: requests per second on two devices, tokens of each prompt."""


def measure(bench: Bench) -> Findings:
    """Lengths × rates of a single cell in closed form; loads × rates of a single cell through a router."""
    pool = Pool(model("llama-3.2-1b"), device("A100"))
    cells, layers = Cells(pool, SEGMENT), pool.model.layers
    gains, over = {}, {}
    for reached in (0.5, 1.0):
        cell = partial(cells.grouped_s, reached=reached)
        by = {tokens: diagonal_s(tokens // SEGMENT, layers, cell) for tokens in LENGTHS}
        gains[reached] = [sequential_s(tokens // SEGMENT, layers, cell) / by[tokens] for tokens in LENGTHS]
        over[reached] = [cells.full_s(tokens) / by[tokens] for tokens in LENGTHS]
    limits = [most(tokens // SEGMENT, layers) for tokens in LENGTHS]
    launches = [
        sequential_s(n, layers, lambda k: 1.0) / diagonal_s(n, layers, lambda k: 1.0)
        for n in (tokens // SEGMENT for tokens in LENGTHS)
    ]
    criteria = [
        Answer(
            "segments",
            "; ".join(f"{reached:.0%}: {', '.join(f'{each:.2f}' for each in row)}" for reached, row in gains.items())
            + f" at {', '.join(f'{each:,}' for each in LENGTHS)}",
            [min(row) for row in gains.values()],
        ),
        Answer(
            "full attention",
            ", ".join(f"{row[-1]:.2f} times" for row in over.values()),
            [row[-1] for row in over.values()],
        ),
        Answer(
            "rises",
            "; ".join(", ".join(f"{each:.2f}" for each in row) for row in over.values()),
            all(row == sorted(row) for row in over.values()),
        ),
        Answer(
            "limit",
            ", ".join(f"{each:.1f}" for each in limits),
            all(row == sorted(row) and all(a <= b for a, b in zip(row, limits, strict=True)) for row in gains.values())
            and all(abs(a / b - 1) < 1e-9 for a, b in zip(launches, limits, strict=True)),
        ),
        _routed(bench),
    ]
    lines = {
        f"a single cell reaches {reached:.0%}": [Point(*each) for each in zip(LENGTHS, row, strict=True)]
        for reached, row in gains.items()
    }
    return Findings(criteria, [Curve("Times as fast as segment by segment", "tokens", "number", lines)])


def _routed(bench: Bench) -> Answer:
    """Seconds to the first token in the mean, by diagonals, segment by segment and with full attention."""
    whole = [_first_s(bench, rate, Roofline()) for rate in RATES]
    ordered, texts = True, []
    for reached in (0.5, 1.0):
        terms = [DiagonalBatching(SEGMENT, reached=reached, grouped=grouped) for grouped in (True, False)]
        by, one = ([_first_s(bench, rate, Termed(Roofline(), (term,))) for rate in RATES] for term in terms)
        ordered = ordered and all(a < b < c for a, b, c in zip(by, one, whole, strict=True))
        texts.append(f"{reached:.0%}: {_row(by)} against {_row(one)}")
    return Answer(
        "routed",
        f"{'; '.join(texts)}; {_row(whole)} s with full attention, at {', '.join(map(str, RATES))} req/s",
        ordered,
    )


def _first_s(bench: Bench, rate: float, cost: Recipe) -> float:
    cluster = ps.Cluster.of("A100", count=2).replicas(2, model="llama-3.2-1b", engine=ps.Engine(prefix_caching=False))
    load = ps.workload.poisson(rate, requests=bench.requests(500), prompt_tokens=PROMPT, output_tokens=64, seed=1)
    records = bench.simulate(cluster, load, ps.Policies(router=LeastTokens()), cost=cost).run.records
    waits = [first - came for first, came in zip(records.first_token_at, records.arrived_at, strict=True)]
    return sum(waits) / len(waits) / SECOND


def _row(values: list[float]) -> str:
    return ", ".join(f"{each:.2f}" for each in values)
