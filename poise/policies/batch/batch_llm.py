"""BatchLLM (arXiv 2412.03594): a whole queue planned by its shared prefixes, for work that is there at once.

Every request of the queue belongs to the group of one prefix: of those that it shares with others, the one that saves
most, tokens × (requests that have it − 1). A group's requests are admitted one after another, so that its prefix is
computed once and used while it is there; groups go by Σ outputs / Σ prompts, the largest first, so that later prompts
find decodes to share their steps with. Batches are else those of `chunked`: the paper fills them by KV memory alone, so
give the engine `max_sequences` and `token_budget` that do not bind. Outputs are the predicted ones, else the client's
limit, else `outputs`. The plan is made anew when somebody arrives; a prefix is not freed at its group's end,
eviction by age sees to that.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar

from poise.core.action import UNTIL_CHANGE, Batch
from poise.core.request import RequestView
from poise.core.view import LaneView, SequenceView
from poise.policies.batch.chunked import BLOCKED, Chunked

Place = tuple[float, int, int]
"""Less is earlier: the group's outputs over prompts (negative), its least request, the request."""


@dataclass(slots=True)
class BatchLlm(Chunked):
    """Compose from a planned queue; `tokens` and `long_prefill` as in `Chunked`. outputs: where nobody says."""

    decodes_alone: ClassVar[bool] = True

    outputs: int = 256
    _places: dict[int, Place] = field(default_factory=dict, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.outputs < 1:
            raise ValueError(f"outputs {self.outputs} is no output; give 1 or more")

    def compose(self, lane: LaneView) -> Batch:
        """As `Chunked`; one that finds no room waits for any change, as newcomers change the plan."""
        batch = Chunked.compose(self, lane)
        return batch._replace(hold=UNTIL_CHANGE) if batch == BLOCKED else batch

    def _ready(self, lane: LaneView) -> Iterator[SequenceView]:
        """The waiting requests as planned."""
        queue = list(lane.queue())
        if any(each.id not in self._places for each in queue):
            self._places = self._plan([each.request for each in queue])
        return iter(sorted(queue, key=lambda each: self._places[each.id]))

    def _plan(self, requests: list[RequestView]) -> dict[int, Place]:
        """Everybody's place."""
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
