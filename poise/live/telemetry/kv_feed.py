"""The sequence of one engine's KV events: gaps are detected, replayed, and the index is dropped where they remain.

Messages are numbered from 0 by the publisher, which keeps the last some thousand for replay. A replay begins with the
last message that was applied: when its bytes are not the same, the engine was restarted in between and the index is
dropped. The same applies when a gap cannot be filled: an index that may be wrong is worth less than a small one.
"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from typing import Final, NamedTuple

from xxhash import xxh3_64_intdigest

from poise.live.telemetry.kv_events import Blocks, Change, decode

KEPT: Final = 10_000
"""Messages kept while a replay runs, as many as vLLM's publisher keeps."""

REMEMBERED: Final = 256
"""Messages whose hashes are kept, to recognise them again."""


class Sync(Enum):
    """How far an engine's events are followed."""

    WAITING = "waiting"  # no message yet
    REPLAYING = "replaying"  # missed messages are requested; those that arrive meanwhile are kept
    SYNCED = "synced"


class ReplayRequest(NamedTuple):
    """Request messages from the engine from number `start` on; answers to an older request are ignored."""

    start: int


Step = Change | ReplayRequest


class Feed:
    """One engine's events, in order.

    can_replay: whether the engine answers replay requests.  whole: whether all was seen since it started or cleared its
    cache; if not, it may hold more than is known.  counts: gaps, restarts, losses, unreadable messages.
    """

    __slots__ = (
        "_held", "_live", "_next", "_requested", "_stamps", "_suspect", "_verify", "blocks", "can_replay", "counts",
        "sync", "whole",
    )  # fmt: skip

    def __init__(self, can_replay: bool) -> None:
        self.blocks = Blocks()
        self.can_replay = can_replay
        self.counts: Counter[str] = Counter()
        self._begin()

    def _begin(self) -> None:
        self.sync = Sync.WAITING
        self.whole = False
        self._next = 0  # number of the next message to apply
        self._live = -1  # number of the last message that came unasked; these never go back, unless the engine did
        self._stamps: dict[int, int] = {}  # hashes of the last messages applied
        self._verify = False  # whether the next answer must be the last message applied
        self._suspect = False  # whether another process may publish now
        self._requested = -1  # `_next` at the last replay request
        self._held: dict[int, bytes] = {}

    def start(self) -> list[Step]:
        """Begin: request all messages that the engine still has, where it can replay."""
        return self._ask(0) if self.can_replay else []

    def reset(self) -> list[Step]:
        """The engine was lost: drop the index; its next message starts a new sequence."""
        self.blocks.clear()
        self._begin()
        return [Change(cleared=True)]

    def interrupted(self) -> list[Step]:
        """The connection broke, after its last message: find the last message again, or drop the index."""
        if not self.can_replay:
            return self.reset()
        if self.sync is Sync.WAITING:
            return []
        self._suspect = True
        self._live = -1
        self._held = {}
        return self._ask(self._next)

    def message(self, number: int, payload: bytes) -> list[Step]:
        """A live message arrived."""
        if number <= self._live:
            return self._restarted(number, payload)
        self._live = number
        if self.sync is Sync.REPLAYING:
            return self._hold(number, payload)
        if number < self._next:  # on its way while a replay brought it, or another's
            same = self._stamps.get(number) == xxh3_64_intdigest(payload)
            return [] if same else self._restarted(number, payload)
        if number == self._next and (self.sync is Sync.SYNCED or number == 0):
            return self._apply(number, payload)
        return self._missed(number, payload)

    def replayed(self, number: int, payload: bytes) -> list[Step]:
        """One answer to the last `ReplayRequest`."""
        if self.sync is not Sync.REPLAYING:
            return []
        if number < self._next:
            if self._verify and number == self._next - 1:
                self._verify = False
                if self._stamps[number] != xxh3_64_intdigest(payload):
                    return self._afresh("restarts")
            return []
        lost = self._lose("losses") if self._verify or 0 < self._next < number else []
        self._verify = False
        return lost + self._take(number, payload)

    def replay_ended(self) -> list[Step]:
        """The engine has answered all."""
        if self.sync is not Sync.REPLAYING:
            return []
        if self._verify:  # the replay does not begin with the last message that was applied
            return self._afresh("restarts")
        steps: list[Step] = []
        for number in sorted(self._held):
            if number < self._next:
                continue
            if number > self._next:
                if self._next > self._requested:
                    self.counts["gaps"] += 1
                    self._held = {each: held for each, held in self._held.items() if each >= number}
                    return steps + self._ask(self._next)
                steps += self._lose("losses")
            steps += self._take(number, self._held[number])
        return self._settled(steps)

    def replay_failed(self) -> list[Step]:
        """The replay timed out, whole or in part."""
        if self.sync is not Sync.REPLAYING:
            return []
        if self._suspect:
            self.counts["losses"] += 1
            return self.reset()
        steps = self._lose("losses")
        held = sorted(self._held)
        for before, number in zip([-1, *held], held, strict=False):
            if before >= 0 and number > before + 1:
                steps += self._lose("losses")
            steps += self._take(number, self._held[number])
        return self._settled(steps)

    # -----------------------------------------------------------------------------------------------------------------

    def _apply(self, number: int, payload: bytes) -> list[Step]:
        steps = self._take(number, payload)
        return self._settled(steps)

    def _take(self, number: int, payload: bytes) -> list[Step]:
        """Apply one message, regardless of those before it."""
        if number == 0:
            self.whole = True
        elif number != self._next:
            self.whole = False
        self._next = number + 1
        self._stamps[number] = xxh3_64_intdigest(payload)
        self._stamps.pop(number - REMEMBERED, None)
        batch = decode(payload)
        change = batch if isinstance(batch, str) else self.blocks.apply(batch)
        if isinstance(change, str):
            return self._lose("unreadable")
        if change.cleared:
            self.whole = True
        return [change]

    def _lose(self, why: str) -> list[Step]:
        """Drop the index, which may be wrong."""
        self.counts[why] += 1
        self.whole = False
        self.blocks.clear()
        return [Change(cleared=True)]

    def _missed(self, number: int, payload: bytes) -> list[Step]:
        """A gap before `number`, or nothing known of what was before it."""
        if self._next:
            self.counts["gaps"] += 1
        if not self.can_replay:
            lost = self._lose("losses") if self._next else []
            return lost + self._apply(number, payload)
        self._held = {number: payload}
        return self._ask(self._next)

    def _ask(self, following: int) -> list[Step]:
        """Request what follows message `following` − 1, and that one as proof."""
        self.sync = Sync.REPLAYING
        self._requested = following
        self._verify = following > 0
        return [ReplayRequest(max(0, following - 1))]

    def _hold(self, number: int, payload: bytes) -> list[Step]:
        self._held[number] = payload
        return self.replay_failed() if len(self._held) > KEPT else []

    def _restarted(self, number: int, payload: bytes) -> list[Step]:
        """The numbers decreased: another process publishes now."""
        self._held = {}
        self._live = number
        if number == 0:
            return self._lose("restarts") + self._apply(number, payload)
        if not self.can_replay:
            return self._lose("restarts") + self._apply(number, payload)
        steps = self._afresh("restarts")
        self._held = {number: payload}
        return steps

    def _afresh(self, why: str) -> list[Step]:
        """Drop all and request everything."""
        steps = self._lose(why)
        self._next = 0
        self._stamps = {}
        return steps + self._ask(0)

    def _settled(self, steps: list[Step]) -> list[Step]:
        self._held = {}
        self._verify = self._suspect = False
        self.sync = Sync.SYNCED if self._next else Sync.WAITING
        return steps
