"""Diagonal batching: grouped cells of recurrent-memory transformers."""

from __future__ import annotations

from functools import partial

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.spec import Pool
from poise.cost.diagonal_batching import Cells, diagonal_s, most, sequential_s

CLAIM = Claim(
    system="Diagonal Batching",
    paper="arXiv 2506.05229",
    year=2025,
    slot="cost",
    policies=("diagonal_batching",),
    headline="3.3 times as fast as full attention and 1.8 times as fast as segment by segment over 131,072 tokens",
    conditions="LLaMA-3.2-1B with recurrent memory (ARMT), one A100 or H100",
    here="the same shape on A100 by the roofline, segments of 1,024 tokens and 128 of memory; a single cell reaches "
    "half or all of the rate that large products do, since how small ones leave the device idle is not in the roofline",
    trust="abstract",
)

LENGTHS = (8192, 16_384, 32_768, 65_536, 131_072)
SEGMENT = 1024


def measure(bench: Bench) -> Findings:
    """Nothing is simulated: lengths × rates of a single cell."""
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
        Criterion(
            "Faster than segment by segment at each length, whatever a single cell reaches", "1.8 times at 131,072",
            "; ".join(f"{reached:.0%}: {', '.join(f'{each:.2f}' for each in row)}" for reached, row in gains.items())
            + f" at {', '.join(f'{each:,}' for each in LENGTHS)}", all(min(row) > 1 for row in gains.values()),
            headline=True,
        ),
        Criterion(
            "Faster than full attention at 131,072 tokens", "3.3 times",
            ", ".join(f"{row[-1]:.2f} times" for row in over.values()), all(row[-1] > 1 for row in over.values()),
            headline=True,
        ),
        Criterion(
            "The gain over full attention rises with the length", "linear against quadratic",
            "; ".join(", ".join(f"{each:.2f}" for each in row) for row in over.values()),
            all(row == sorted(row) for row in over.values()),
        ),
        Criterion(
            "The gain nears its limit as segments outnumber layers: it rises with the length, below S·L/(S + L − 1)",
            "S + L − 1 steps in place of S·L", ", ".join(f"{each:.1f}" for each in limits),
            all(row == sorted(row) and all(a <= b for a, b in zip(row, limits, strict=True)) for row in gains.values())
            and all(abs(a / b - 1) < 1e-9 for a, b in zip(launches, limits, strict=True)),
        ),
    ]  # fmt: skip
    lines = {
        f"a single cell reaches {reached:.0%}": [Point(*each) for each in zip(LENGTHS, row, strict=True)]
        for reached, row in gains.items()
    }
    return Findings(criteria, [Curve("Times as fast as segment by segment", "tokens", "number", lines)])
