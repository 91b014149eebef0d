"""EnergonAI: no padding within a batch, stages that do not wait for their sends, and weights on a peer device."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio
from poise.core.estimate import Chunk, StepShape
from poise.core.spec import Pool
from poise.cost import Roofline
from poise.cost.one_step import step_s
from poise.cost.terms.energonai import EnergonAI, flow_s, send_s
from poise.cost.work import Works
from poise.report.wording import write
from poise.workload import lognormal, poisson

SPREADS = (0.0, 0.25, 0.5, 1.0)
DEVICES = (2, 4, 8)
LINKS = {"NVLink": "A100", "PCIe": "A100-PCIe-80GB"}
BATCH, MIDDLE = 8, 0.5
POOLED = (0.1, 0.25, 0.5)


@cache
def _drawn(batches: int, spread: float, seed: int) -> tuple[tuple[Chunk, ...], ...]:
    prompts = lognormal(256, spread) if spread else 256
    load = poisson(1, requests=batches * BATCH, prompt_tokens=prompts, output_tokens=1, seed=seed)
    lengths = [int(each) for each in load.prompt]
    return tuple(tuple(Chunk(each, 0) for each in lengths[at : at + BATCH]) for at in range(0, len(lengths), BATCH))


def measure(bench: Bench) -> Findings:
    """Spreads × devices × links, over drawn batches."""
    batches, seeds = bench.requests(400), range(1, 1 + bench.seeds())

    def mean(pool: Pool, spread: float, seed: int, term: EnergonAI) -> float:
        estimator = term.around(Roofline().build(pool), pool)
        return sum(estimator.step(StepShape(0, each)).base for each in _drawn(batches, spread, seed)) / batches / 1e12

    def padding(devices: int, spread: float) -> list[float]:
        pool = Pool(model("opt-30b"), device("A100"), tensor=devices)
        alone, padded = (
            [mean(pool, spread, seed, term) for seed in seeds] for term in (EnergonAI(), EnergonAI(padding=True))
        )
        return [1 - one / two for one, two in zip(alone, padded, strict=True)]

    def flows(link: str, stages: int, spread: float, blocking: bool) -> list[float]:
        """Seconds of all batches through stages that each hold as many layers and compute a whole batch at a time."""
        single = Pool(model("opt-30b"), device(LINKS[link]))
        estimator, works = Roofline().build(single), Works(replace(single, pipeline=stages))
        found = []
        for seed in seeds:
            shapes = [StepShape(0, each) for each in _drawn(batches, spread, seed)]
            steps = [estimator.step(shape).base / 1e12 / stages for shape in shapes]
            sends = [send_s(works, 1.0, sum(each.tokens for each in shape.chunks)) for shape in shapes]
            found.append(flow_s(steps, sends, stages, blocking=blocking))
        return found

    pads = {n: {spread: padding(n, spread) for spread in SPREADS} for n in DEVICES}
    waits = {
        (link, n, spread): ratio(flows(link, n, spread, False), flows(link, n, spread, True))
        for link in LINKS for n in DEVICES for spread in SPREADS
    }  # fmt: skip
    gains = {key: (each.value or 1.0) - 1 for key, each in waits.items()}
    rows = {n: [sum(each) / len(each) for each in row.values()] for n, row in pads.items()}
    text = "; ".join(f"{n} devices: {', '.join(write(each, 'share', 2) for each in row)}" for n, row in rows.items())
    text += f" at spreads of {', '.join(map(str, SPREADS))}"
    middle = [waits["NVLink", n, MIDDLE] for n in DEVICES]
    criteria = [
        Answer("padding", text, [row[SPREADS.index(MIDDLE)] for row in rows.values()]),
        Answer("spread", text, all(row == sorted(row) and row[0] == 0 for row in rows.values())),
        Answer("stages", _in_words(gains, "NVLink", MIDDLE), middle),
        Answer("equal", "; ".join(f"{link}: {_in_words(gains, link, 0.0)}" for link in LINKS)),
        Answer("pooled", _pooled()),
    ]
    lines = {f"{n} devices": [Point(*each) for each in zip(SPREADS, row, strict=True)] for n, row in rows.items()}
    flow = {
        f"{n}, {link}": [Point(spread, gains[link, n, spread]) for spread in SPREADS]
        for link in LINKS for n in DEVICES
    }  # fmt: skip
    return Findings(
        criteria,
        [
            Curve("Latency saved by no padding", "spread of lengths", "share", lines),
            Curve("Throughput gained by stages that do not wait", "spread of lengths", "share", flow),
        ],
    )


def _in_words(gains: dict[tuple[str, int, float], float], link: str, spread: float) -> str:
    return ", ".join(f"{n} devices {write(gains[link, n, spread], 'share', 2)}" for n in DEVICES)


def _pooled() -> str:
    """How much longer steps of 8 prompts of 256 tokens take with a part of the layers elsewhere."""
    pool, found = Pool(model("opt-30b"), device("A100")), []
    plain = step_s(pool, prompts=BATCH, prompt_tokens=256)
    for host in (False, True):
        parts = [
            step_s(pool, prompts=BATCH, prompt_tokens=256, terms=(EnergonAI(pooled=p, host=host),)) for p in POOLED
        ]
        where = "host" if host else "peer"
        found.append(f"{where}: " + ", ".join(write(each / plain - 1, "share", 2) for each in parts))
    return "; ".join(found) + f" longer with {', '.join(write(p, 'share') for p in POOLED)} of the layers there"
