"""The sentence that decides a comparison: which policy, by how much, with how much headroom, on how many devices."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from poise.report.figures import ATTAINMENT
from poise.report.verdict import Verdict
from poise.report.wording import significant, write

DIGITS = 3
"""Significant digits of a load."""


@dataclass(frozen=True, slots=True)
class Carried:
    """The highest load that a policy carries. load: None where it carries none that was tried.

    ended: whether a higher load was tried that it does not carry.
    """

    load: float | None
    ended: bool


@dataclass(frozen=True, slots=True)
class Basis:
    """What decides: the policies, the verdict at each load, and what each policy carries, where that is known.

    replicas, devices, device: how many equal replicas there are, of how many devices each, and their name; 0 replicas
    where they differ.  own: whether load 1 is the traffic as it is now.
    """

    names: Sequence[str]
    verdicts: Mapping[float, Verdict]
    carried: Mapping[str, Carried]
    replicas: int = 0
    devices: int = 1
    device: str = ""
    own: bool = True


def nearest(loads: Iterable[float]) -> float:
    """The load nearest to load 1 by ratio, so 2 is as far away as 0.5; the first of equals."""
    return min(loads, key=lambda load: abs(math.log(load)))


def unbeaten(names: Sequence[str], verdicts: Iterable[Verdict]) -> list[str]:
    """The policies that no other is known to beat under any of the verdicts."""
    some = list(verdicts)
    return [name for name in names if all(name in (each.best, *each.tied, *each.unknown) for each in some)]


def choice(names: Sequence[str], verdicts: Iterable[Verdict], most: Mapping[str, float]) -> str:
    """The unbeaten policy that carries most, of several the one that wins most often.

    most: the highest load that each policy carries; 0 for one that is left out. Empty where every policy is beaten, or
    where nothing sets them apart.
    """
    some = list(verdicts)
    good, wins = unbeaten(names, some), Counter(each.winner for each in some)
    carried = {name: most.get(name, 0.0) for name in good}
    apart = len(good) < len(names) or any(wins[name] for name in good) or len(set(carried.values())) > 1
    return max(good, key=lambda name: (carried[name], wins[name])) if good and apart else ""


def decide(basis: Basis) -> str:
    """One sentence; where chance leaves it open, it names what would decide. Empty where there is nothing to choose."""
    verdicts = {load: each for load, each in basis.verdicts.items() if each.best is not None}
    if not verdicts:
        return _only(basis)
    by = next(iter(verdicts.values())).by.label
    good = unbeaten(basis.names, verdicts.values())
    if not good:
        led = _leaders(verdicts)
        return _sentence(f"No policy is the best by {by} at every load: {led}", _each_carries(basis))
    best = choice(basis.names, verdicts.values(), {name: _most(basis, name) for name in basis.names})
    won = [load for load, each in verdicts.items() if best and each.winner == best]
    even = [load for load, each in verdicts.items() if load not in won and not each.unknown]
    if not best:
        return _open(basis, verdicts, even, good[0])
    parts = [_lead(best, nearest(won), verdicts)] if won else []
    others = [load for load in won if load != nearest(won)]
    parts += [f"best at {_at(others)} too"] if others else []
    parts += [f"as good as any at {_at(even)}"] if even else []
    unknown = [load for load, each in verdicts.items() if load not in won and load not in even]
    parts += [f"not known at {_at(unknown)}"] if unknown else []
    return _sentence(f"Take {best}: {', '.join(parts)}", _headroom(basis, best))


def _only(basis: Basis) -> str:
    """About one policy, which is no choice: its headroom."""
    if len(basis.names) != 1 or not (text := _headroom(basis, basis.names[0])):
        return ""
    return f"{text[:1].upper()}{text[1:]}."


def _open(basis: Basis, verdicts: Mapping[float, Verdict], even: Sequence[float], best: str) -> str:
    """No policy is better beyond chance, or nothing is known of chance."""
    first = verdicts[nearest(verdicts)]
    if not even:
        return f"No verdict by {first.by.label}: {first.lack}."
    known = verdicts[nearest(even)]
    more = f"; {known.more}" if known.more else ""
    text = f"Take any: by {known.by.label} no difference is beyond chance at {_at(even)} ({known.within}{more})"
    alone = replace(basis, names=(best,))  # all carry the same
    return _sentence(text, _headroom(alone, best, "each"))


def _sentence(*parts: str) -> str:
    return f"{'; '.join(filter(None, parts))}."


def _most(basis: Basis, name: str) -> float:
    """The highest load that a policy carries, 0 where none is known."""
    found = basis.carried.get(name)
    return 0.0 if found is None or found.load is None else found.load


def _lead(best: str, load: float, verdicts: Mapping[float, Verdict]) -> str:
    """By how much the best is better than the next at a load."""
    verdict = verdicts[load]
    name, gap = min(verdict.differences.items(), key=lambda each: abs(each[1].value or 0))
    next_ = name if len(verdict.differences) == 1 else f"the next, {name}"
    if verdict.by == ATTAINMENT:
        points = significant(100 * abs(gap.value or 0), 3)
        points += "" if not gap.half else f" ± {significant(100 * gap.half, 2)}"
        return f"at {_at([load])} it meets the SLO for {points} percentage points more of the requests than {next_}"
    much = write(abs(gap.value or 0), verdict.by.kind, 3)
    much += "" if not gap.half else f" ± {write(gap.half, verdict.by.kind, 2)}"
    more = "more" if (gap.value or 0) < 0 else "less"  # how much more the next one has than the best
    return f"at {_at([load])} {verdict.by.label} is {much} {more} than under {next_}"


def _leaders(verdicts: Mapping[float, Verdict]) -> str:
    """The best policy at each load."""
    led: dict[str, list[float]] = {}
    for load, each in verdicts.items():
        led.setdefault(each.best or "", []).append(load)
    return ", ".join(f"{name} leads at {_at(loads)}" for name, loads in led.items())


def _headroom(basis: Basis, best: str, subject: str = "it") -> str:
    """How far the load may grow under a policy, what the others carry, and how many devices would do."""
    mine = basis.carried.get(best)
    if mine is None:
        return ""
    if mine.load is None:
        others = any(each.load is not None for each in basis.carried.values())
        return f"{subject} carries no load that was tried{_others(basis, best) if others else ''}"
    much = significant(mine.load, DIGITS)
    if not basis.own:
        return f"{subject} carries load {much}{_others(basis, best)}{_instead(basis, best)}"
    if mine.load < 1 and not mine.ended:
        return f"{subject} carries {much} of the load of now, the highest that was tried{_others(basis, best)}"
    if mine.load < 1:
        return f"{subject} carries only {much} of the load of now{_others(basis, best)}{_needed(basis, mine)}"
    if mine.load == 1 and not mine.ended:
        return f"{subject} carries the load of now, and how much more would show with --find-collapse"
    if mine.load == 1:
        return f"no headroom over the load of now{_others(basis, best)}"
    least = "" if mine.ended else "at least "
    return f"{least}{much}× headroom over the load of now{_others(basis, best)}{_needed(basis, mine)}"


def _others(basis: Basis, best: str) -> str:
    """What the other policies carry, those that carry the same together."""
    groups: dict[str, list[str]] = {}
    for name in basis.names:
        if name != best and name in basis.carried:
            load = basis.carried[name].load
            label = "none" if load is None else f"{significant(load, DIGITS)}{'×' if basis.own else ''}"
            groups.setdefault(label, []).append(name)
    if not groups:
        return ""
    return f" ({', '.join(f'{_and(names)} {load}' for load, names in groups.items())})"


def _each_carries(basis: Basis) -> str:
    """What each policy carries, where they differ too much for one to be taken."""
    known = [f"{name} {significant(load, DIGITS)}" for name in basis.names if (load := _most(basis, name))]
    return f"highest load carried: {', '.join(known)}" if known else ""


def _needed(basis: Basis, mine: Carried) -> str:
    """How many devices would carry the load of now, in proportion."""
    if not basis.replicas or not mine.load:
        return ""
    needed = math.ceil(basis.replicas / mine.load - 1e-9)
    count, there = needed * basis.devices, basis.replicas * basis.devices
    if needed < basis.replicas:
        return f", so about {count} of the {there} {basis.device} would do"
    return f", so about {count} {basis.device} would be needed" if needed > basis.replicas else ""


def _instead(basis: Basis, best: str) -> str:
    """How many replicas do under the best what all of them do under the first of the others that carries less."""
    mine = _most(basis, best)
    less = [name for name in basis.names if 0 < _most(basis, name) < mine]
    if not less or not basis.replicas:
        return ""
    needed = math.ceil(basis.replicas * _most(basis, less[0]) / mine - 1e-9)
    if needed >= basis.replicas:
        return ""
    count, there = needed * basis.devices, basis.replicas * basis.devices
    return f", so about {count} {basis.device} do what {there} do under {less[0]}"


def _at(loads: Sequence[float]) -> str:
    return f"load {_and(map(significant, loads))}"


def _and(words: Iterable[str]) -> str:
    *some, last = words
    return f"{', '.join(some)} and {last}" if some else last
