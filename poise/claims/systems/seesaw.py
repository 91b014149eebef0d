"""Seesaw: one layout for prompts and another for decoding, by turns on the same devices."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from math import ceil
from typing import NamedTuple

import poise as ps
from poise.catalogue import device, model
from poise.catalogue.engines import engine_defaults
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Cluster, Engine, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.seesaw import MICROBATCH, Load, Offline, layouts, name
from poise.cost.term import Termed
from poise.cost.terms.seesaw import Seesaw as Term
from poise.policies.batch.chunked import Chunked
from poise.policies.batch.seesaw import Seesaw

MODELS = (("qwen2.5-14b", 4), ("codellama-34b", 8), ("llama-2-70b", 8))
DEVICES = ("A10", "L4", "A100")
LOADS = {"summaries": Load(3000, 200), "ShareGPT": Load(300, 250)}
X8 = 16e9
"""Bytes per second of PCIe 4 over eight lanes."""
VLLM = engine_defaults("vllm", "0.5")
ITS = Roofline(cpu_step_s=VLLM.step_s, cpu_sequence_s=VLLM.sequence_s)
"""Steps with the host times of the vLLM that the paper builds on and compares with."""

OUTPUTS = (50, 100, 200, 400, 800)
TUNED = [Chunked(tokens, tokens // parts) for tokens in (512, 2048, 8192) for parts in (1, 4)]
"""Chunked prefill by its budget and the part of it that one prompt may take; of which the best counts."""
FILLS, MOST = 2, 3000
"""Fills of the host that are simulated, and requests under static layouts, at most."""


class Case(NamedTuple):
    """Gains over the best static layouts, mixed and unmixed; the two layouts."""

    gain: float
    unmixed: float
    pair: tuple[Pool, Pool]


def measure(bench: Bench) -> Findings:
    """Closed forms: models × devices × loads × layouts; simulated: those over slow links."""
    cases = [(kind, big, n, load) for kind in DEVICES for big, n in MODELS for load in LOADS]
    found = {case: _case(*case[:3], LOADS[case[3]]) for case in cases}
    slow = {case: each for case, each in found.items() if case[0] != "A100"}
    quick = [each.gain for case, each in found.items() if case[0] == "A100"]
    most, mean = max(each.gain for each in slow.values()), sum(each.gain for each in slow.values()) / len(slow)
    apart = [each.unmixed for each in slow.values()]
    outputs = {kind: [_case(kind, "llama-2-70b", 8, Load(3000, each)).gain for each in OUTPUTS] for kind in DEVICES}
    ordered = sum(min(outputs[kind][at] for kind in ("A10", "L4")) > outputs["A100"][at] for at in range(len(OUTPUTS)))
    criteria = [
        Answer(
            "no less",
            "; ".join(f"{kind} {big} {load}: {each.gain:.2f} times" for (kind, big, _, load), each in slow.items()),
            [each.gain for each in slow.values()],
        ),
        Answer("most", f"{most - 1:.0%}", most - 1),
        Answer("mean", f"{mean - 1:.0%}", mean - 1),
        Answer("unmixed", f"{min(apart):.2f} to {max(apart):.2f} times", apart),
        Answer("unmixed mean", f"{sum(apart) / len(apart) - 1:.0%}", sum(apart) / len(apart) - 1),
        Answer(
            "links",
            "; ".join(f"{kind}: {', '.join(f'{each:.2f}' for each in row)}" for kind, row in outputs.items())
            + f" at {', '.join(map(str, OUTPUTS))}; {max(quick):.2f} times at most on A100",
            ordered,
        ),
        Answer(
            "layouts",
            "; ".join(sorted({" to ".join(map(name, each.pair)) for each in slow.values()})),
            all(each.pair[0].pipeline >= each.pair[1].pipeline for each in slow.values()),
        ),
        _today({case: _case(*case[:3], LOADS[case[3]], Roofline()).gain for case in slow}),
        *_simulated(bench, slow),
    ]
    lines = {kind: [Point(*each) for each in zip(OUTPUTS, row, strict=True)] for kind, row in outputs.items()}
    return Findings(criteria, [Curve("Gain over the best static layout, LLaMA2-70B", "output tokens", "number", lines)])


def _case(kind: str, big: str, devices: int, load: Load, cost: Roofline = ITS) -> Case:
    pool = _pool(kind, big)
    work, choices = _work(load, devices, cost), list(layouts(pool, devices))
    pair = work.best(choices)
    rate = work.seesaw(*pair).rate
    return Case(rate / max(map(work.static, choices)), rate / max(map(work.unmixed, choices)), pair)


def _today(gains: dict[tuple[str, str, int, str], float]) -> Answer:
    """Gains with the host times of today's engines."""
    text = "; ".join(f"{kind} {big} {load}: {gain:.2f} times" for (kind, big, _, load), gain in gains.items())
    return Answer("today", text, list(gains.values()))


