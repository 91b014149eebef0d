"""Preempt the decode with the fewest output tokens, as SGLang retracts; it waits at the end of the queue.

Of several it is the one with the longest prompt, and of those the newest (SGLang 0.5.23,
`ScheduleBatch._get_decode_retraction_order`; `--retraction-policy priority` is absent). Its KV is computed again.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from poise.core.policy import Victim
from poise.core.view import LaneView, SequenceView


@dataclass(slots=True)
class FewestOutputs:
    """Take the decode that has made the fewest tokens; where none decodes, the newest prompt."""

    _places: int = field(default=0, init=False, repr=False, compare=False)

    def preempt(self, lane: LaneView) -> Victim:
        """The decode that loses the fewest output tokens."""
        victim: SequenceView | None = None
        for sequence in lane.decodes():
            if victim is None or _rank(sequence) <= _rank(victim):
                victim = sequence
        return Victim((victim or lane.prefilling[-1]).id)

    def place(self, sequence: SequenceView) -> int:
        """The end of the queue."""
        self._places += 1
        return self._places


def _rank(sequence: SequenceView) -> tuple[int, int]:
    return sequence.produced, -sequence.request.prompt_tokens
