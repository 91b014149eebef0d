"""BatchLLM (arXiv 2412.03594): plan a whole queue by its shared prefixes, for offline work.

Every request of the queue belongs to the group of one prefix: of those that it shares with others, the one that saves
most, tokens × (requests that have it − 1). A group's requests are admitted one after another, so that its prefix is
computed once and used while it is there; groups go by Σ outputs / Σ prompts, the largest first, so that later prompts
find decodes to share their steps with. Batches are else those of `chunked`: the paper fills them by KV memory alone, so
give the engine `max_sequences` and `token_budget` that do not bind. Outputs are the predicted ones, else the client's
limit, else `outputs`. The plan is recomputed at each arrival; a prefix is not freed at its group's end,
but evicted by age.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, ClassVar

from poise.core.action import UNTIL_CHANGE, Batch
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, Chunked

Place = tuple[float, int, int]
"""Less is earlier: the group's outputs over prompts (negative), its least request, the request."""


@dataclass(slots=True)
class BatchLlm(Chunked):
    """Compose from a planned queue; `tokens` and `long_prefill` as in `Chunked`. outputs: the default guess."""

    reads_predictions: ClassVar[bool] = True
    decodes_alone: ClassVar[bool] = True

    outputs: int = 256
    _places: dict[int, Place] = field(default_factory=dict, init=False, repr=False, compare=False)
    _line: list[tuple[Place, SequenceView]] = field(default_factory=list, init=False, repr=False, compare=False)
    _new: dict[int, SequenceView] = field(default_factory=dict, init=False, repr=False, compare=False)
    _gone: set[int] = field(default_factory=set, init=False, repr=False, compare=False)
    _sharing: int = field(default=0, init=False, repr=False, compare=False)
    _reported: bool = field(default=False, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.outputs < 1:
            raise ValueError(f"outputs {self.outputs} is no output; give 1 or more")

    def waits(self, sequence: SequenceView, place: Any) -> None:
        """A request begins to wait."""
        self._reported = True
        self._new[sequence.id] = sequence
        self._gone.discard(sequence.id)
        self._sharing += bool(sequence.request.ids)

    def waited(self, sequence: SequenceView) -> None:
        """A request waits no longer."""
        self._sharing -= bool(sequence.request.ids)
        if self._new.pop(sequence.id, None) is None:
            del self._line[bisect_left(self._line, (self._places[sequence.id],))]
            self._gone.add(sequence.id)

    def batch(self, lane: LaneView) -> Batch:
        """As `Chunked`; without room it holds until any change, because arrivals change the plan."""
        batch = Chunked.batch(self, lane)
        return batch._replace(hold=UNTIL_CHANGE) if batch == BLOCKED else batch

    def _ready(self, lane: LaneView) -> Iterator[SequenceView]:
        """The waiting requests as planned."""
        if not self._reported:
            self._line, self._new = [], {each.id: each for each in lane.queue()}
        if self._new:
            self._take_in(list(self._new.values()))
            self._new = {}
        return (sequence for _, sequence in self._line)

    def _take_in(self, new: list[SequenceView]) -> None:
        """Place new requests; replan all where new ones share prefixes."""
        if any(each.id not in self._places for each in new):
            if self._sharing or not self._reported:
                new += [sequence for _, sequence in self._line]
                self._places, self._line = self._plan([each.request for each in new]), []
            else:  # each forms its own group
                for gone in self._gone:
                    del self._places[gone]
                self._places |= self._plan([each.request for each in new])
            self._gone.clear()
        self._line = sorted([*self._line, *((self._places[each.id], each) for each in new)])

    def _plan(self, requests: list[RequestView]) -> dict[int, Place]:
        """Plan all waiting requests."""
        sharing = Counter(prefix for request in requests for prefix in request.ids)
        groups: dict[int, list[RequestView]] = {}
        for request in requests:
            groups.setdefault(self._group(request, sharing), []).append(request)
        places: dict[int, Place] = {}
        for members in groups.values():
            outputs = sum([each.predicted_tokens or each.max_tokens or self.outputs for each in members])
            ratio = outputs / sum([each.prompt_tokens for each in members])
            least = min(each.id for each in members)
            places.update({each.id: (-ratio, least, each.id) for each in members})
        return places

    def _group(self, request: RequestView, sharing: Counter[int]) -> int:
        """The prefix that saves most, or the request alone (a negative number)."""
        saved = [(end * (sharing[prefix] - 1), prefix) for prefix, end in zip(request.ids, request.ends, strict=True)]
        best, prefix = max(saved, default=(0, 0))
        return prefix if best > 0 else -1 - request.id
