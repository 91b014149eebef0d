"""LLMCompiler: tool calls as their dependencies allow, against one after another."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.report.intervals import over_seeds
from poise.report.seeds import mean
from poise.report.wording import significant
from poise.workload.llm_compiler import Call, Tokens, planned, react, speed_up

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from poise.scenario.python import Result


CLUSTER = ps.Cluster.of("H100", count=1).replicas(1, model="llama-3.1-8b")
CALLS, TOOL_S = 8, 1.0
SIZES = Tokens()
RATES = (0.05, 1.0, 2.0, 4.0, 8.0, 16.0)
PROGRAMS = 250
REACT, PLANNED, STREAMED = "ReAct", "planned", "planned, streamed"
WAYS: dict[str, Callable[..., ps.workload.Workflow]] = {
    REACT: react, PLANNED: planned, STREAMED: partial(planned, streamed=True),
}  # fmt: skip
GRAPHS: dict[str, dict[str, Call]] = {
    "independent": {f"call {each}": Call(TOOL_S) for each in range(CALLS)},
    "layers": {f"call {each}": Call(TOOL_S, [f"call {each - 4}"] if each >= 4 else []) for each in range(CALLS)},
    "chain": {f"call {each}": Call(TOOL_S, [f"call {each - 1}"] if each else []) for each in range(CALLS)},
}

Means = dict[tuple[str, str, float], list[float]]
"""Mean seconds of a program of each seed, by graph, way and rate."""


def measure(bench: Bench) -> Findings:
    """Each graph compiled three ways, at each rate."""
    alone = {(graph, way): _run(bench, graph, way, RATES[0], 0) for graph in GRAPHS for way in WAYS}
    means: Means = {}
    for rate in RATES:
        for way in WAYS:
            seeds = range(bench.seeds())
            means["independent", way, rate] = [_mean(_run(bench, "independent", way, rate, seed)) for seed in seeds]
    graphs = [_closed(alone), _chain(alone), _layers(alone), _stream(alone)]
    criteria = [_ahead(means), _factor(means), *graphs, _shrinks(means)]
    return Findings(criteria, _curves(means))


def _run(bench: Bench, graph: str, way: str, rate: float, seed: int) -> Result:
    starts = ps.workload.poisson(rate, requests=bench.requests(PROGRAMS), seed=seed)
    flow = WAYS[way](GRAPHS[graph], SIZES)
    return bench.simulate(CLUSTER, ps.workload.workflows(starts, flow, seed=seed), seed=seed)


def _mean(result: Result) -> float:
    found = result.program
    assert found is not None and found.mean is not None
    return found.mean


def _ratio(means: Means, rate: float, way: str = PLANNED) -> list[float]:
    pairs = zip(means["independent", REACT, rate], means["independent", way, rate], strict=True)
    return [slow / quick for slow, quick in pairs]


def _closed(alone: Mapping[tuple[str, str], Result]) -> Answer:
    """n · (think + tool) / (plan + tool + join) with the times that these requests took."""
    slow, quick = alone["independent", REACT], alone["independent", PLANNED]
    per = (_mean(slow) - _took(slow)[-1] - CALLS * TOOL_S) / CALLS
    plan, join = _took(quick)
    closed = speed_up(CALLS, per, TOOL_S, plan, join)
    found = (_mean(slow) - _took(slow)[-1]) / _mean(quick)
    return Answer("closed", f"{found:.3f} times as fast, closed form {closed:.3f}", abs(found / closed - 1))


def _took(result: Result) -> list[float]:
    """Mean seconds of each request of a program, in order."""
    records, program = result.run.records, np.asarray(result.run.programs)
    took = (np.asarray(records.ended_at) - np.asarray(records.arrived_at)) / 1e12
    order = np.lexsort((np.asarray(records.arrived_at), program))
    means: list[float] = took[order].reshape(program.max() + 1, -1).mean(axis=0).tolist()
    return means


def _ahead(means: Means) -> Answer:
    leads = {rate: over_seeds([each - 1 for each in _ratio(means, rate)]) for rate in RATES}
    [rate for rate, lead in leads.items() if lead.apart and (lead.value or 0) > 0]
    text = "; ".join(f"{rate:g}/s: {1 + (lead.value or 0):.2f} times" for rate, lead in leads.items())
    return Answer("ahead", text, list(leads.values()))


def _factor(means: Means) -> Answer:
    best = max(mean(_ratio(means, rate, way)) for rate in RATES for way in WAYS)
    return Answer("factor", f"{best:.2f} times", best)


def _chain(alone: Mapping[tuple[str, str], Result]) -> Answer:
    """A chain saves the thoughts between its calls, and nothing of the calls."""
    slow, quick = alone["chain", REACT], alone["chain", PLANNED]
    return Answer(
        "chain",
        f"{_mean(slow) / _mean(quick):.2f} times as fast; without requests' time {CALLS * TOOL_S:g} s for both",
        abs(_mean(quick) - sum(_took(quick)) - (_mean(slow) - sum(_took(slow)))),
    )


def _layers(alone: Mapping[tuple[str, str], Result]) -> Answer:
    gains = {graph: _mean(alone[graph, REACT]) / _mean(alone[graph, PLANNED]) for graph in GRAPHS}
    return Answer(
        "layers",
        ", ".join(f"{graph} {gain:.2f}" for graph, gain in gains.items()),
        gains["independent"] > gains["layers"] > gains["chain"],
    )


def _stream(alone: Mapping[tuple[str, str], Result]) -> Answer:
    """Independent calls still wait for the last line, so streaming gains in graphs with depth."""
    saved = {graph: _mean(alone[graph, PLANNED]) - _mean(alone[graph, STREAMED]) for graph in GRAPHS}
    most = _took(alone["chain", PLANNED])[0] - _took(alone["chain", STREAMED])[0]
    return Answer(
        "stream",
        f"saved: {', '.join(f'{graph} {each:.3f} s' for graph, each in saved.items())}; plan − first line {most:.3f} s",
        abs(saved["chain"] / most - 1) <= 0.01 and 0 < saved["layers"] <= most,
    )


def _shrinks(means: Means) -> Answer:
    pairs = zip(_ratio(means, RATES[0]), _ratio(means, RATES[-1]), strict=True)
    fall = over_seeds([idle - busy for idle, busy in pairs])
    return Answer(
        "shrinks",
        f"{mean(_ratio(means, RATES[0])):.2f} times idle, {mean(_ratio(means, RATES[-1])):.2f} at {RATES[-1]:g}/s",
        fall,
    )


def _curves(means: Means) -> Sequence[Curve]:
    def points(way: str) -> list[Point]:
        found = [(rate, over_seeds(means["independent", way, rate])) for rate in RATES]
        return [Point(rate, each.value, each.half) for rate, each in found]

    def gains(way: str) -> list[Point]:
        found = [(rate, over_seeds(_ratio(means, rate, way))) for rate in RATES]
        return [Point(rate, each.value, each.half) for rate, each in found]

    across = f"programs/s, {significant(CALLS)} independent calls each"
    return [
        Curve("Mean time of a program", across, "seconds", {way: points(way) for way in WAYS}),
        Curve("Times as fast as ReAct", across, "number", {way: gains(way) for way in (PLANNED, STREAMED)}),
    ]
