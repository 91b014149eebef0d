"""The figures of a result, and the cases that are compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from poise.core.errors import UserError
from poise.core.plugin import nearest
from poise.report.wording import Kind, significant, write

if TYPE_CHECKING:
    from poise.report.story import Story

Curve = tuple[list[float], list[float]]
"""Points of a line: x values and as many y values."""

Curves = Mapping[str, Curve]
"""Lines by name."""


@dataclass(frozen=True, slots=True)
class Case:
    """One policy at one load: its result (as `metrics.combine` gives it) and what can be drawn of its first seed.

    load: factor on the workload's rate, None where there is one load.  rate: requests per second, None where there is
    none.  latency: `curves.latency_curves` of a run.  timeline: `curves.replica_curves`.  worst: `worst.worst`.
    blame: `blame.samples`.  stories: of some requests, by their number.
    probe: the load was simulated only to search for a collapse, so it appears only in the curves over load.
    """

    policy: str
    result: Mapping[str, Any]
    load: float | None = None
    rate: float | None = None
    latency: Curves | None = None
    timeline: Mapping[str, Curves] | None = None
    worst: Mapping[str, Sequence[Mapping[str, float | None]]] | None = None
    blame: Mapping[str, Mapping[str, Mapping[str, float]]] | None = None
    stories: Mapping[int, Story] = field(default_factory=dict)
    probe: bool = False

    @property
    def at(self) -> str:
        """Its load in words, as in `load 0.5 (12 req/s)`; empty where there is one load."""
        if self.load is None:
            return ""
        rate = "" if self.rate is None else f" ({significant(self.rate)} req/s)"
        return f"load {significant(self.load)}{rate}"

    @property
    def name(self) -> str:
        """Policy and load."""
        return f"{self.policy} at {self.at}" if self.at else self.policy


def by_load(cases: Sequence[Case]) -> dict[float | None, list[Case]]:
    """Cases by load, in its order."""
    found: dict[float | None, list[Case]] = {}
    for case in sorted(cases, key=lambda each: each.load or 0.0):
        found.setdefault(case.load, []).append(case)
    return found


@dataclass(frozen=True, slots=True)
class Figure:
    """One number of a result: its label, its keys in the result, its unit, its meaning and which direction is better.

    better: `more` or `less`; empty where neither direction is better.
    """

    label: str
    path: tuple[str, ...]
    kind: Kind
    meaning: str = ""
    better: Literal["more", "less", ""] = ""

    @property
    def name(self) -> str:
        """Its path with dots, as in ttft_s.p99."""
        return ".".join(self.path)

    def value(self, result: Mapping[str, Any]) -> float | None:
        """The mean over seeds, None where it is missing."""
        return _at(result, self.path)

    def half_width(self, result: Mapping[str, Any]) -> float | None:
        """Half of the 95 % interval, None where there is none."""
        return _at(result.get("interval"), self.path)

    def text(self, result: Mapping[str, Any]) -> str:
        """The value in words."""
        return write(self.value(result), self.kind)

    def margin(self, result: Mapping[str, Any]) -> str:
        """The half-width in words, to two digits; empty where there is none."""
        half = self.half_width(result)
        return "" if half is None else f"± {write(half, self.kind, 2)}"


def _at(tree: Any, path: Sequence[str]) -> float | None:
    """The number at a path of nested mappings; None where the path does not exist."""
    for name in path:
        tree = tree.get(name) if isinstance(tree, Mapping) else None
    return tree if isinstance(tree, (int, float)) else None


def _latency(label: str, name: str, meaning: str) -> tuple[Figure, ...]:
    parts = ("mean", "p50", "p90", "p95", "p99")
    return tuple(Figure(f"{label} {part}", (name, part), "seconds", meaning, "less") for part in parts)


TTFT = _latency("TTFT", "ttft_s", "time to first token: first token minus arrival")
TPOT = _latency("TPOT", "tpot_s", "time per output token: (last minus first token) / (output tokens minus 1)")
E2E = _latency("E2E", "e2e_s", "end minus arrival")
PROGRAM = _latency("Program", "program_s", "last end minus first arrival of a program's requests")
PROGRAMS = (
    Figure("Programs", ("programs", "begun"), "count", "of which the first request arrived after warm-up"),
    Figure("Programs done", ("programs", "finished"), "count", "of which every request finished", "more"),
    Figure("Programs in time", ("programs", "attainment"), "share", "of which every request met its SLO", "more"),
)
AGENTS = (
    Figure("Lanes", ("agents", "lanes"), "count", "conversations under way at any time"),
    Figure("Conversations", ("agents", "begun"), "count", "of which a request counts"),
    Figure("Conversations done", ("agents", "finished"), "count", "of which every request finished", "more"),
    Figure("Sub-agents done", ("agents", "subagents"), "count", "of which every request finished"),
    Figure("Sub-agent p50", ("agents", "subagent_s", "p50"), "seconds", "from first arrival to last end", "less"),
    Figure("All tok/s", ("agents", "tokens_per_s"), "number", "prompt tokens, cached ones too, and output", "more"),
    Figure("All tok/s/device", ("agents", "tokens_per_s_per_device"), "number", "the same, per device", "more"),
    Figure("Output tok/s/device", ("agents", "output_tokens_per_s_per_device"), "number", "per device", "more"),
    Figure("Theoretical hits", ("agents", "theoretical_hit_rate"), "share", "what an endless cache would find"),
    Figure(
        "Interactivity p90", ("agents", "interactivity", "p90"), "number",
        "output tokens per second of a request: 1 / P90 of (end to end / output tokens)", "more",
    ),
)  # fmt: skip
"""Figures of agents' conversations, where requests belong to such."""

