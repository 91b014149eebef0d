"""Flow: graphs of subtasks that a model drafts, and which of them to run by how modular they are.

Niu et al., ICLR 2025 (arXiv 2501.07834). A workflow is an activity-on-vertex graph. Of the drafts that is chosen of
which the dependency complexity (the standard deviation of degrees) is low and the parallelism (subtasks for each level)
is high: the lowest z(complexity) − z(parallelism) over the drafts. Levels are those of the longest way here; the code
counts a subtask anew at each visit of a breadth-first search.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush

import numpy as np
from numpy.typing import NDArray

from poise.core.errors import ScenarioError
from poise.workload.draw import count, stream

EPSILON = 0.01
"""What the code adds to each standard deviation."""

DENSEST = 4
"""Further earlier subtasks that one waits for in the densest drafts, half of them in the mean."""


@dataclass(frozen=True, slots=True)
class Draft:
    """A graph of subtasks by number. before: for each the subtasks it waits for, all of smaller numbers."""

    before: tuple[tuple[int, ...], ...]

    def __post_init__(self) -> None:
        for task, before in enumerate(self.before):
            if any(not 0 <= each < task for each in before) or len({*before}) < len(before):
                raise ScenarioError(f"subtask {task} waits for {list(before)}; name earlier ones, each once")

    @property
    def after(self) -> list[list[int]]:
        """For each subtask those that wait for it."""
        found: list[list[int]] = [[] for _ in self.before]
        for task, before in enumerate(self.before):
            for each in before:
                found[each].append(task)
        return found

    @property
    def parallelism(self) -> float:
        """Subtasks for each level, a level being the longest way from a subtask that waits for none."""
        levels: list[int] = []
        for before in self.before:
            levels.append(1 + max((levels[each] for each in before), default=0))
        return len(levels) / max(levels)

    @property
    def complexity(self) -> float:
        """Standard deviation of the number of edges of a subtask."""
        return float(np.std([len(before) + len(after) for before, after in zip(self.before, self.after, strict=True)]))

    def makespan(self, took: Sequence[float], workers: int = 0) -> float:
        """Return when all have ended, each after `took`, on so many workers (0: any number), first come first."""
        left, after = [len(before) for before in self.before], self.after
        ready = [task for task, number in enumerate(left) if not number]
        running: list[tuple[float, int]] = []
        now = 0.0
        while ready or running:
            while ready and (not workers or len(running) < workers):
                task = ready.pop(0)
                heappush(running, (now + took[task], task))
            now, task = heappop(running)
            for each in after[task]:
                left[each] -= 1
                if not left[each]:
                    ready.append(each)
        return now


def scores(drafts: Sequence[Draft]) -> NDArray[np.float64]:
    """Return z(complexity) − z(parallelism) of each draft; the lowest is chosen."""
    columns = np.array([[each.complexity, each.parallelism] for each in drafts])
    z = (columns - columns.mean(axis=0)) / (columns.std(axis=0) + EPSILON)
    return np.asarray(z[:, 0] - z[:, 1])


def drafts(tasks: int, candidates: int, seed: int = 0, number: int = 0) -> list[Draft]:
    """Return graphs of the same subtasks for program `number`, from without dependencies to dense.

    Each graph has a share of its own (uniform): with that probability a subtask waits for an earlier one, and with
    `DENSEST` / `tasks` times that for each of the others as well.
    """
    count("tasks", tasks)
    rng = stream(seed, f"drafts {number}")
    found = []
    for share in rng.random(count("candidates", candidates)):
        edges = np.tril(rng.random((tasks, tasks)) < share * DENSEST / tasks, -1)
        one = (rng.random(tasks) * np.arange(tasks)).astype(int)
        chained = np.flatnonzero(rng.random(tasks)[1:] < share) + 1
        edges[chained, one[chained]] = True
        found.append(Draft(tuple(tuple(np.flatnonzero(row).tolist()) for row in edges)))
    return found


@dataclass(frozen=True, slots=True)
class Agreement:
    """How the score and the makespan of drafts go together. rank: Spearman's correlation, mean over programs.

    mean, chosen, best: makespans of all drafts, of the one that the score chooses, and of the shortest one; in units of
    the mean duration of a subtask.
    """

    rank: float
    mean: float
    chosen: float
    best: float


def agreement(tasks: int = 12, candidates: int = 10, workers: int = 0, programs: int = 200, seed: int = 0) -> Agreement:
    """Return the agreement over programs whose subtasks take exponential times, the same in every draft."""
    rows, ranks = [], []
    for number in range(count("programs", programs)):
        took = stream(seed, f"durations {number}").exponential(size=tasks).tolist()
        some = drafts(tasks, candidates, seed, number)
        spans, given = np.array([each.makespan(took, workers) for each in some]), scores(some)
        rows.append((spans.mean(), spans[given.argmin()], spans.min()))
        one, two = _ranks(given), _ranks(spans)
        if one.std() and two.std():
            ranks.append(float(np.corrcoef(one, two)[0, 1]))
    mean, chosen, best = np.array(rows).mean(axis=0).tolist()
    return Agreement(float(np.mean(ranks)) if ranks else 0.0, mean, chosen, best)


def _ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The place of each value in their order; the mean place of equal ones."""
    return np.asarray([((values < each).sum() + (values <= each).sum() - 1) / 2 for each in values])
