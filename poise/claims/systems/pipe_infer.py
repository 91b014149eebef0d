"""PipeInfer: proposals that keep a pipeline full against proposals that wait for their verification."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import poise as ps
from poise.catalogue import device, model
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.core.spec import Cluster, Pool
from poise.core.units import SECOND
from poise.cost import Roofline
from poise.cost.pipe_infer import Stream
from poise.cost.term import Termed
from poise.cost.terms.pipe_infer import PipeInfer

SIMULATED, STREAMS, OUTPUT = (0.1, 0.5, 0.8), (1, 2, 4, 8, 16), 400
"""Through a pool: chances of acceptance, streams at once, tokens of each."""

ACCEPTED, STAGES, HOPS = (0.1, 0.3, 0.5, 0.7, 0.8, 0.9), (4, 8, 16), (0.0, 0.01, 0.04)


def measure(bench: Bench) -> Findings:
    """Closed forms, drawn streams that check them, and streams through a pool of the simulator."""
    gains = {n: {a: _gain(_stream(n, a)) for a in ACCEPTED} for n in STAGES}
    links = {hop: [_gain(replace(_stream(8, a), hop_s=hop)) for a in ACCEPTED] for hop in HOPS}
    kept = {hop: [_kept(a, hop, pipelined) for pipelined in (True, False)] for hop in HOPS[1:] for a in (0.7,)}
    plain = {a: _stream(8, a).best_pipelined() / _stream(8, a).plain() for a in ACCEPTED}
    tokens = bench.requests(200_000)
    off = max(
        abs(stream.played(tokens, run, seed=1) / stream.pipelined(run) - 1)
        for stream in (_stream(8, a) for a in ACCEPTED) for run in (1, 4)
    )  # fmt: skip
    slower = all(pipelined < standard for pipelined, standard in kept.values())
    criteria = [
        Answer(
            "speculation",
            "; ".join(f"{n} stages: {', '.join(f'{each:.2f}' for each in row.values())}" for n, row in gains.items())
            + f" at {', '.join(map(str, ACCEPTED))}",
            [each for row in gains.values() for each in row.values()],
        ),
        Answer("none", ", ".join(f"{a}: {each:.2f} times" for a, each in plain.items()), list(plain.values())),
        Answer(
            "links",
            "; ".join(f"{1e3 * hop:.0f} ms: {one:.0%} against {two:.0%} lost" for hop, (one, two) in kept.items()),
            slower,
        ),
        Answer("closed form", f"{off:.1%} off at most", off),
        *_pooled(bench),
    ]
    lines = {f"{n} stages": [Point(a, each) for a, each in row.items()] for n, row in gains.items()}
    slow = {f"hops of {1e3 * hop:.0f} ms": [Point(*each) for each in zip(ACCEPTED, row, strict=True)]
            for hop, row in links.items()}  # fmt: skip
    return Findings(
        criteria,
        [
            Curve("Speed over the best speculation", "acceptance", "number", lines),
            Curve("Speed over the best speculation in 8 stages", "acceptance", "number", slow),
        ],
    )


def _stream(stages: int, acceptance: float) -> Stream:
    return Stream(stages, 0.04, acceptance, draft_s=stages * 0.04 / 50, grows=0.1)


def _gain(stream: Stream) -> float:
    return stream.best_pipelined() / stream.best_speculative()


def _kept(acceptance: float, hop: float, pipelined: bool) -> float:
    """The part of its speed that is lost to hops."""
    near = _stream(8, acceptance)
    far = replace(near, hop_s=hop)
    if pipelined:
        return 1 - far.best_pipelined() / near.best_pipelined()
    return 1 - far.best_speculative() / near.best_speculative()


def _pooled(bench: Bench) -> list[Answer]:
    """What batcher, pool and term come to in the simulator."""
    plain = {n: _seconds(bench, n, None) for n in STREAMS}
    gains = {a: [plain[n] / _seconds(bench, n, a) for n in STREAMS] for a in SIMULATED}
    rows = list(gains.values())
    rising = all(one < two for low, high in pairwise(rows) for one, two in zip(low, high, strict=True))
    falling = all(one >= two for row in rows for one, two in pairwise(row))
    ratios = "; ".join(f"{a}: {', '.join(f'{each:.2f}' for each in row)}" for a, row in gains.items())
    text = f"{ratios} times at {', '.join(map(str, STREAMS))} streams"
    return [
        Answer("one stream", text, rising and all(row[0] > 1 for row in rows)),
        Answer("streams", text, falling and all(each >= 1 for row in rows for each in row)),
    ]


def _seconds(bench: Bench, streams: int, acceptance: float | None) -> float:
    """Until so many equal requests of a Llama of 70 billion parameters on eight L40S have ended."""
    pool = Pool(model("llama-3.1-70b"), device("L40S"), pipeline=8)
    cost = Roofline() if acceptance is None else Termed(Roofline(), (PipeInfer(acceptance),))
    load = ps.workload.all_at_once(requests=streams, prompt_tokens=500, output_tokens=OUTPUT)
    return max(bench.simulate(Cluster((pool,)), load, cost=cost).run.records.ended_at) / SECOND
