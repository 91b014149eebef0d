"""Pipette tried where the answer is known: its peaks, its order of layouts and its placements against simulated steps.

Peaks are those of `cost.training`; steps run 1F1B operation by operation over links that all differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from poise.catalogue.devices import device
from poise.core.chance import Chance
from poise.core.model import Model
from poise.cost.training import Job, Layout, predict, shape
from poise.cost.training.figures import figures
from poise.cost.training.stages import stages_of
from poise.cost.training.step import evaluate
from poise.experiment.rank_correlation import spearman
from poise.pipeline import Costs, make, time
from poise.plan.training.pipette import Matrix, Work, hidden_path_s, naive_s, path_s, place, step_s, sync_s
from poise.plan.training.pipette_memory import Estimator, features, learn
from poise.plan.training.space import Space, columns_of

MODELS = tuple(
    shape(layers, hidden, hidden // 128)
    for layers, hidden in ((24, 1024), (24, 2048), (32, 2560), (36, 4096), (40, 4096), (40, 5120), (48, 6144))
)
"""GPT models whose layouts are profiled, of 0.3 to 22 billion weights."""
PROFILED, LARGER = (1, 2, 4), (8, 16)
"""Servers on which peaks are measured, and for which they are estimated."""
TOKENS, BATCH = 2048, 256
NOMINAL, SLOWEST = 25e9, 0.3
"""Bytes/s of a NIC (HDR InfiniBand), and the part of it that the slowest link reaches."""
ANNEALED = 4
"""Best layouts whose servers are placed."""
GRAIN = 1e-6
SPACE = Space(
    schedule=("one_f_one_b",), zero=(0,), recompute=("none",), counted=False, micro_batch=(1, 2, 4, 8),
    tensor=(1, 2, 4, 8),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Learnt:
    """Errors of estimated peaks on more servers than were profiled: mean and median part, and rank correlation."""

    mean: float
    median: float
    spearman: float


@dataclass(frozen=True, slots=True)
class Ranked:
    """Rank correlation of steps by both models with simulated ones."""

    hidden: float
    naive: float


@dataclass(frozen=True, slots=True)
class Configured:
    """Simulated seconds of a step: of Pipette's layout and placement, of its layout unplaced, and of the layout of a
    search with nominal links that counts messages once; `refused`: those that it proposes before one that fits."""

    pipette_s: float
    unplaced_s: float
    other_s: float
    refused: int


def learnt(seed: int = 0) -> Learnt:
    """The estimator trained on `PROFILED` servers, compared with the peaks of `LARGER`."""
    found = estimator(seed)
    rows, peaks = profiled(LARGER)
    estimated, true = found.bytes(rows), np.asarray(peaks)
    errors = np.abs(estimated - true) / true
    return Learnt(float(errors.mean()), float(np.median(errors)), spearman(estimated.tolist(), peaks))


@lru_cache(maxsize=32)
def estimator(seed: int = 0) -> Estimator:
    """The estimator of peaks from those of `PROFILED` servers."""
    return learn(*profiled(PROFILED), seed=seed)


def profiled(servers: Sequence[int], models: Sequence[Model] = MODELS) -> tuple[list[tuple[float, ...]], list[float]]:
    """Features and peaks of every layout of every model on so many servers."""
    rows, peaks = [], []
    for job in (job_of(model, count) for count in servers for model in models):
        cut = columns_of(job, SPACE)
        rows += [features(job, cut.layout(row, job)) for row in range(len(cut))]
        peaks += evaluate(job, cut, figures()).memory.tolist()
    return rows, peaks


def job_of(model: Model, servers: int) -> Job:
    """The job of a model on so many servers."""
    return Job(model, device("A100"), 8 * servers, TOKENS, BATCH)


def ranked(seed: int, cases: int = 120) -> Ranked:
    """Steps of drawn pipelines over drawn links: of both models, and simulated."""
    chance = Chance(seed)
    rows = []
    for case in range(cases):
        chance.key = case
        stages = 2 ** (1 + int(3 * chance.draw("stages")))
        replicas = 2 ** int(3 * chance.draw("replicas"))
        many = stages * (1 + int(6 * chance.draw("microbatches")))
        message = 10 ** (7 + 2.2 * chance.draw("message"))
        work = Work(stages, replicas, many, 0.05, message, 2e9)
        links = links_of(stages * replicas, seed * cases + case)
        order = range(stages * replicas)
        path, sync = path_s(work, links, order), sync_s(work, links, order)
        rows.append((hidden_path_s(work, path, sync), naive_s(work, path, sync), simulated_s(work, links, order)))
    hidden, naive, true = (list(each) for each in zip(*rows, strict=True))
    return Ranked(spearman(hidden, true), spearman(naive, true))


def links_of(servers: int, seed: int) -> list[list[float]]:
    """Bytes/s between every two servers, drawn from the slowest to the nominal."""
    chance = Chance(seed)
    found = [[NOMINAL] * servers for _ in range(servers)]
    for a in range(servers):
        for b in range(a):
            chance.key = a * servers + b
            found[a][b] = found[b][a] = NOMINAL * (SLOWEST + (1 - SLOWEST) * chance.draw("link"))
    return found


def simulated_s(work: Work, bandwidth: Matrix, order: Sequence[int]) -> float:
    """1F1B of each replica, operation by operation over its own links, then the sum of gradients."""
    p, part = work.stages, round(work.compute_s / 3 / GRAIN)
    spans = []
    for replica in range(work.replicas):
        own = order[replica * p : replica * p + p]
        links = [[0 if a == b else round(work.message / bandwidth[a][b] / GRAIN) for b in own] for a in own]
        schedule = make("one_f_one_b", p, work.microbatches)
        spans.append(float(time(schedule, Costs.of(part, part, part, links=links)).makespan) * GRAIN)
    return max(spans) + sync_s(work, bandwidth, order)


def configured(seed: int, servers: int = 16) -> Configured:
    """A GPT of 8 billion weights on servers of eight A100 whose links are drawn."""
    job, links = job_of(MODELS[4], servers), links_of(servers, seed)
    flat = [[NOMINAL] * servers for _ in range(servers)]
    order = range(servers)
    candidates = [(layout, work_of(job, layout)) for layout in layouts_of(job)]
    peaks = estimator(seed).bytes([features(job, layout) for layout, _ in candidates])
    kept = [each for each, peak in zip(candidates, peaks, strict=True) if peak <= job.device.memory_bytes]
    kept.sort(key=lambda each: step_s(each[1], links, order))
    fit = [each for each in kept if predict(job, each[0]).fits(job)]
    placed = min(
        ((work, place(work, links, Chance(seed))) for _, work in fit[:ANNEALED]), key=lambda each: each[1].seconds
    )
    candidates.sort(key=lambda each: naive_s(each[1], path_s(each[1], flat, order), sync_s(each[1], flat, order)))
    runs = [predict(job, layout).fits(job) for layout, _ in candidates]
    other = candidates[runs.index(True)][1]
    return Configured(
        simulated_s(placed[0], links, placed[1].order), simulated_s(placed[0], links, order),
        simulated_s(other, links, order), runs.index(True),
    )  # fmt: skip


def layouts_of(job: Job) -> list[Layout]:
    """Layouts that fill each server with one stage."""
    cut = columns_of(job, SPACE)
    found = [cut.layout(row, job) for row in range(len(cut))]
    return [each for each in found if each.data % (job.inside // each.tensor) == 0]


def work_of(job: Job, layout: Layout) -> Work:
    """A layout as a placement sees it, its replicas side by side in each server."""
    beside = job.inside // layout.tensor
    message = 2.0 * layout.micro_batch * job.sequence * job.model.hidden * beside / job.inside
    return Work(
        layout.pipeline, layout.data // beside, layout.microbatches(job), stages_of(job, layout).busiest, message,
        predict(job, layout).classes["gradients"],
    )  # fmt: skip
