"""The best layouts of a space: all are evaluated by closed forms, the best then simulated by their schedules."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from poise.core.errors import ScenarioError
from poise.cost.training.columns import Columns
from poise.cost.training.figures import Figures, figures
from poise.cost.training.job import Job
from poise.cost.training.layout import Layout
from poise.cost.training.memory import CLASSES
from poise.cost.training.step import HEADROOM, Prediction, Steps, evaluate, prediction, safe_bytes
from poise.plan.training.rows import HEAD, cells, decided, record
from poise.plan.training.space import Space, columns_of, refused
from poise.sim.step.layout import simulated

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure
    from polars import DataFrame

BLOCK = 1 << 16
"""Layouts that are evaluated at once."""
SLOWEST = 3.0
"""Times the fastest step up to which layouts of less memory are shown."""
SIMULATED = 12
"""Best layouts by closed forms that are simulated."""


@dataclass(frozen=True, slots=True)
class TrainSearchResult:
    """What a search found: the best layouts, fastest first, and how many there were.

    alternatives: the fastest layout of each kind (`kind`), so that they differ in more than a setting of one.
    considered: layouts of the space, each evaluated; fitting: those whose peak leaves headroom.  frontier: of time
    against memory, fastest first.  closest: where nothing fits, the layout of least memory.  seconds: of evaluation.
    """

    job: Job
    best: tuple[Prediction, ...]
    frontier: tuple[Prediction, ...]
    closest: Prediction | None
    considered: int
    fitting: int
    seconds: float
    alternatives: tuple[Prediction, ...] = ()

    @property
    def rate(self) -> float:
        """Layouts evaluated per second."""
        return self.considered / self.seconds if self.seconds else 0.0

    def answer(self) -> str:
        """The sentence that decides between the layouts; empty where none fits."""
        return decided(self.job, self.best[0], self.alternatives[1:]) if self.best else ""

    def frame(self) -> DataFrame:
        """A row for each alternative, then for each layout of the frontier, as a polars frame."""
        import polars as pl

        rows = [{"on_frontier": each in self.frontier, **record(each)} for each in self._shown]
        return pl.DataFrame(rows, infer_schema_length=None)

    def to_pandas(self) -> pandas.DataFrame:
        """The same as a pandas frame; UserError without pandas, the extra `pandas`."""
        from poise.report.optional import to_pandas

        return to_pandas(self.frame())

    def plot(self) -> Figure:
        """The alternatives side by side: the time of a step, memory, MFU and what is lost.

        A matplotlib figure; UserError without it, the extra `plot`.
        """
        from poise.report.optional import needed

        needed("matplotlib", "plot", "TrainSearchResult.plot")
        from poise.plan.training.plots import beside

        return beside(self.job, self.alternatives)

    def __repr__(self) -> str:
        best = self.best[0].layout.label() if self.best else "nothing fits"
        return f"<TrainSearchResult for {self.job.model.name} on {self.job.devices} {self.job.device.name}: {best}>"

    def _repr_html_(self) -> str:
        """The answer and the alternatives."""
        from poise.core.card import card, paragraph, table

        rows = [cells(each) for each in self.alternatives]
        return card("" if rows else repr(self).strip("<>"), paragraph(self.answer(), strong=True), table(HEAD, rows))

    @property
    def _shown(self) -> list[Prediction]:
        seen = {each.layout for each in self.alternatives}
        return [*self.alternatives, *(each for each in self.frontier if each.layout not in seen)]


def search(job: Job, space: Space | None = None, *, count: int = 8, use: Figures | None = None) -> TrainSearchResult:
    """The `count` best layouts of the space: no layout of it is left out, so by closed forms the first is the best.

    The best `SIMULATED` are timed again by running their schedules operation by operation, and ordered by that.
    """
    use = use or figures(job.host)
    began = perf_counter()
    space = space or Space()
    cut = columns_of(job, space)
    steps = _all(job, cut, use)
    took = perf_counter() - began
    fits = steps.memory <= safe_bytes(job)
    order = np.flatnonzero(fits)[np.argsort(steps.seconds[fits], kind="stable")]
    if not len(order):
        closest = int(steps.memory.argmin())
        return TrainSearchResult(
            job, (), (), prediction(job, cut.layout(closest, job), steps, closest), len(cut), 0, took
        )
    order = _run(job, space, cut, order)
    ranked = [simulated(job, each, use) for each in _distinct(job, cut, steps, order, max(count, SIMULATED), _layout)]
    ranked.sort(key=lambda each: each.seconds)
    seen = {each.layout for each in ranked}
    others = [each for each in _distinct(job, cut, steps, order, count, kind) if each.layout not in seen]
    kinds: dict[Kind, Prediction] = {}
    for each in sorted([*ranked, *(simulated(job, each, use) for each in others)], key=lambda each: each.seconds):
        kinds.setdefault(kind(each.layout), each)
    rows = _frontier(steps, order)
    front = [simulated(job, prediction(job, cut.layout(row, job), steps, row), use) for row in rows]
    return TrainSearchResult(
        job, tuple(ranked[:count]), tuple(front), None, len(cut), int(fits.sum()), took,
        tuple(kinds.values())[:count],
    )  # fmt: skip


def _run(job: Job, space: Space, cut: Columns, order: Any) -> Any:
    """Those of the rows that the space's trainer runs; ScenarioError where it runs none."""
    if space.check is None:
        return order
    found = [row for row in order if not refused(job, space, cut.layout(int(row), job))]
    if not found:
        why = refused(job, space, cut.layout(int(order[0]), job))
        raise ScenarioError(f"--for {space.trainer}: none of {len(order):,} layouts that fit can be stated: {why}")
    return np.array(found)


