"""EnergonAI: no padding within a batch, and stages that do not wait for their sends."""

from __future__ import annotations

from functools import cache

from poise.catalogue import device, model
from poise.claims.bench import Bench
from poise.claims.claim import Claim, Criterion, Curve, Findings, Point
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.terms.energonai import EnergonAI
from poise.workload import lognormal, poisson

CLAIM = Claim(
    system="EnergonAI",
    paper="arXiv 2209.02341",
    year=2022,
    slot="cost",
    policies=("terms/energonai",),
    headline="37 % lower latency in tensor parallelism than FasterTransformer, 10 % better scaling in pipelines",
    conditions="models of 10 to 100 billion parameters on several GPUs; batches of prompts of unequal length",
    here="OPT-30B by the roofline on A100, eight prompts a step with lognormal lengths of mean 256 and growing spread, "
    "on 2, 4 and 8 devices in tensor groups or stages; the baseline pads to the longest, or its stages wait for sends",
    trust="abstract",
)

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
    criteria = [
        Criterion(
            "Without padding latency is lower wherever lengths differ, on 2, 4 and 8 devices", "37 % lower",
            "; ".join(f"{n} devices: {', '.join(f'{each:.0%}' for each in row)}" for n, row in pads.items())
            + f" at spreads of {', '.join(map(str, SPREADS))}",
            all(each > 0 for row in pads.values() for each in row[1:]), headline=True,
        ),
        Criterion(
            "The more lengths differ, the more is saved, and nothing where they are equal",
            "cost follows the sum of lengths, not the longest", "as above",
            all(row == sorted(row) and row[0] == 0 for row in pads.values()),
        ),
        Criterion(
            "Stages that do not wait are faster, on 2, 4 and 8 devices", "10 % better scaling",
            ", ".join(f"{n}: {each:.1%}" for n, each in waits.items()), all(each > 0 for each in waits.values()),
            headline=True,
        ),
    ]  # fmt: skip
    lines = {f"{n} devices": [Point(*each) for each in zip(SPREADS, row, strict=True)] for n, row in pads.items()}
    return Findings(criteria, [Curve("Latency saved by no padding", "spread of lengths", "share", lines)])
