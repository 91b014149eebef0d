"""RL autoscaling: whether Q-learning finds a better target of concurrency than the default, and how good a one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import poise as ps
from poise.claims.answer import Answer, Findings, Ratio
from poise.claims.bench import Bench
from poise.claims.claim import Curve, Point
from poise.claims.sweep import ratio, times
from poise.core.chance import Chance
from poise.core.policy import Scaler
from poise.policies.scale.concurrency_rl import ConcurrencyRl, State
from poise.policies.scale.kpa import Kpa
from poise.report.intervals import over_seeds


class Work(NamedTuple):
    """Requests of one kind: how many a second, and their tokens."""

    rate: float
    prompt_tokens: int
    output_tokens: int


WORKS = {"chat": Work(40.0, 300, 200), "documents": Work(7.0, 3000, 200)}
CLUSTER = ps.Cluster.of("A100", count=8).replicas(4, model="llama-3.1-8b", min_replicas=1, max_replicas=8, start_s=5.0)
WINDOW_S, WINDOWS = 10.0, 150
GRID = (10, 50, 110, 230)
DEFAULT, RL, HILL = "default", "Q-learning", "hill climbing"


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


def scalers() -> dict[str, Callable[[], Scaler]]:
    """What is compared: learned targets and fixed ones."""

    def fixed(target: float) -> Callable[[], Scaler]:
        return lambda: Kpa(target=target, utilisation=1.0, stable_s=WINDOW_S, panic_s=WINDOW_S / 10)

    return {
        RL: lambda: ConcurrencyRl(window_s=WINDOW_S, stable_s=WINDOW_S),
        HILL: lambda: HillClimbing(window_s=WINDOW_S, stable_s=WINDOW_S),
        DEFAULT: fixed(100.0),
        **{str(target): fixed(float(target)) for target in GRID},
    }


class Metrics(NamedTuple):
    """Of the latter half of a run, seed by seed: output tokens per second over seconds of latency, and what it took."""

    reward: list[float]
    hours: list[float]


def measure(bench: Bench) -> Findings:
    """Kinds of work × scalers."""
    found = {
        name: {way: _metrics(bench, work, build) for way, build in scalers().items()} for name, work in WORKS.items()
    }
    best = {name: _best(metrics) for name, metrics in found.items()}
    criteria = [
        _against("default", found, dict.fromkeys(found, DEFAULT)),
        _against("best fixed", found, best),
        _against("hill climbing", found, dict.fromkeys(found, HILL)),
        _dearer(found),
    ]  # fmt: skip
    return Findings(criteria, [_curve(name, metrics) for name, metrics in found.items()])


def _metrics(bench: Bench, work: Work, build: Callable[[], Scaler]) -> Metrics:
    windows = WINDOWS // (5 if bench.quick else 1)
    metrics = Metrics([], [])
    for seed in range(bench.seeds()):
        load = ps.workload.poisson(
            work.rate, duration_s=windows * WINDOW_S, prompt_tokens=work.prompt_tokens,
            output_tokens=work.output_tokens, seed=seed,
        )  # fmt: skip
        result = bench.simulate(CLUSTER, load, ps.Policies(scaler=build()), seed=seed)
        late = result.metrics(warmup_s=windows * WINDOW_S / 2)
        metrics.reward.append((late.output_tokens_per_s or 0.0) / (late.e2e_s.mean or 1.0))
        metrics.hours.append(late.replica_hours)
    return metrics


def _best(metrics: Mapping[str, Metrics]) -> str:
    """The fixed target with the highest reward in the mean."""
    return max(map(str, GRID), key=lambda target: sum(metrics[target].reward))


def _against(key: str, found: Mapping[str, Mapping[str, Metrics]], other: Mapping[str, str]) -> Answer:  # fmt: skip
    """What Q-learning earns over what another does."""
    gains = {name: ratio(metrics[other[name]].reward, metrics[RL].reward) for name, metrics in found.items()}
    against = {name: f"a target of {other[name]}" if other[name].isdigit() else other[name] for name in gains}
    text = "; ".join(f"{name}: {times(each)} times that of {against[name]}" for name, each in gains.items())
    return Answer(key, text, list(gains.values()))


def _dearer(found: Mapping[str, Mapping[str, Metrics]]) -> Answer:
    """The reward knows no price."""
    gains: dict[str, Ratio] = {
        name: ratio(metrics[DEFAULT].hours, metrics[RL].hours) for name, metrics in found.items()
    }
    return Answer(
        "dearer", "; ".join(f"{name}: {times(each)} times" for name, each in gains.items()), list(gains.values())
    )


def _curve(name: str, metrics: Mapping[str, Metrics]) -> Curve:
    """Reward by fixed target; of what is learned, and of the default, a level line."""

    def points(ways: Sequence[str]) -> list[Point]:
        found = [over_seeds(metrics[way].reward) for way in ways]
        return [Point(float(target), each.value, each.half) for target, each in zip(GRID, found, strict=True)]

    lines = {"fixed": points([str(target) for target in GRID])}
    lines |= {way: points([way] * len(GRID)) for way in (RL, HILL, DEFAULT)}
    return Curve(f"Reward: {name}", "target of concurrency", "number", lines)
