"""RL autoscaling: whether Q-learning finds a better target of concurrency than the default, and how good a one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.core.chance import Chance
from poise.core.policy import Scaler
from poise.core.records.records import FINISHED, Run
from poise.core.units import SECOND
from poise.policies.scale.concurrency_rl import ConcurrencyRl, State
from poise.policies.scale.kpa import Kpa
from poise.report.intervals import over_seeds


class Work(NamedTuple):
    """Requests of one kind: how many clients wait for them, their tokens, and the most a second that are served."""

    clients: int
    prompt_tokens: int
    output_tokens: int
    most: float


WORKS = {"chat": Work(300, 300, 800, 40.0), "documents": Work(300, 3000, 400, 30.0)}
CLUSTER = ps.Cluster.of("A100", count=6).replicas(3, model="llama-3.1-8b", min_replicas=1, max_replicas=6, start_s=5.0)
WINDOW_S, WINDOWS, COUNTED, FIXED = 60.0, 600, 100, 20
GRID = (10, 30, 50, 70, 110, 150, 230)
DEFAULT, RL, HILL = "default", "Q-learning", "hill climbing"
LEARNERS, NOISE = 20, 0.05


@dataclass(slots=True)
class HillClimbing(ConcurrencyRl):
    """The same target, moved on while the reward does not fall and back when it does; learns nothing."""

    _way: int = field(default=-1, init=False, repr=False, compare=False)
    _before: float = field(default=0.0, init=False, repr=False, compare=False)

    def _act(self, state: State, chance: Chance) -> None:
        reward = self._reward()
        if reward < self._before or not self.low <= self.target + self._way * self.step <= self.high:
            self._way = -self._way
        self._before = reward
        self._kpa.target += self._way * self.step


@dataclass(slots=True)
class Tabulated(ConcurrencyRl):
    """One whose rewards are those of fixed targets, with noise, and whose state is the target alone."""

    rewards: Mapping[str, float] = field(default_factory=dict)
    noise: np.random.Generator = field(default_factory=np.random.default_rng)

    def _reward(self) -> float:
        return self.expected() * float(np.exp(NOISE * self.noise.standard_normal())) / self.rewards[str(self.start)]

    def expected(self) -> float:
        """The reward at the present target, linear between fixed ones."""
        return float(np.interp(self.target, [float(each) for each in self.rewards], list(self.rewards.values())))

    def learn(self, windows: int, seed: int) -> float:
        """The mean reward that is to be expected over the last windows."""
        chance, seen = Chance(seed), []
        for chance.key in range(windows):
            self._act((self.target, 0, 0), chance)
            seen.append(self.expected())
        return float(np.mean(seen[-COUNTED:]))


def scalers() -> dict[str, Callable[[], Scaler]]:
    """What is compared: learned targets and fixed ones."""

    def fixed(target: float) -> Callable[[], Scaler]:
        return lambda: Kpa(target=target, utilisation=1.0)

    learned: dict[str, Callable[[], Scaler]] = {RL: ConcurrencyRl, HILL: HillClimbing}
    return learned | {DEFAULT: fixed(100.0)} | {str(target): fixed(float(target)) for target in GRID}


class Metrics(NamedTuple):
    """Seed by seed: requests per second over seconds of latency in the last windows and in the second hundred, and
    replicas in the mean of the run."""

    late: list[float]
    early: list[float]
    replicas: list[float]


def measure(bench: Bench) -> Findings:
    """Kinds of work × scalers."""
    found = {
        name: {way: _metrics(bench, work, way, build) for way, build in scalers().items()}
        for name, work in WORKS.items()
    }
    default, hill = dict.fromkeys(found, DEFAULT), dict.fromkeys(found, HILL)
    best = {name: _best(metrics) for name, metrics in found.items()}
    criteria = [
        _against("default", found, default, lambda each: each.late),
        _against("few", found, default, lambda each: each.early),
        _against("best fixed", found, best, lambda each: each.late),
        _against("hill climbing", found, hill, lambda each: each.late),
        _against("dearer", found, default, lambda each: each.replicas),
        _windows(found["chat"]),
    ]
    return Findings(criteria, [_curve(name, metrics) for name, metrics in found.items()])


def _metrics(bench: Bench, work: Work, way: str, build: Callable[[], Scaler]) -> Metrics:
    """A fixed target has nothing to learn: few windows show its reward."""
    part = 5 if bench.quick else 1
    windows, counted = (WINDOWS if way in (RL, HILL) else FIXED) // part, COUNTED // part
    metrics = Metrics([], [], [])
    for seed in range(bench.seeds()):
        until = windows * WINDOW_S
        load = ps.workload.closed(
            work.clients, int(work.most * until), prompt_tokens=work.prompt_tokens,
            output_tokens=ps.workload.lognormal(work.output_tokens, 1.0), seed=seed,
        )  # fmt: skip
        result = bench.simulate(CLUSTER, load, ps.Policies(scaler=build()), seed=seed, until=until, drain=False)
        first = max(windows - counted, windows // 2)
        metrics.late.append(_reward(result.run, first, windows))
        metrics.early.append(_reward(result.run, min(counted, first), min(2 * counted, windows)))
        metrics.replicas.append(result.metrics().replica_hours * 3600 / until)
    return metrics


def _reward(run: Run, first: int, last: int) -> float:
    """Requests that end in windows `first` to `last` a second, over the seconds that they took in the mean."""
    records = run.records
    ended, arrived = np.asarray(records.ended_at), np.asarray(records.arrived_at)
    begin, end = (int(each * WINDOW_S * SECOND) for each in (first, last))
    rows = (np.asarray(records.status) == FINISHED) & (ended >= begin) & (ended < end)
    took = float((ended[rows] - arrived[rows]).mean()) / SECOND
    return float(rows.sum()) / ((last - first) * WINDOW_S) / took


def _best(metrics: Mapping[str, Metrics]) -> str:
    """The fixed target with the highest reward in the mean."""
    return max(map(str, GRID), key=lambda target: sum(metrics[target].late))


def _against(
    key: str,
    found: Mapping[str, Mapping[str, Metrics]],
    other: Mapping[str, str],
    figure: Callable[[Metrics], list[float]],
) -> Answer:
    """How many times as much Q-learning has of a figure as another, for each kind of work."""
    gains: dict[str, Ratio] = {
        name: ratio(figure(metrics[other[name]]), figure(metrics[RL])) for name, metrics in found.items()
    }
    against = {name: f"a target of {other[name]}" if other[name].isdigit() else other[name] for name in gains}
    text = "; ".join(f"{name}: {times(each)} times that of {against[name]}" for name, each in gains.items())
    return Answer(key, text, list(gains.values()))


def _mean(runs: Sequence[float]) -> float:
    return sum(runs) / len(runs)


def _windows(metrics: Mapping[str, Metrics]) -> Answer:
    """How many learners are better than the default after so many windows, with the rewards of fixed targets."""
    rewards = {str(target): _mean(metrics[str(target)].late) for target in GRID}
    default = _mean(metrics[DEFAULT].late)
    found: dict[int, int] = {}
    for windows in (WINDOWS, 2000, 6000):
        learners = [Tabulated(rewards=rewards, noise=np.random.default_rng(seed)) for seed in range(LEARNERS)]
        found[windows] = sum(each.learn(windows, seed) > default for seed, each in enumerate(learners))
    text = ", ".join(f"{better} after {windows:,} windows" for windows, better in found.items())
    return Answer("windows", f"better than the default: {text}, of {LEARNERS} learners")


def _curve(name: str, metrics: Mapping[str, Metrics]) -> Curve:
    """Reward by fixed target; of what is learned, and of the default, a level line."""

    def points(ways: Sequence[str]) -> list[Point]:
        found = [over_seeds(metrics[way].late) for way in ways]
        return [Point(float(target), each.value, each.half) for target, each in zip(GRID, found, strict=True)]

    lines = {"fixed": points([str(target) for target in GRID])}
    lines |= {way: points([way] * len(GRID)) for way in (RL, HILL, DEFAULT)}
    return Curve(f"Reward: {name}", "target of concurrency", "number", lines)
