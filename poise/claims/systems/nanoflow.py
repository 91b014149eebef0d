"""NanoFlow: overlapping what arithmetic, memory and links bind inside a device."""

from __future__ import annotations

from functools import cache

from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.estimate import StepShape
from poise.core.spec import Cluster, Engine, Pool
from poise.cost import Roofline
from poise.cost.term import Termed
from poise.cost.terms.nanoflow import HIDDEN, NanoFlow
from poise.cost.work import Works
from poise.workload import all_at_once

LENGTHS = ((128, 512), (512, 512), (1024, 512), (512, 1024))
PARTS = (0.0, HIDDEN, 0.6, 1.0)


def pool(name: str = "llama-2-70b", tensor: int = 8) -> Pool:
    """Eight A100 under dense batches."""
    engine = Engine(token_budget=2048, max_sequences=2048)
    return Pool(model(name), device("A100"), tensor=tensor, engine=engine)


def measure(bench: Bench) -> Findings:
    """Lengths × parts that overlap: tokens per second of a run of equal requests."""
    requests = bench.requests(4000)

    @cache
    def rate(lengths: tuple[int, int], part: float) -> float:
        """Prompt and output tokens per second and device."""
        prompt, output = lengths
        load = all_at_once(requests=requests, prompt_tokens=prompt, output_tokens=output)
        cost = Termed(Roofline(), (NanoFlow(part),))
        run = bench.simulate(Cluster((pool(),)), load, cost=cost).run
        return requests * (prompt + output) / (max(run.records.ended_at) / 1e12) / 8

    gains = {lengths: [rate(lengths, part) / rate(lengths, 0.0) for part in PARTS] for lengths in LENGTHS}
    most, likely = (max(each[at] for each in gains.values()) for at in (3, 1))
    ahead = sum(each[1] > 1.01 for each in gains.values())
    work = Works(pool()).of(StepShape(2048))
    optimum = 2048 / work.arithmetic.base * 1e12 / 8
    reached = {lengths: rate(lengths, HIDDEN) / optimum for lengths in LENGTHS}
    small = Pool(model("llama-3.1-8b"), device("A100"))
    inner = Roofline().build(small)
    lone = NanoFlow(1.0).around(inner, small)
    few = [inner.step(StepShape(n)).base / lone.step(StepShape(n)).base for n in (8, 32, 64)]
    criteria = [
        Answer(
            "ahead",
            "; ".join(f"{_name(key)}: {each[1]:.2f} times, at most {each[3]:.2f}" for key, each in gains.items()),
            ahead,
        ),
        Answer("bound", f"{most:.2f} times", most),
        Answer("gain", f"{likely:.2f} times", likely),
        Answer(
            "optimum",
            "; ".join(f"{_name(key)}: {each * _reach():.0%}" for key, each in reached.items()),
            [each * _reach() for each in reached.values()],
        ),
        Answer("few decodes", ", ".join(f"{each:.2f}" for each in few), list(few)),
    ]
    lines = {_name(key): [Point(*each) for each in zip(PARTS, gain, strict=True)] for key, gain in gains.items()}
    return Findings(criteria, [Curve("Gain over the part that overlaps", "part", "number", lines)])


def _name(lengths: tuple[int, int]) -> str:
    return f"{lengths[0]}/{lengths[1]}"


def _reach() -> float:
    """The roofline's reachable part of the peak, for its optimum in tokens over the datasheet's."""
    return Roofline().gemm_bf16
