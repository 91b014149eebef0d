"""The recommendation of a comparison in one sentence, from the verdicts at all loads and the loads carried."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from poise.report.wording import significant

if TYPE_CHECKING:
    from poise.report.verdict import Verdict
    from poise.scenario.compare.comparison import Comparison


def answer(comparison: Comparison) -> str:
    """Which policy to take and how much load each one carries; empty where there is nothing to choose."""
    found = {load: comparison.best(load) for load in comparison.study.loads if comparison.policies(load)}
    verdicts = {load: each for load, each in found.items() if each.best is not None}
    if not verdicts:
        return ""
    names = list(comparison.study.policies)
    carried = _carried(comparison)
    good = [name for name in names if all(_good(name, each) for each in verdicts.values())]
    best = max(good, key=lambda name: (carried.get(name, 0), _wins(name, verdicts)), default=None)
    by = next(iter(verdicts.values())).by.label
    if best is None:
        return f"No policy is the best by {by} at every load: {_leaders(verdicts)}.{_loads(names, carried)}"
    won = [load for load, each in verdicts.items() if each.winner == best]
    even = [load for load in verdicts if load not in won]
    if not won and len(good) == len(names) and len(set(carried.values())) < 2:
        return f"Take any: by {by} no difference is beyond chance at {_at(even)}.{_loads(names, carried)}"
    parts = [f"the best at {_at(won)}"] if won else []
    parts += [f"as good as any at {_at(even)}"] if even else []
    return f"Take {best}: by {by} {', '.join(parts)}.{_loads([best, *(n for n in names if n != best)], carried)}"


def _good(name: str, verdict: Verdict) -> bool:
    """Whether no policy is known to be better."""
    return name in (verdict.best, *verdict.tied, *verdict.unknown)


def _wins(name: str, verdicts: dict[float, Verdict]) -> int:
    return sum(each.winner == name for each in verdicts.values())


def _leaders(verdicts: dict[float, Verdict]) -> str:
    """The best policy at each load."""
    led: dict[str, list[float]] = {}
    for load, each in verdicts.items():
        led.setdefault(each.best or "", []).append(load)
    return ", ".join(f"{name} leads at {_at(loads)}" for name, loads in led.items())


def _carried(comparison: Comparison) -> dict[str, float]:
    """The highest load that each policy carries, 0 where it carries none that was tried; {} where that is unknown."""
    from poise.scenario.compare.show import collapse_lines

    if not comparison.collapses or not collapse_lines(comparison):
        return {}
    return {name: each.carried.load if each.carried else 0.0 for name, each in comparison.collapses.items()}


def _loads(names: Sequence[str], carried: dict[str, float]) -> str:
    """Which load each policy carries, those that carry the same together."""
    groups: dict[float, list[str]] = {}
    for name in names:
        if name in carried:
            groups.setdefault(carried[name], []).append(name)
    if not any(groups):
        return " No load that was tried is carried." if groups else ""
    lines = [f"{f'load {significant(load)}' if load else 'none'} ({_and(some)})" for load, some in groups.items()]
    return f" Highest load carried: {', '.join(lines)}."


def _at(loads: Sequence[float]) -> str:
    return f"load {_and(map(significant, loads))}"


def _and(words: Iterable[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last
