"""What the times of sub-agents mean in a corpus of recorded conversations."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from poise.workload.readers.weka import SUBAGENT, Conversation, Entry

EARLY_S, ROUNDED_S = 1e-3, 1.0
"""By how much one instant must be before another to count as such: some stamps are rounded to whole seconds."""


@dataclass(frozen=True, slots=True)
class Clock:
    """What times mean in a corpus.

    relative: the requests of a sub-agent count from its beginning, as in the original corpus; else from that of the
    conversation, as in those that SemiAnalysis published.  ends: a marker stands where its sub-agent ended, as it does
    in the original corpus where it states how long that took; else where it began.
    """

    relative: bool
    ends: bool

    @staticmethod
    def of(known: Sequence[Conversation]) -> Clock:
        """By the records: a child before its marker, or a sub-agent that would end after the request that awaits it."""
        relative = any(
            child.t < marker.t - EARLY_S for each in known for marker, _ in _markers(each) for child in marker.requests
        )
        ends = any(
            marker.t + (marker.duration_ms or 0.0) / 1000 > following.t + ROUNDED_S
            for each in known
            for marker, following in _markers(each)
            if following is not None and marker.duration_ms is not None
        )
        return Clock(relative, ends)

    def begin(self, marker: Entry) -> float:
        """When the sub-agent of a marker began."""
        return marker.t - (marker.duration_ms or 0.0) / 1000 if self.ends else marker.t


def _markers(conversation: Conversation) -> Iterator[tuple[Entry, Entry | None]]:
    """The markers of a conversation, each with the request of the same agent that follows it, None for none."""
    lists = [conversation.requests, *(entry.requests for entry in conversation.entries if entry.requests)]
    for entries in lists:
        following: Entry | None = None
        for entry in reversed(entries):
            if entry.type == SUBAGENT:
                yield entry, following
            else:
                following = entry
