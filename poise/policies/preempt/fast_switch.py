"""FastSwitch: priorities that change while requests run, and context switches that are cheap enough for it.

Paper: "FastSwitch: Optimizing Context Switching Efficiency in Fairness-aware Large Language Model Serving" (arXiv
2411.18424). Every few steps all requests get new priorities; those of the highest run as far as KV blocks
and sequences go, and the KV of the others goes to host memory. The paper's contribution is how it is moved:

- *block groups*: blocks are handed out in stretches of `run_blocks`, so that a swap is a few large copies, not one of
  each block, layer, keys and values (`engine.swap_launch_us` is the cost of each on top of its bytes);
- *beside*: requests are copied back while the others run; an engine with no other request to run waits for them;
- *keeps*: KV copied back stays in host memory too, so that only new KV goes out the next time.

Without these three it is vLLM 0.3's swapping under the same priorities, which the paper compares with.

Parameters: `frequency` of new priorities in a decode step (0.02 and 0.04 there; here one in every round(1/frequency)
steps, and none at 0). `pattern`: `random` redraws all; under `markov` a request keeps its own with the
probability `stay`. The paper names the patterns; that probability is ours, and so is the size of a group: there they
grow and split like a buddy allocator's, here all have one size. KV is kept until a request ends, not over the turns of
a conversation. Priorities are drawn by request and time, so they are the same whatever else happens.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, get_args

from poise.core.chance import Chance
from poise.core.policy import Swapping, Victim
from poise.core.view import LaneView, SequenceView

Pattern = Literal["random", "markov"]

_FOR_EVER = 1 << 60
_TIMES = 32
"""Bits of a key that say which time priorities are drawn; a request's id is above them."""


@dataclass(slots=True)
class FastSwitch:
    """Run those of the highest priority, and swap the others out; the queue is in order of priority too.

    frequency: new priorities in a decode step, from 0 (none) to 1.  pattern: `random` or `markov`.  stay: the
    probability of keeping one's priority under `markov`.  run_blocks, beside, keeps: see `Swapping`.  seed: of the
    priorities.
    """

    frequency: float = 0.02
    pattern: Pattern = "random"
    stay: float = 0.5
    run_blocks: int = 64
    beside: bool = True
    keeps: bool = True
    seed: int = 0
    swapping: Swapping = field(init=False)
    _every: int = field(init=False, repr=False)
    _time: int = field(init=False, default=0, repr=False)
    _chance: Chance = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if not 0 <= self.frequency <= 1:
            raise ValueError(f"frequency {self.frequency}: priorities change in at most every step; give 0 to 1")
        if self.pattern not in get_args(Pattern):
            raise ValueError(f"pattern {self.pattern!r} is none; give {' or '.join(get_args(Pattern))}")
        if not 0 <= self.stay < 1:
            raise ValueError(f"stay {self.stay} must be a probability below 1; give 0 up to below 1")
        if self.run_blocks < 1:
            raise ValueError(f"run_blocks {self.run_blocks}: a copy takes a block at least; give 1 or more")
        self.swapping = Swapping(self.run_blocks, self.beside, self.keeps)
        self._every = round(1 / self.frequency) if self.frequency else _FOR_EVER
        self._chance = Chance(self.seed)

    def preempt(self, lane: LaneView) -> Victim:
        """The running request of the least priority."""
        return Victim(max(_running(lane), key=self.place).id, swap=True)

    def review(self, lane: LaneView) -> tuple[list[Victim], int]:
        """Running requests whose priority is not among the highest that fit; and the step of the next priorities."""
        self._time = lane.decode_steps // self._every
        again = (self._time + 1) * self._every
        if not lane.waiting:
            return [], again
        running = _running(lane)
        best = self._best(lane, running)
        return [Victim(sequence.id, swap=True) for sequence in running if sequence.id not in best], again

    def place(self, sequence: SequenceView) -> float:
        """Its priority now, the least first."""
        request, time = sequence.request.id, self._time
        if self.pattern == "markov":
            while time and self._draw("stays", request, time) < self.stay:
                time -= 1
        return self._draw("priority", request, time)

    def _best(self, lane: LaneView, running: list[SequenceView]) -> set[int]:
        """The requests to run: in order of priority until one does not fit."""
        left = lane.free_blocks + sum([_blocks(lane, sequence) for sequence in running])
        best: set[int] = set()
        for sequence in sorted([*running, *lane.queue()], key=self.place):
            left -= _blocks(lane, sequence)
            if left < 0 or len(best) == lane.engine.max_sequences:
                break
            best.add(sequence.id)
        return best

    def _draw(self, purpose: str, request: int, time: int) -> float:
        self._chance.key = request << _TIMES | time
        return self._chance.draw(purpose)


def _running(lane: LaneView) -> list[SequenceView]:
    return [*lane.decodes(), *lane.prefilling]


def _blocks(lane: LaneView, sequence: SequenceView) -> int:
    """KV blocks that a request takes when its next token is computed."""
    return -(-(sequence.need + 1) // lane.engine.block_tokens)