def _pool(kind: str, big: str) -> Pool:
    card = device(kind) if kind == "A100" else replace(device(kind), host_bw=X8, scaleup_bw=X8)
    return Pool(model(big), card, engine=Engine(max_sequences=512, token_budget=MICROBATCH, prefix_caching=False))


def _work(load: Load, devices: int, cost: Roofline = ITS) -> Offline:
    return Offline(load, host_bytes=80e9 * devices, cost=cost)


def _simulated(bench: Bench, cases: dict[tuple[str, str, int, str], Case]) -> list[Answer]:
    """Gains of runs in which batcher and term stand for Seesaw, beside those of the closed form."""
    gains = {case: _gain(bench, each.pair, *case[2:]) for case, each in cases.items()}
    off = max(abs(gains[case] / each.gain - 1) for case, each in cases.items())
    mean, most = sum(gains.values()) / len(gains), max(gains.values())
    text = "; ".join(
        f"{kind} {big} {load}: {gains[kind, big, n, load]:.2f} times ({each.gain:.2f} in closed form)"
        for (kind, big, n, load), each in cases.items()
    )
    return [
        Answer("simulated", text, list(gains.values())),
        Answer(
            "simulated mean",
            f"{mean - 1:.0%} and {most - 1:.0%}",
            0.18 <= mean - 1 <= 0.54 and 0.39 <= most - 1 <= 1.56,
        ),
        Answer("closed form", f"{off:.1%} off at most", off),
    ]


def _gain(bench: Bench, pair: tuple[Pool, Pool], devices: int, name_: str) -> float:
    """Requests per second of Seesaw over those of the best static layout and budget."""
    load = LOADS[name_]
    work = _work(load, devices)
    rows = bench.requests(FILLS * int(work.seesaw(*pair).requests))
    prompts, decodes = pair
    host_gb = 80.0 / (10 if bench.quick else 1)
    cost = Termed(ITS, (Term(name(prompts), name(decodes), host_gb, decodes.engine.max_sequences),))
    together = prompts.pipeline * ceil(MICROBATCH / load.prompt) * load.prompt
    store = replace(decodes, engine=replace(decodes.engine, max_sequences=rows))
    static = partial(_rate, bench, load, min(rows, MOST))
    best = max(static(each, batcher, ITS) for each in layouts(decodes, devices) for batcher in TUNED)
    return _rate(bench, load, rows, store, Seesaw(together), cost) / best


def _rate(bench: Bench, load: Load, rows: int, pool: Pool, batcher: Chunked, cost: Roofline | Termed) -> float:
    """Requests per second where all are there at once."""
    work = ps.workload.all_at_once(requests=rows, prompt_tokens=load.prompt, output_tokens=load.output)
    run = bench.simulate(Cluster((pool,)), work, ps.Policies(batcher=batcher), cost=cost).run
    return rows / (max(run.records.ended_at) / SECOND)
