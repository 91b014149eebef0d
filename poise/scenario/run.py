"""Runs each seed of a scenario."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from poise.core.slot import SCENARIO
from poise.core.units import SECOND
from poise.experiment.interrupts import interrupts
from poise.experiment.progress import Meter
from poise.report.metrics import measure
from poise.scenario.answer import answer
from poise.scenario.build import Problem
from poise.scenario.combination import check_kept
from poise.scenario.identity import blind, note
from poise.scenario.model_error import model_error
from poise.scenario.outcome import Outcome
from poise.scenario.resolve import provenance
from poise.scenario.simulate import simulate
from poise.scenario.warmup import check_counted, check_warmup
from poise.sim.terms import Saving, Stopping, Watching

if TYPE_CHECKING:
    from poise.core.records.records import Run
    from poise.core.records.request_log import RequestLog, RequestLogs
    from poise.core.records.trace import Trace
    from poise.policies import Policies
    from poise.workload import Workload

SAMPLES = 400
"""Samples of the timeline within the span of the arrivals."""

SLICED = 200_000
"""Requests beyond which batches and blame are not kept for timelines and reports: a million would take a gigabyte."""


@dataclass(frozen=True, slots=True)
class Keep:
    """What to keep of the first seed: the charts' data, and its events; of every seed: blame."""

    timeline: bool = False
    trace: Trace | None = None
    blame: bool = False


def run(problem: Problem, *, keep: Keep | None = None, progress: Meter | None = None) -> Outcome:
    """Simulate every seed; Ctrl-C ends it with what is done so far, marked as interrupted.

    ScenarioError where the scenario lists several policies for a slot: those are compared.
    """
    keep = keep or Keep()
    label, policies = only_bundle(problem)
    first = problem.traffic.make(problem.seeds[0])
    check_kept(policies.cache, problem.cluster.pools, first, problem.until_s)
    check_warmup(first, problem.warmup_s, problem.until_s)
    facts = provenance(problem, first)
    notes = _notes(problem, label, policies, facts["workload"])
    pools = [pool.name or str(at) for at, pool in enumerate(problem.cluster.pools)]
    outcome = Outcome(label, facts, len(problem.seeds), notes, workload=first, blamed=keep.blame, pools=pools)
    with interrupts() as stop:
        for seed in problem.seeds:
            workload = first if seed == problem.seeds[0] else problem.traffic.make(seed)
            _one(problem, outcome, policies, seed, workload, keep, _metered(progress, stop, label))
            if stop.is_set() or outcome.interrupted:
                outcome.interrupted = True
                break
        if keep.timeline and outcome.first is not None and not outcome.interrupted:
            from poise.scenario.story import stories

            outcome.stories = stories(problem, policies, first, outcome.first, _metered(progress, stop, "stories"))
    outcome.answer = answer(problem, outcome)
    outcome.model_error = model_error(problem.cost, problem.cluster.pools, first.concurrency > 0)
    return outcome


def only_bundle(problem: Problem) -> tuple[str, Policies]:
    """The label and the policies of a scenario that compares nothing; ScenarioError for one that does."""
    if len(problem.bundles) == 1:
        return problem.bundles[0]
    section, places = problem.loaded.scenario.policies, problem.loaded.places
    slot = next(slot for slot in SCENARIO if isinstance(value := getattr(section, slot), list) and len(value) > 1)
    text = f"lists {len(getattr(section, slot))} policies, and a run has one"
    raise places.error(("policies", slot), f"{text}; compare them with `poise compare`, or name one")


def first_seed(
    problem: Problem,
    policies: Policies,
    workload: Workload,
    *,
    blame: bool = False,
    diary: RequestLog | RequestLogs | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Run:
    """The run of a problem's first seed, for inspection."""
    return simulate(
        problem.cluster,
        workload,
        policies,
        cost=problem.cost,
        belief=problem.belief,
        seed=problem.seeds[0],
        stopping=Stopping(until_s=problem.until_s, drain=problem.drain),
        saving=Saving(blame=blame, diary=diary),
        watching=Watching(progress=progress),
    )


def _one(
    problem: Problem,
    outcome: Outcome,
    policies: Policies,
    seed: int,
    workload: Workload,
    keep: Keep,
    progress: Callable[[int, int], None],
) -> None:
    """One seed."""
    is_first = seed == problem.seeds[0]
    drawn = keep.timeline and is_first
    done = simulate(
        problem.cluster,
        workload,
        policies,
        cost=problem.cost,
        belief=problem.belief,
        seed=seed,
        stopping=Stopping(until_s=problem.until_s, drain=problem.drain),
        saving=Saving(
            sample_s=period(workload) if drawn else 0.0,
            slices=drawn and len(workload) <= SLICED,
            blame=keep.blame or (drawn and len(workload) <= SLICED),
            trace=keep.trace if is_first else None,
        ),
        watching=Watching(progress=progress),
    )
    metrics = measure(done, problem.cluster, problem.slo, warmup_s=problem.warmup_s)
    if not done.interrupted:
        check_counted(metrics.requests, problem.warmup_s)
    outcome.add(seed, done, metrics if keep.blame else replace(metrics, blame=None), problem.warmup_s)


def period(workload: Workload) -> float:
    """Seconds between samples: a share of the span of the arrivals, and not below a millisecond."""
    return max(float(workload.arrival[-1]) / SECOND / SAMPLES, 0.001) if workload.arrival[-1] else 0.1


def _notes(problem: Problem, label: str, policies: Policies, offered: Mapping[str, Any]) -> dict[str, str]:
    """Notes on several seeds of a recorded load, and on whether a router has what it needs."""
    notes = {}
    if len(problem.seeds) > 1 and problem.traffic.recorded:
        text = "a recorded load is the same under every seed; seeds only break ties"
        notes["seeds"] = f"{text}, so they say nothing of other traffic"
    given = problem.loaded.scenario.policies.model_fields_set & {"router", "order"}
    if given and (found := blind({label: policies}, offered)):
        notes["prefix_hit_rate"] = note(found[label])
    return notes


def _metered(bar: Meter | None, stop: threading.Event, label: str) -> Callable[[int, int], None]:
    """A progress callback that reports, and that ends the run once a stop is asked for: between two events."""

    def progress(ended: int, total: int) -> None:
        if stop.is_set():
            raise KeyboardInterrupt
        if bar is not None:
            bar(label, ended, total)

    return progress
