"""EnergonAI: no padding within a batch, and stages that do not wait for their sends."""

from __future__ import annotations

from functools import cache

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.energonai import EnergonAI
from poise.workload import lognormal, poisson

SPREADS = (0.0, 0.25, 0.5, 1.0)
DEVICES = (2, 4, 8)
BATCH = 8


def measure(bench: Bench) -> Findings:
    """Nothing is scheduled: spreads × devices, the mean over drawn batches."""
    batches = bench.requests(400)

    @cache
    def drawn(spread: float) -> tuple[tuple[Chunk, ...], ...]:
        load = poisson(
            1,
            requests=batches * BATCH,
            prompt_tokens=lognormal(256, spread) if spread else 256,
            output_tokens=1,
            seed=1,
        )
        lengths = [int(each) for each in load.prompt]
        return tuple(tuple(Chunk(each, 0) for each in lengths[at : at + BATCH]) for at in range(0, len(lengths), BATCH))

    def time(pool: Pool, spread: float, term: EnergonAI) -> float:
        estimator = term.around(Roofline().build(pool), pool)
        return sum(estimator.step(StepShape(0, chunks)).base for chunks in drawn(spread)) / batches / 1e12

    def saved(pool: Pool, spread: float, term: EnergonAI) -> float:
        return 1 - time(pool, spread, EnergonAI()) / time(pool, spread, term)

    big, a100 = model("opt-30b"), device("A100")
    pads = {
        n: [saved(Pool(big, a100, tensor=n), spread, EnergonAI(padding=True)) for spread in SPREADS] for n in DEVICES
    }
    waits = {n: saved(Pool(big, a100, pipeline=n), 0.5, EnergonAI(blocking=True)) for n in DEVICES}
    text = "; ".join(f"{n} devices: {', '.join(f'{each:.0%}' for each in row)}" for n, row in pads.items())
    text += f" at spreads of {', '.join(map(str, SPREADS))}"
    criteria = [
        Answer("padding", text, [max(row) for row in pads.values()]),
        Answer("spread", text, all(row == sorted(row) and row[0] == 0 for row in pads.values())),
        Answer("stages", ", ".join(f"{n}: {each:.1%}" for n, each in waits.items()), list(waits.values())),
    ]
    lines = {f"{n} devices": [Point(*each) for each in zip(SPREADS, row, strict=True)] for n, row in pads.items()}
    return Findings(criteria, [Curve("Latency saved by no padding", "spread of lengths", "share", lines)])
