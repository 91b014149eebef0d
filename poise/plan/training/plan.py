"""The command `poise train plan` after its options are parsed: the best layouts of a job, and what binds them."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from poise.catalogue.architecture import architecture
from poise.catalogue.devices import device
from poise.catalogue.models import model
from poise.core.errors import ScenarioError, UserError
from poise.cost.training import Job, Prediction
from poise.cost.training.layout import check_one_shape
from poise.plan.training.layerwise import layerwise
from poise.plan.training.levels import levelled
from poise.plan.training.reschedule import Rescheduled, rescheduled
from poise.plan.training.rows import BINDING, GIB, HEAD, cells, slower
from poise.plan.training.rules import ruled
from poise.plan.training.search import TrainSearchResult, kind, must_fit, search
from poise.plan.training.servers import GBIT, Ordered, ordered, read_bandwidths
from poise.plan.training.sites import Joined, joined, read_sites
from poise.plan.training.space import Space
from poise.plan.training.trainers import TRAINERS, must_describe
from poise.report.table import show
from poise.scenario.step.model_error import step_error
from poise.scenario.write import check_json, put_json
from poise.sim.step.layout import simulated

AGAIN = ("layout", "schedule", "step s", "less", "activations held", "room")

MOST_NIC_GBIT_S = 1_000_000
"""Far above any network card, and far below where sums of times lose their digits."""


@dataclass(frozen=True, slots=True)
class TrainPlanQuestion:
    """The options of `poise train plan`; `json` is a file or `-`."""

    model: str
    devices: str
    gpus: int
    batch: int
    sequence: int
    precision: str = "bf16"
    top: int = 8
    nic_gbit_s: float = 0.0
    space: Space = Space()  # noqa: RUF009
    json: str | None = None
    out: Path | None = None
    bandwidths: Path | None = None
    also: tuple[str, ...] = ()
    between_gbit_s: float = 0.0
    reschedule: bool = False
    layerwise: bool = False
    levels: bool = False


def plan_training(ask: TrainPlanQuestion) -> None:
    """Search and print; ScenarioError where nothing fits, with the nearest miss and what would fit."""
    check_json(ask.json)
    measured = None if ask.bandwidths is None else read_bandwidths(ask.bandwidths)
    job = job_of(ask)
    sites = read_sites(job, ask.also)
    about = partial(architecture, ask.model)
    if ask.space.trainer:
        must_describe(job, ask.space.trainer, about)
    found = search(job, ask.space, count=ask.top)
    must_fit(found)
    timed = rescheduled(job, [*found.best, *found.frontier]) if ask.reschedule else []
    found = first(found, timed)
    over = joined(job, ask.space, sites, ask.between_gbit_s) if ask.also else None
    layers = layerwise(job, ask.space) if ask.layerwise else None
    levels = levelled(job, ask.space) if ask.levels else None
    servers = None if measured is None else ordered(found.job, found.best[0], *measured)
    if ask.out is not None:
        from poise.plan.training.output import remarks, write_out

        written = write_out(found, ask.out, servers, layers, about)
    parts = {"layerwise": layers, "levels": levels}
    more = {name: asdict(each) for name, each in parts.items() if each is not None}
    put_json({**as_dict(found, servers, over), **_as_rows(timed), **more}, ask.json)
    if ask.json == "-":
        return
    _report(found)
    if timed:
        show("With the fastest schedule that fits", AGAIN, [_again(each) for each in timed], sys.stdout)
    for each in (layers, levels):
        if each is not None:
            print(each.line())
    if servers is not None:
        print(
            f"Servers, stage after stage: {', '.join(servers.servers)}: {servers.seconds:.3f} s a step by Pipette's "
            f"model, {servers.given_s:.3f} s in the file's order"
        )
    if over is not None:
        print(over.line())
    if ask.out is not None:
        print(f"Written to {ask.out}: {', '.join(written.files)}")
        print("\n".join(f"- {each}" for each in remarks(written)))
        if written.refused:
            print(f"--for TRAINER searches what it runs, for {', '.join(TRAINERS)}")


def first(found: TrainSearchResult, timed: Sequence[Rescheduled]) -> TrainSearchResult:
    """The layouts found, first the one that is fastest with another schedule, if any."""
    if not timed or timed[0].seconds >= found.best[0].seconds:
        return found
    chosen = next(each for each in (*found.best, *found.frontier) if each.layout == timed[0].layout)
    others = (each for each in found.alternatives if kind(each.layout) != kind(chosen.layout))
    return replace(
        found,
        best=(chosen, *(each for each in found.best if each is not chosen)),
        alternatives=(chosen, *others),
    )


def _as_rows(timed: Sequence[Rescheduled]) -> dict[str, Any]:
    return {"rescheduled": [asdict(each) for each in timed]} if timed else {}


def _again(each: Rescheduled) -> Sequence[str]:
    """A layout's row under `AGAIN`."""
    less = f"{1 - each.seconds / each.own_s:.1%}"
    return each.layout.label(), each.schedule, f"{each.seconds:.3f}", less, f"{each.held:.2f}", f"{each.room:.2f}"


