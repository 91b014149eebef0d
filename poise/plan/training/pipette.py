"""Workers placed by measured bandwidth between every two servers, and the step that such a placement gives.

Pipette (Yim et al., "Automatic fine-grained LLM training configurator for real-world clusters", DATE 2024): a pipeline
in steady state waits for its messages once in every `stages` microbatches, on the slowest of its paths, and links of a
real cluster differ; so the order of servers is searched by simulated annealing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import exp

from poise.core.chance import Chance
from poise.core.errors import ScenarioError

COOLING = 0.999
"""Factor of the temperature at each try."""
STEPS = 6_000
"""Tries of the annealing."""

Matrix = Sequence[Sequence[float]]


@dataclass(frozen=True, slots=True)
class Work:
    """A step as a placement sees it: `stages` × `replicas` servers, seconds of a microbatch on a stage, bytes moved.

    message: bytes between two stages of one microbatch, one way.  gradients: bytes that a stage's replicas sum.
    """

    stages: int
    replicas: int
    microbatches: int
    compute_s: float
    message: float
    gradients: float


@dataclass(frozen=True, slots=True)
class Placement:
    """Which server holds what: `order[replica · stages + stage]`; `seconds` by `step_s`, `naive_s` in given order."""

    order: tuple[int, ...]
    seconds: float
    naive_s: float


def hidden_path_s(work: Work, path_s: float, sync_s: float) -> float:
    """A step: with G = ⌊m/p⌋ groups, G·(p·t + path) + (p − 1)·t + sync; below one group, path + (p + m − 1)·t + sync.

    t: forward and backward of a microbatch on a stage.  path_s: messages both ways along the slowest pipeline.
    """
    p, m, t = work.stages, work.microbatches, work.compute_s
    groups = m // p
    if groups == 0:
        return path_s + (p + m - 1) * t + sync_s
    return groups * (p * t + path_s) + (m % p) * t + (p - 1) * t + sync_s


def naive_s(work: Work, path_s: float, sync_s: float) -> float:
    """The same with messages counted once a step, as most searches do."""
    return (work.microbatches + work.stages - 1) * work.compute_s + path_s + sync_s


def step_s(work: Work, bandwidth: Matrix, order: Sequence[int]) -> float:
    """Seconds of a step of servers in `order`, with `bandwidth` bytes/s between every two."""
    return hidden_path_s(work, path_s(work, bandwidth, order), sync_s(work, bandwidth, order))


def path_s(work: Work, bandwidth: Matrix, order: Sequence[int]) -> float:
    """Messages there and back along the slowest pipeline."""
    p = work.stages
    paths = [order[at * p : at * p + p] for at in range(work.replicas)]
    return max(sum(2 * work.message / bandwidth[a][b] for a, b in pairwise(path)) for path in paths)


def sync_s(work: Work, bandwidth: Matrix, order: Sequence[int]) -> float:
    """The ring of the first stage's replicas, the last to begin: 2(n − 1)/n of its bytes over its slowest link."""
    n = work.replicas
    if n == 1:
        return 0.0
    ring = order[:: work.stages]
    slowest = min(bandwidth[a][b] for a, b in zip(ring, (*ring[1:], ring[0]), strict=True))
    return 2 * (n - 1) / n * work.gradients / slowest


def place(work: Work, bandwidth: Matrix, chance: Chance, steps: int = STEPS) -> Placement:
    """The best order of servers that annealing finds; never worse than the given one.

    Moves: two servers swap, one moves elsewhere, a run of them is reversed or moved. ScenarioError for a matrix of
    another size than the servers, or links without bandwidth.
    """
    count = work.stages * work.replicas
    _check(bandwidth, count)
    order = list(range(count))
    now = begun = step_s(work, bandwidth, order)
    best, best_s, warmth = list(order), now, 0.05 * now
    for step in range(steps if count > 2 else 0):
        chance.key = step
        tried = _moved(order, chance)
        then = step_s(work, bandwidth, tried)
        if then <= now or chance.draw("accept") < exp((now - then) / warmth):
            order, now = tried, then
            if now < best_s:
                best, best_s = list(order), now
        warmth *= COOLING
    return Placement(tuple(best), best_s, begun)


def _moved(order: Sequence[int], chance: Chance) -> list[int]:
    """A neighbour of an order."""
    count = len(order)
    low, high = sorted((int(chance.draw("from") * count), int(chance.draw("to") * count)))
    found, kind = list(order), int(chance.draw("kind") * 4)
    if kind == 0:
        found[low], found[high] = found[high], found[low]
    elif kind == 1:
        found.insert(high, found.pop(low))
    elif kind == 2:
        found[low : high + 1] = reversed(found[low : high + 1])
    else:
        part = found[low : high + 1]
        del found[low : high + 1]
        at = int(chance.draw("place") * (len(found) + 1))
        found[at:at] = part
    return found


def _check(bandwidth: Matrix, count: int) -> None:
    if len(bandwidth) != count or any(len(row) != count for row in bandwidth):
        raise ScenarioError(f"bandwidth is {len(bandwidth)} rows for {count} servers; give {count} × {count} bytes/s")
    for a in range(count):
        for b in range(count):
            if a != b and not bandwidth[a][b] > 0:
                raise ScenarioError(f"bandwidth between servers {a} and {b} is {bandwidth[a][b]}; give bytes/s above 0")