def _all(job: Job, cut: Columns, use: Figures) -> Steps:
    parts = [evaluate(job, cut.take(slice(at, at + BLOCK)), use) for at in range(0, len(cut), BLOCK)]
    if len(parts) == 1:
        return parts[0]
    joined = {
        name: np.concatenate([getattr(each, name) for each in parts])
        for name in ("seconds", "bubble", "exposed", "memory")
    }
    return Steps(
        **joined,
        parts={name: np.concatenate([each.parts[name] for each in parts]) for name in parts[0].parts},
        classes={name: np.concatenate([each.classes[name] for each in parts]) for name in CLASSES},
        passes=tuple(np.concatenate(each) for each in zip(*(each.passes for each in parts), strict=True)),  # type: ignore[arg-type]
    )


Kind = tuple[object, ...]


def kind(layout: Layout) -> Kind:
    """What makes layouts alternatives: the degrees, the schedule, and what is recomputed or kept on the host.

    Chunks, microbatches, sharding, the split and the number of recomputed layers are settings within one kind.
    """
    return (
        layout.tensor, layout.pipeline, layout.data, layout.context, layout.expert, layout.expert_tensor,
        layout.schedule if layout.pipeline > 1 else "", layout.recomputed, layout.offload_optimizer,
        layout.offload_activations > 0,
    )  # fmt: skip


def _layout(layout: Layout) -> Layout:
    """A layout without what leaves the step unchanged."""
    return replace(layout, zero=0, split=())


def _distinct(
    job: Job, cut: Columns, steps: Steps, order: Any, count: int, key: Callable[[Layout], object]
) -> list[Prediction]:
    """The first layouts that differ by a key."""
    found: list[Prediction] = []
    seen = set()
    for row in order:
        layout = cut.layout(int(row), job)
        if key(layout) not in seen:
            seen.add(key(layout))
            found.append(prediction(job, layout, steps, int(row)))
        if len(found) == count:
            break
    return found


def _frontier(steps: Steps, order: Any, most: int = 8) -> list[int]:
    """The Pareto front of time and memory, fastest first, up to `SLOWEST` times the fastest.

    At most `most`, evenly chosen.
    """
    front: list[int] = []
    least = float("inf")
    for row in order:
        if steps.seconds[row] > SLOWEST * steps.seconds[order[0]]:
            break
        if steps.memory[row] < least * 0.999:
            least = float(steps.memory[row])
            front.append(int(row))
    return front[:: -(-len(front) // most)]


def must_fit(found: TrainSearchResult) -> None:
    """Raise ScenarioError where nothing fits, with the nearest miss by class and what would fit."""
    if found.best:
        return
    nearest = found.closest
    assert nearest is not None
    held = ", ".join(f"{name} {size / 2**30:.1f}" for name, size in nearest.classes.items() if size > 2**27)
    limit = found.job.device.memory_bytes / 2**30
    room = f"{limit:.1f} GiB of {found.job.device.name} with {HEADROOM:.0%} free"
    least = f"{nearest.memory / 2**30:.1f} GiB ({nearest.layout.label()}; GiB by class: {held})"
    raise ScenarioError(f"none of {found.considered:,} layouts fits {room}: the smallest needs {least}. {_cure(found)}")


def _cure(found: TrainSearchResult) -> str:
    nearest, job = found.closest, found.job
    assert nearest is not None
    states = nearest.classes["optimizer"]
    if nearest.memory - states <= safe_bytes(job):
        return "With optimizer states in host memory (--offload) it would fit"
    times = -(-nearest.memory // job.device.memory_bytes)
    return f"Take about {int(times) * job.devices} devices, devices with more memory, or allow --offload and --context"