QUEUE = _latency("Queue", "queue_s", "dispatch to a replica minus arrival")
ATTAINMENT = Figure(
    "SLO met", ("slo_attainment",), "share", "share of all arrivals that met every part of the SLO", "more"
)
GOODPUT = Figure(
    "Goodput req/s", ("goodput_rps",), "number", "of the requests offered per second those that met the SLO", "more"
)
OFFERED = Figure("Offered req/s", ("offered_rps",), "number", "requests that arrived per second, from first to last")
REQUESTS = Figure("Requests", ("requests",), "count", "arrivals after warm-up")
RATE = Figure(
    "Finished req/s", ("requests_per_s",), "number", "requests finished per second, while requests arrived", "more"
)
OUTPUT = Figure(
    "Output tok/s", ("output_tokens_per_s",), "number", "output tokens made per second, while requests arrived", "more"
)
HITS = Figure(
    "Prefix hits",
    ("prefix_hit_rate",),
    "share",
    "cached over all prompt tokens, of requests with a first token",
    "more",
)
BUSY = Figure("Busy time", ("busy_time", "mean"), "share", "share of the time up with a step under way; not headroom")
COST = Figure("$ / Mtok", ("cost_usd_per_mtok",), "dollars", "dollars per million input and output tokens", "less")
ENERGY = Figure("J / Mtok", ("energy_j_per_mtok",), "number", "joules per million input and output tokens", "less")

HOURS = Figure(
    "Replica-hours", ("replica_hours",), "number", "in which replicas occupied their devices, start-up included", "less"
)
SCALING = (
    Figure("Scale-ups", ("scaling", "scale_ups"), "count", "times a pool's target was raised"),
    Figure("Scale-downs", ("scaling", "scale_downs"), "count", "times a pool's target was lowered"),
    Figure("Starting", ("scaling", "starting_s"), "seconds", "replica-seconds of starts"),
    Figure("Pre-warmed", ("scaling", "warm_s"), "seconds", "slot-seconds of pre-warming"),
    Figure("Cold requests", ("scaling", "cold_requests"), "count", "waited while no replica of the pool served"),
    Figure("Cold wait", ("scaling", "cold_wait_s"), "seconds", "total seconds of these waits"),
)

ENDS = tuple(
    Figure(name.replace("_", " ").capitalize(), (name,), "count")
    for name in ("finished", "rejected", "timed_out", "cancelled", "lost", "unfinished")
)
UPSETS = tuple(
    Figure(name.replace("_", " ").capitalize(), (name,), "count")
    for name in (
        "preemptions", "migrations", "retries", "loans", "loans_refused", "hedges", "hedges_won", "hedge_tokens",
    )
)  # fmt: skip

KEY = (
    REQUESTS, *ENDS, *PROGRAMS, *AGENTS, OFFERED, GOODPUT, RATE, OUTPUT,
    Figure("Total tok/s", ("total_tokens_per_s",), "number"), ATTAINMENT, HITS, BUSY, *UPSETS, HOURS, *SCALING, COST,
    Figure("$ / Mtok output", ("cost_usd_per_mtok_output",), "dollars"), ENERGY,
    Figure("J / Mtok output", ("energy_j_per_mtok_output",), "number"),
)  # fmt: skip
"""The figures of one run that are single numbers, in reading order."""

COMPARED = (
    REQUESTS, ENDS[0], TTFT[1], TTFT[4], TPOT[1], TPOT[4], E2E[1], E2E[4], PROGRAM[0], PROGRAM[4],
    ATTAINMENT, GOODPUT, OUTPUT, HITS, *AGENTS[1:3], *AGENTS[5:7], *AGENTS[8:], BUSY, COST, ENERGY,
)  # fmt: skip
"""The columns of a comparison, in reading order."""

SERIES: dict[str, tuple[Figure, ...]] = {"TTFT": TTFT, "TPOT": TPOT, "E2E": E2E, "Queue": QUEUE, "Program": PROGRAM}
"""The latencies of one run: rows of their own, with mean and percentiles as columns; `PROGRAM` where there are any."""

DECIDING = {
    figure.name: figure
    for figure in (
        ATTAINMENT,
        GOODPUT,
        *TTFT,
        *TPOT,
        *E2E,
        *PROGRAM,
        *PROGRAMS[1:],
        *(figure for figure in AGENTS if figure.better),
        *QUEUE,
        RATE,
        OUTPUT,
        HITS,
        HOURS,
        COST,
        ENERGY,
    )
}
"""Figures by which one result can be better than another."""


def deciding(name: str) -> Figure:
    """The figure called `name`, as in ttft_s.p99; UserError with the nearest names where it cannot decide."""
    if name in DECIDING:
        return DECIDING[name]
    hint = nearest(name, DECIDING, "known are")
    raise UserError(f"{name!r} is not a figure by which results can be compared; {hint}")
