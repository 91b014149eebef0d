"""Models that take turns on one device, step by step: the next step is of the one with the least headroom."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import merge
from math import inf
from typing import NamedTuple


class Pace(NamedTuple):
    """Seconds of a step of one decode, of each decode more in it, and of a prompt."""

    step_s: float
    each_s: float
    prompt_s: float


class Limits(NamedTuple):
    """The first token is due so long after its request came, each further one so long after the one before was due."""

    ttft_s: float
    tpot_s: float


@dataclass(slots=True)
class Running:
    """A request: when its next token is due, how many are to come, and whether one was late."""

    due: float
    left: int
    late: bool = False


@dataclass(slots=True)
class Instance:
    """One model: who waits for the prompt, in order, and who decodes."""

    pace: Pace
    waiting: deque[Running] = field(default_factory=deque)
    running: list[Running] = field(default_factory=list)

    def next(self) -> tuple[float, float, bool]:
        """Headroom without the clock, seconds, and whether it is a prompt: of the step whose token is due first."""
        prompt = self.waiting[0].due if self.waiting else inf
        decode = min((each.due for each in self.running), default=inf)
        if prompt <= decode:
            return prompt - self.pace.prompt_s, self.pace.prompt_s, True
        took = self.pace.step_s + (len(self.running) - 1) * self.pace.each_s
        return decode - took, took, False

    def stepped(self, now: float, tpot_s: float, *, prompt: bool) -> int:
        """The step has ended: how many requests ended in time with it."""
        if prompt:
            self.running.append(self.waiting.popleft())
        done = self.running[-1:] if prompt else self.running
        for each in done:
            each.late |= now > each.due + 1e-9
            each.due += tpot_s
            each.left -= 1
        good = sum(not each.late for each in done if not each.left)
        self.running = [each for each in self.running if each.left]
        return good


def in_time(
    paces: Sequence[Pace], arrivals: Sequence[Sequence[float]], output_tokens: int, limits: Limits
) -> tuple[int, int]:
    """Requests of which every token was in time, and all; `arrivals` in seconds for each model, in order.

    A prompt or a step of all decodes runs to its end and alone. Memory is as large as it needs to be.
    """
    models = [Instance(pace) for pace in paces]
    coming = deque(merge(*([(at, model) for at in each] for model, each in enumerate(arrivals))))
    total, good, now = len(coming), 0, 0.0
    while True:
        busy = [(*model.next(), index) for index, model in enumerate(models) if model.waiting or model.running]
        if busy:
            _, took, prompt, index = min(busy)
            now += took
            good += models[index].stepped(now, limits.tpot_s, prompt=prompt)
        elif coming:
            now = max(now, coming[0][0])
        else:
            return good, total
        while coming and coming[0][0] <= now:
            at, index = coming.popleft()
            models[index].waiting.append(Running(at + limits.ttft_s, output_tokens))
