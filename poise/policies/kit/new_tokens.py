"""SGLang's new-token ratio: the share of the outputs to come for which room is kept when requests are admitted.

Code: SGLang 0.5.23, `scheduler_components/new_token_ratio_tracker.py` and the defaults of `srt/environ.py`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from poise.core.view import LaneView, SequenceView

INIT: Final = 0.7
LEAST: Final = 0.14
DECAY_STEPS: Final = 600
RETRACT_STEPS: Final = 20
"""SGLANG_INIT_NEW_TOKEN_RATIO, SGLANG_MIN_NEW_TOKEN_RATIO_FACTOR, SGLANG_NEW_TOKEN_RATIO_DECAY_STEPS and
SGLANG_RETRACT_DECODE_STEPS."""

CLIP: Final = 4096
"""SGLANG_CLIP_MAX_NEW_TOKENS_ESTIMATION: no more output tokens of one request are expected."""


def limit(sequence: SequenceView, lane: LaneView) -> int:
    """Output tokens that the request may make: what its client allows, and KV beside its prompt holds.

    `Scheduler.init_req_max_new_tokens`; the model's context is not heeded.
    """
    page, prompt = lane.engine.block_tokens, sequence.request.prompt_tokens
    room = lane.total_blocks * page - -(-prompt // page) * page - page - 1
    return max(1, min(sequence.request.max_tokens or room, room))


def most_new(sequence: SequenceView, lane: LaneView) -> int:
    """Output tokens that are expected of the request yet at most."""
    return min(limit(sequence, lane) - sequence.produced, CLIP)


@dataclass(slots=True)
class NewTokenRatio:
    """The ratio as decode steps pass. conservativeness: of SGLang's `--schedule-conservativeness`."""

    conservativeness: float = 1.0
    current: float = field(init=False)
    _init: float = field(init=False)
    _least: float = field(init=False)
    _decay: float = field(init=False)
    _steps: int = 0

    def __post_init__(self) -> None:
        self._init = self.current = min(INIT * self.conservativeness, 1.0)
        self._least = min(self._init * LEAST, 1.0)
        self._decay = (self._init - self._least) / DECAY_STEPS

    def follow(self, steps: int, idle: bool) -> None:
        """Fall with each of the lane's decode steps since the last call; begin anew where the engine was idle."""
        for _ in range(min(steps - self._steps, DECAY_STEPS)):
            self.current = max(self.current - self._decay, self._least)
        self._steps = steps
        if idle:
            self.current = self._init

    def mixed(self) -> None:
        """The next step has decodes beside prompts, with which the ratio does not fall."""
        self._steps += 1

    def estimate(self, lane: LaneView) -> None:
        """A retraction left these requests: expect as much of each as they have made in the mean, and some steps more.

        The decode step that follows does not lower it.
        """
        made = allowed = 0
        for sequence in lane.decodes():
            made += sequence.produced + RETRACT_STEPS
            allowed += limit(sequence, lane)
        self.current = min(1.0, made / (allowed + 1))
        self._steps = lane.decode_steps + 1
