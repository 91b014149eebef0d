"""Small models on few devices, request by request: a model at a time on a device, or as many as memory and time allow.

LLM-Mesh (arXiv 2507.00507), from its abstract and a summary. Instances on a device take turns step by step, so every
request there gets one token a round, and a round is a step of each instance's decodes; a prompt takes the device for
itself. Work is conserved: a device that is not full serves what it has as fast as it can. A request is let in where a
dry run leaves everybody headroom: the round stays within the time per token, and the prompts that wait, weights that
must come first included, within the time to the first token. It goes to the largest instance of its model, so that
small ones drain; else to the cheapest kind of device that has room, the fullest of that kind; instances without
requests give way. What finds no place waits, in order of arrival, and is given up when its first token would be late.

`alone` is exclusive allocation: one model on a device, which takes the next one when it has no request left.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from math import inf
from typing import NamedTuple

ROUNDING = 1e-9


class Pace(NamedTuple):
    """Seconds of a step of one decode, of each decode more in it, and of a prompt."""

    step_s: float
    each_s: float
    prompt_s: float


class Limits(NamedTuple):
    """The first token is due so long after its request came, the others within so long each in the mean."""

    ttft_s: float
    tpot_s: float


class Machine(NamedTuple):
    """A kind of device with one size of models: parts of its memory that weights and a request take, and its pace.

    price: cheaper kinds are asked first.  load_s: seconds in which weights come.
    """

    price: float
    weights: float
    request: float
    load_s: float
    pace: Pace


@dataclass(slots=True)
class Instance:
    """A model on a device: its requests. ready_at: when its weights are there.  used_at: when it last had a request."""

    ready_at: float
    requests: int = 0
    used_at: float = 0.0


@dataclass(slots=True)
class Served:
    """One request: when it came, and when its first token did."""

    model: int
    came: float
    first: float = 0.0


@dataclass(slots=True)
class Host:
    """A device in use.

    tokens: what each of its requests has got since the beginning, as all get them together.  running: those that
    decode, by the tokens at which they end.  dues: when their next token would be due, had they none of these tokens.
    ended: numbers of requests that are in `dues` still.  used: the part of its memory in use, instances without
    requests left out.  prompts_until: when the last prompt that waits is computed.  round: seconds of a step of every
    instance that decodes.
    """

    kind: Machine
    output_tokens: int
    tpot_s: float
    alone: bool
    now: float = 0.0
    tokens: float = 0.0
    instances: dict[int, Instance] = field(default_factory=dict)
    prompts: deque[Served] = field(default_factory=deque)
    prompt_until: float = inf
    running: list[tuple[float, int, Served]] = field(default_factory=list)
    decoding: dict[int, int] = field(default_factory=dict)
    dues: list[tuple[float, int]] = field(default_factory=list)
    ended: set[int] = field(default_factory=set)
    number: int = 0
    prompts_until: float = 0.0
    used: float = 0.0
    round: float = 0.0

    def round_s(self, model: int = -1) -> float:
        """Seconds of a step of every instance that decodes, with one request more of a model."""
        if model < 0:
            return self.round
        return self.round + (self.kind.pace.each_s if model in self.decoding else self.kind.pace.step_s)

    def _decode(self, model: int, change: int) -> None:
        """One request more or less of a model decodes."""
        count, pace = self.decoding.get(model, 0) + change, self.kind.pace
        self.decoding[model] = count
        if not count:
            del self.decoding[model]
        first = (count == 1 and change > 0) or not count
        self.round = self.round + change * (pace.step_s if first else pace.each_s) if self.decoding else 0.0

    def first_at(self, model: int) -> float:
        """When a prompt that comes now would have its first token."""
        here = self.instances.get(model)
        ready = self.now + self.kind.load_s if here is None else here.ready_at
        return max(self.prompts_until, ready, self.now) + self.kind.pace.prompt_s

    def takes(self, model: int, came: float, limits: Limits) -> bool:
        """Whether a dry run lets a request in."""
        here = self.instances.get(model)
        busy = here is not None and here.requests > 0
        if self.alone and self.used and not busy:
            return False
        memory = self.used + self.kind.request + self.kind.weights * (not busy)
        if memory > 1 or self.first_at(model) - came > limits.ttft_s:
            return False
        round_s = self.round_s(model)
        behind = len(self.prompts) * self.kind.pace.prompt_s  # that the first who waits sees before its second token
        return round_s + behind <= limits.tpot_s and self._headroom() >= self._prompts_s() + round_s

    def _prompts_s(self) -> float:
        """Seconds that decodes stand still for the prompts that wait, and for one more."""
        here = 0.0 if self.prompt_until == inf else min(0.0, self.prompt_until - self.now - self.kind.pace.prompt_s)
        return here + (len(self.prompts) + 1) * self.kind.pace.prompt_s

    def _headroom(self) -> float:
        """Seconds until the first token of those that decode would be late."""
        while self.dues and self.dues[0][1] in self.ended:
            self.ended.discard(heappop(self.dues)[1])
        return self.dues[0][0] + self.tokens * self.tpot_s - self.now if self.dues else inf

    def let_in(self, model: int, came: float) -> None:
        """A request joins; instances without requests give way, the longest unused first."""
        if model not in self.instances:
            self._make_room()
            self.instances[model] = Instance(self.now + self.kind.load_s)
        here = self.instances[model]
        self.used += self.kind.request + self.kind.weights * (not here.requests)
        here.requests += 1
        self.prompts_until = self.first_at(model)
        self.prompts.append(Served(model, came))
        self._begin()

    def _make_room(self) -> None:
        idle = sorted((each.used_at, number) for number, each in self.instances.items() if not each.requests)
        held = self.used + len(idle) * self.kind.weights
        for _, number in idle:
            if held + self.kind.weights + self.kind.request <= 1 and not self.alone:
                return
            del self.instances[number]
            held -= self.kind.weights

    def _begin(self) -> None:
        if self.prompt_until == inf and self.prompts:
            ready = self.instances[self.prompts[0].model].ready_at
            self.prompt_until = max(self.now, ready) + self.kind.pace.prompt_s

    def next_at(self) -> float:
        """When something ends here, if nothing else happens: a prompt, or a request."""
        if self.prompt_until < inf:
            return self.prompt_until
        if not self.running:
            return inf
        return self.now + (self.running[0][0] - self.tokens) * self.round_s()

    def go_on(self, now: float) -> None:
        """Let time pass without an end; decodes stand still while a prompt is computed."""
        begin = self.prompt_until - self.kind.pace.prompt_s
        until = min(now, max(begin, self.now)) if self.prompt_until < inf else now
        if self.running and until > self.now:
            self.tokens += (until - self.now) / self.round_s()
        self.now = now

    def prompt_ends(self) -> bool:
        """Whether a prompt is what ends now; then its request decodes."""
        if self.prompt_until == inf:
            return False
        each = self.prompts.popleft()
        self.prompt_until, each.first = inf, self.now
        self.number += 1
        last = self.tokens + self.output_tokens - 1
        heappush(self.running, (last, self.number, each))
        heappush(self.dues, (self.now + (self.output_tokens - last) * self.tpot_s, self.number))
        self._decode(each.model, 1)
        self._begin()
        return True

    def request_ends(self, limits: Limits) -> bool:
        """A request ends: whether a token of it was late, the first or the rest in the mean."""
        _, number, each = heappop(self.running)
        self.ended.add(number)
        here = self.instances[each.model]
        here.requests, here.used_at = here.requests - 1, self.now
        self.used -= self.kind.request + self.kind.weights * (not here.requests)
        if self.used < ROUNDING:
            self.used = 0.0
        self._decode(each.model, -1)
        rest = (self.now - each.first) / (self.output_tokens - 1)
        return rest > limits.tpot_s + ROUNDING or each.first - each.came > limits.ttft_s + ROUNDING


def enough(
    machines: Sequence[Machine], arrivals: Sequence[tuple[float, int]], output_tokens: int, limits: Limits,
    share: float, *, alone: bool = False,
) -> bool:  # fmt: skip
    """Whether so large a share of requests is served in time; `arrivals`: seconds and model of each, in order."""
    hosts = [Host(each, output_tokens, limits.tpot_s, alone) for each in machines]
    waiting: deque[tuple[float, int]] = deque()
    place, spare = 0, int((1 - share) * len(arrivals))
    while place < len(arrivals) or waiting or any(host.running or host.prompts for host in hosts):
        ends_at, ending = min((host.next_at(), at) for at, host in enumerate(hosts))
        comes_at = arrivals[place][0] if place < len(arrivals) else inf
        now = min(ends_at, comes_at)
        for host in hosts:
            host.go_on(now)
        candidates: Sequence[tuple[float, int]] = ()
        if comes_at <= ends_at:
            candidates, place = [arrivals[place]], place + 1
        elif not hosts[ending].prompt_ends():
            spare -= hosts[ending].request_ends(limits)
            candidates, waiting = waiting, deque()
        for each in candidates:
            if not _let_in(hosts, each, limits):
                if now - each[0] < limits.ttft_s and any(host.running or host.prompts for host in hosts):
                    waiting.append(each)
                else:
                    spare -= 1
        if spare < 0:
            return False
    return True


def _let_in(hosts: Sequence[Host], request: tuple[float, int], limits: Limits) -> bool:
    """Whether a request found a place."""
    came, model = request
    able = [host for host in hosts if host.takes(model, came, limits)]
    if not able:
        return False
    with_it = [host for host in able if model in host.instances and (host.instances[model].requests or host.alone)]
    if with_it:
        chosen = max(with_it, key=lambda host: host.instances[model].requests)
    else:
        cheapest = min(host.kind.price for host in able)
        chosen = max((host for host in able if host.kind.price == cheapest), key=lambda host: host.used)
    chosen.let_in(model, came)
    return True
