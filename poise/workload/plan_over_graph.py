"""Plan-over-Graph: which rules to run, side by side, to make a product as early as can be.

A rule makes one product out of several others, in a time and at a cost; a product may be made by alternative rules
(arXiv 2502.14563). With as many workers as there are rules the least time is a shortest way in an AND/OR graph, found
by Knuth's generalisation of Dijkstra's algorithm: t(x) = min over rules of (time + max over sources of t). The least
cost with shared sources is NP-hard, so the returned cost is that of the plan of least time.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from poise.core.errors import UserError
from poise.workload.workflow import Task, Workflow


@dataclass(frozen=True, slots=True)
class Rule:
    """Makes `target` out of all of `sources`, in `time` (0 or more, any unit) and at `cost`."""

    sources: Sequence[str]
    target: str
    time: float
    cost: float = 1.0


@dataclass(frozen=True, slots=True)
class Plan:
    """Rules in an order in which each finds its sources.

    time: of the longest way, with a worker for each rule.  cost: of all rules.
    """

    rules: tuple[Rule, ...]
    time: float
    cost: float

    def makespan(self, workers: int) -> float:
        """Return the time with `workers` workers, by list scheduling: of the rules that can run, the longest tail
        first.

        An upper bound of the best schedule, at most 2 − 1/workers times as long (Graham 1969).
        """
        if workers < 1:
            raise UserError(f"workers is {workers}; it must be at least 1")
        tails = self._tails()
        free = [0.0] * workers
        made: dict[str, float] = {}
        left = sorted(self.rules, key=lambda rule: -tails[rule.target])
        own = {rule.target for rule in self.rules}
        while left:
            now = heapq.heappop(free)
            done = {name for name, at in made.items() if at <= now}
            ready = [rule for rule in left if {*rule.sources} & own <= done]
            if not ready:
                later = min(at for at in made.values() if at > now)
                heapq.heappush(free, later)
                continue
            left.remove(ready[0])
            made[ready[0].target] = now + ready[0].time
            heapq.heappush(free, now + ready[0].time)
        return max(made.values(), default=0.0)

    def _tails(self) -> dict[str, float]:
        """The longest way from the begin of each rule to the end of the plan, by what it makes."""
        tails: dict[str, float] = {rule.target: rule.time for rule in self.rules}
        for rule in reversed(self.rules):
            for other in self.rules:
                if rule.target in other.sources:
                    tails[rule.target] = max(tails[rule.target], rule.time + tails[other.target])
        return tails

    def workflow(self, prompt_tokens: int, output_tokens: int) -> Workflow:
        """Return it as tools between a request that plans and one that answers; times are seconds."""
        tasks = {"plan": Task(prompt_tokens=prompt_tokens, output_tokens=output_tokens)}
        own = {rule.target for rule in self.rules}
        for rule in self.rules:
            tasks[rule.target] = Task(["plan", *(each for each in rule.sources if each in own)], seconds=rule.time)
        last = [self.rules[-1].target] if self.rules else ["plan"]
        tasks["answer"] = Task(last, prompt_tokens=prompt_tokens, output_tokens=output_tokens)
        return Workflow(tasks)


def fastest(rules: Sequence[Rule], given: Collection[str], target: str) -> Plan:
    """Return the plan that makes `target` out of what is `given` in the least time, with a worker for each rule.

    Knuth (1977): products are settled in order of their times, so each rule is looked at once for each source. Raises
    UserError where no rules lead there, or where a time is negative.
    """
    for rule in rules:
        if rule.time < 0:
            raise UserError(f"the rule that makes {rule.target!r} takes {rule.time}; it must take 0 or more")
    lacking = [len({*rule.sources} - {*given}) for rule in rules]
    needs: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        for each in {*rule.sources} - {*given}:
            needs.setdefault(each, []).append(number)
    settled: dict[str, tuple[float, int]] = {}
    heap = [(rule.time, number) for number, rule in enumerate(rules) if not lacking[number]]
    heapq.heapify(heap)
    while heap and target not in settled:
        at, number = heapq.heappop(heap)
        name = rules[number].target
        if name in settled or name in given:
            continue
        settled[name] = at, number
        for other in needs.get(name, ()):
            lacking[other] -= 1
            if not lacking[other]:
                heapq.heappush(heap, (at + rules[other].time, other))
    if target not in settled and target not in given:
        raise UserError(f"no rules make {target!r} out of {', '.join(sorted(given)) or 'nothing'}; give more rules")
    chosen = _needed(rules, settled, target)
    return Plan(chosen, settled[target][0] if chosen else 0.0, sum(rule.cost for rule in chosen))


def _needed(rules: Sequence[Rule], settled: dict[str, tuple[float, int]], target: str) -> tuple[Rule, ...]:
    """The rules that the target needs, those first that end first; a product that is given needs none."""
    found: set[int] = set()
    left = [target]
    while left:
        at = settled.get(left.pop())
        if at is not None and at[1] not in found:
            found.add(at[1])
            left += rules[at[1]].sources
    return tuple(rules[number] for _, number in sorted(at for at in settled.values() if at[1] in found))