def job_of(ask: TrainPlanQuestion) -> Job:
    """The job of the options."""
    if ask.precision not in ("bf16", "fp8"):
        raise UserError(f"--precision {ask.precision!r} is not known; give bf16 or fp8")
    for name, given in (("--nic", ask.nic_gbit_s), ("--between", ask.between_gbit_s)):
        if not 0 <= given <= MOST_NIC_GBIT_S:
            raise UserError(f"{name} {given:g} is out of range; give Gbit/s per device, 0 to {MOST_NIC_GBIT_S:,}")
    found = model(ask.model)
    check_one_shape(found)
    return Job(
        found, device(ask.devices), ask.gpus, ask.sequence, ask.batch,
        precision=ask.precision,  # type: ignore[arg-type]
        nic_bw=ask.nic_gbit_s * GBIT,
    )  # fmt: skip


def as_dict(found: TrainSearchResult, servers: Ordered | None = None, over: Joined | None = None) -> dict[str, Any]:
    """Everything found as plain data."""
    return {
        "answer": found.answer(),
        **({} if servers is None else {"servers": asdict(servers)}),
        **({} if over is None else {"clusters": asdict(over)}),
        "model": found.job.model.name,
        "device": found.job.device.name,
        "devices": found.job.devices,
        "considered": found.considered,
        "fitting": found.fitting,
        "layouts_per_s": found.rate,
        "model_error": step_error(found.job, found.best[0].layout).as_dict(found.best[0], found.job),
        "best": [_row(each) for each in found.best],
        "alternatives": [_row(each) for each in found.alternatives],
        "frontier": [_row(each) for each in found.frontier],
    }


def _row(each: Prediction) -> dict[str, Any]:
    return {
        "layout": asdict(each.layout), "step_s": each.seconds, "tokens_per_s_per_device": each.tokens_per_device,
        "mfu": each.mfu, "hfu": each.hfu, "memory_bytes": each.memory, "bubble": each.bubble, "exposed": each.exposed,
        "parts_s": each.parts, "memory_by_class": each.classes,
    }  # fmt: skip


def _report(found: TrainSearchResult) -> None:
    job, best = found.job, found.best[0]
    print(f"{found.answer()}\n")
    show("The fastest layout of each kind", HEAD, [cells(each) for each in found.alternatives], sys.stdout)
    show("Time against memory", HEAD, [cells(each) for each in found.frontier], sys.stdout)
    print(f"The best spends {shares(best)}")
    held = ", ".join(f"{name} {size / GIB:.1f}" for name, size in best.classes.items() if size >= 0.05 * GIB)
    print(f"Memory of its fullest device, GiB: {held}; of {job.device.memory_bytes / GIB:.1f}")
    print(step_error(job, best.layout).line(best, job))
    if (rule := by_rules(job)) is not None:
        print(f"By the rules of *Efficient Parallelization Layouts*: {rule.layout.label()}, {slower(rule, best)}")
    print(
        f"{job.model.name} on {job.devices} {job.device.name}: {found.considered:,} layouts evaluated in "
        f"{found.seconds:.1f} s ({found.rate:,.0f} a second), {found.fitting:,} fit"
    )


def by_rules(job: Job) -> Prediction | None:
    """The layout of a practitioner's rules (arXiv 2311.05610, section 5), simulated; None where none fits."""
    try:
        return simulated(job, ruled(job))
    except ScenarioError:
        return None


def shares(best: Prediction) -> str:
    """The breakdown of a step's time: its four largest parts."""
    parts = sorted(best.parts.items(), key=lambda part: -part[1])
    return ", ".join(f"{share / best.seconds:.1%} on {BINDING[name]}" for name, share in parts[:4])
