"""DeepFlow's router: which kind of replica ends equal requests sooner, as a map, and what routing by that map does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer
from poise.claims.bench import Bench
from poise.claims.claim import Curve
from poise.claims.sweep import Sweep, swept, times
from poise.policies.predict.noisy import Noisy
from poise.policies.route.least_requests import LeastRequests
from poise.policies.route.pd_aware import PdAware
from poise.policies.route.round_robin import RoundRobin
from poise.workload.table import Workload

if TYPE_CHECKING:
    from poise.core.spec import Role
    from poise.scenario.compare.comparison import Comparison

PROMPTS, RATIOS, RATES = (256, 1024, 4096, 12_000), (0.01, 0.05, 0.25, 1.0), (0.5, 1.0, 2.0, 4.0, 8.0)
EQUAL, MIXED, LONGEST = 100, 1500, 16_000
LOADS = (2.0, 5.0, 10.0, 15.0)
SIGMA = 0.3
BY_MAP, IN_TURN, FEWEST = "by the map", "round robin", "fewest requests"
JCT = "e2e_s.mean"


def cluster(**replicas: int) -> ps.Cluster:
    """So many replicas of each role, a 34B model on four devices each."""
    roles: Mapping[str, Role] = {"mixed": "mixed", "prefill": "prefill", "decode": "decode"}
    model, device = ps.models("codellama-34b"), ps.devices("A100")
    return ps.Cluster(
        tuple(ps.Pool(model, device, replicas=count, tensor=4, role=roles[role]) for role, count in replicas.items())
    )


def heat(bench: Bench) -> dict[tuple[int, float], list[float]]:
    """For each prompt length and output ratio, at each rate: completion time colocated over that of a pair, less 1."""
    kinds = cluster(mixed=2), cluster(prefill=1, decode=1)
    found = {}
    for prompt, share in product(PROMPTS, RATIOS):
        took = [[_took(bench, kind, prompt, max(round(prompt * share), 1), rate) for rate in RATES] for kind in kinds]
        found[prompt, share] = [colocated / pair - 1 for colocated, pair in zip(*took, strict=True)]
    return found


def _took(bench: Bench, kind: ps.Cluster, prompt: int, output: int, rate: float) -> float:
    """Mean seconds of equal requests."""
    load = ps.workload.poisson(rate, requests=bench.requests(EQUAL), prompt_tokens=prompt, output_tokens=output, seed=0)
    return bench.simulate(kind, load, ps.Policies(router=LeastRequests())).metrics().e2e_s.mean or 0.0


def routed(bench: Bench) -> tuple[list[Answer], list[Curve]]:
    """The map, and two traces routed by it beside two rules that ignore it."""
    cells = heat(bench)
    rows = [[sum(cells[prompt, share]) for share in RATIOS] for prompt in PROMPTS]
    code, talk = (_loads(bench, trace, rows) for trace in (0, 1))
    low, *_, mid, over = LOADS
    answers = [
        Answer("low load", _times(code, low, IN_TURN), code.ratio(low, JCT, BY_MAP, IN_TURN)),
        Answer("middle load", _times(code, mid, IN_TURN), code.ratio(mid, JCT, BY_MAP, IN_TURN)),
        Answer("corner", _corner(rows), _corner_holds(rows)),
        Answer("overload", _times(code, over, IN_TURN), code.ratio(over, JCT, BY_MAP, IN_TURN)),
        Answer("signs", f"{_steady(cells):.0%} of the cells and rates have the sign of the sum", _steady(cells)),
        Answer("conversation", _times(talk, mid, IN_TURN), talk.ratio(mid, JCT, BY_MAP, IN_TURN)),
        Answer("fewest requests", _times(talk, mid, FEWEST), talk.ratio(mid, JCT, BY_MAP, FEWEST)),
    ]
    return answers, [code.curve("Completion, mean, code", JCT), talk.curve("Completion, mean, conversation", JCT)]


def _loads(bench: Bench, trace: int, rows: Sequence[Sequence[float]]) -> Sweep:
    """Requests of the lengths of a trace at each rate, under each rule."""
    recorded = ps.workload.read(bench.file(trace))
    fits = np.flatnonzero(recorded.prompt + recorded.output <= LONGEST)
    bundles = {
        BY_MAP: ps.Policies(router=PdAware(PROMPTS, RATIOS, rows), predictor=Noisy(SIGMA)),
        IN_TURN: ps.Policies(router=RoundRobin()),
        FEWEST: ps.Policies(router=LeastRequests()),
    }

    def at(rate: float) -> Comparison:
        def made(seed: int, load: float) -> Workload:
            count = bench.requests(MIXED)
            arrivals = ps.workload.poisson(rate * load, requests=count, prompt_tokens=1, output_tokens=1, seed=seed)
            drawn = np.random.default_rng(seed).choice(fits, count)
            return replace(arrivals, prompt=recorded.prompt[drawn], output=recorded.output[drawn])

        four = cluster(mixed=2, prefill=1, decode=1)
        return bench.compare(
            f"{('code', 'conversation')[trace]}, {rate:g} req/s", four, made, bundles, seeds=bench.seeds()
        )

    return swept("load, req/s", LOADS, at)


def _times(sweep: Sweep, rate: float, other: str) -> str:
    found = sweep.ratio(rate, JCT, BY_MAP, other)
    return f"at {rate:g} req/s {other} takes {times(found)} times as long"


def _corner(rows: Sequence[Sequence[float]]) -> str:
    """The sums of the map."""
    lines = [
        f"{prompt:,}: " + ", ".join(f"{cell:+.2f}" for cell in row) for prompt, row in zip(PROMPTS, rows, strict=True)
    ]
    return f"sums by prompt tokens, for outputs of {', '.join(f'{share:g}' for share in RATIOS)} of them: " + "; ".join(
        lines
    )


def _corner_holds(rows: Sequence[Sequence[float]]) -> bool:
    """Whether pairs win with the longest prompts and shortest outputs, and lose with the opposite."""
    return rows[-1][0] > 0 > rows[0][-1]


def _steady(cells: Mapping[tuple[int, float], Sequence[float]]) -> float:
    """The share of cells and rates whose sign is that of the sum over rates."""
    same = [(each > 0) == (sum(row) > 0) for row in cells.values() for each in row]
    return sum(same) / len(same)
